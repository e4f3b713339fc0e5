"""Phrase tables filtered and pruned."""
