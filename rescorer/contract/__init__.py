"""The interface of a scorer, and what its users may rely on."""
