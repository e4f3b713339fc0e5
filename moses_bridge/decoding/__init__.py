"""Moses or the built-in search behind one interface."""
