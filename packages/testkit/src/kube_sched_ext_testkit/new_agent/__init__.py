"""New agents from the template, which is the agent foo."""
