"""Comparing tuned systems on a test text."""
