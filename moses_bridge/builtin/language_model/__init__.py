"""From target text to a language model in ARPA format."""
