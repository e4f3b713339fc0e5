"""Decoding by Moses or by the decoder of this package, through one interface."""
