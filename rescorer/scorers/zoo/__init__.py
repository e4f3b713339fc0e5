"""Architectures that gained nothing in the experiments; found as those of a user are."""
