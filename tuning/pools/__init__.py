"""Pools: n-best lists as features and BLEU statistics."""
