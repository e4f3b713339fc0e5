"""The tuning loop, where it starts, and what a run leaves on disk."""
