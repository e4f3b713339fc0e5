"""What every module may import: text, errors, settings, progress, processes."""
