"""Model directories and what wraps the scorer of one."""
