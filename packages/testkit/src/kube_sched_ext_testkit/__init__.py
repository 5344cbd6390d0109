"""Test agents and extenders: builders, direct questions, a scheduler-side client."""
