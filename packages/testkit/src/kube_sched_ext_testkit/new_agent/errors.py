"""Why no agent is made."""


class NewAgentError(Exception):
    """What is wrong, and what would be right; nothing has been written."""
