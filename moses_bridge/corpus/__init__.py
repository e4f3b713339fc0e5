"""Parallel text: where it comes from, and how it is cleaned, tokenised and split."""
