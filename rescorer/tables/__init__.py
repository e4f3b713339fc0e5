"""Phrase tables with added columns; knows no network."""
