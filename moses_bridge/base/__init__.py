"""Modules that any other may import: text, errors, settings, progress, processes."""
