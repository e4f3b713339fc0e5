"""The files and programs of Moses, and built-in programs that do the same work."""
