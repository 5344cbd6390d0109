"""Prefers nodes with little network traffic."""
