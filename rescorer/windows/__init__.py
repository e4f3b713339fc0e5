"""Feed-forward networks over windows of words: each distinct window is computed once."""
