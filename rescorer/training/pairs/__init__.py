"""Phrase pairs from a table to the pools of a training."""
