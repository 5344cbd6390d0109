"""Prefers nodes that already have the images of a pod."""
