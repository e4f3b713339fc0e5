"""CSLM, a feed-forward language model (Schwenk 2007)."""
