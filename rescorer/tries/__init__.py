"""Recurrent networks over prefix trees: each distinct prefix is computed once, in training and in scoring."""
