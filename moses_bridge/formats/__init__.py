"""Readers and writers of the files of Moses, one format a module."""
