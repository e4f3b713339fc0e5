"""Shared by compiled code: reading numbers and words from bytes, writing rows, looking up words."""
