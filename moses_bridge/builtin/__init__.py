"""Replacements for programs of Moses that are not installed: same files in, same files out."""
