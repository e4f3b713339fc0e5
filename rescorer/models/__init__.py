"""One network a module."""
