"""The files and programs of Moses, and built-in stand-ins for the programs."""
