"""The template agent: accepts every node, scores each 1."""
