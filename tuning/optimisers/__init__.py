"""Optimisers: weights with a high BLEU on a pool of n-best lists."""
