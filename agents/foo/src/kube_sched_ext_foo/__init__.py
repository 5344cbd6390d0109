"""Accepts every node, scores each 1."""
