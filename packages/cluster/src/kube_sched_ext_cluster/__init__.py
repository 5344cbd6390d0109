"""Live clusters: a view that follows nodes and bound pods, the bind verb, the nudge."""
