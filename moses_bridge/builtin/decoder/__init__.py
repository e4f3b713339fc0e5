"""A phrase-based stack decoder with cube pruning."""
