"""Looking inside: what a network has learned of words and phrases, and what it prefers."""
