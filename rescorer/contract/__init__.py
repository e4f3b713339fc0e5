"""What a scorer is, and what everything that uses one may know of it."""
