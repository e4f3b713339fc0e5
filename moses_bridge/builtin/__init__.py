"""Built-in programs for the work of those of Moses: same files in, same files out."""
