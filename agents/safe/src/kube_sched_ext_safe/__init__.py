"""Avoids nodes at risk of overload."""
