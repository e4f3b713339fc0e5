"""Moses or the built-in decoder behind one interface."""
