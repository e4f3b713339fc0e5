"""Tuning of log-linear weights against BLEU, and comparison of the tuned systems."""
