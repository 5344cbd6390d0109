"""Prefers nodes with a low `congestion-factor` annotation."""
