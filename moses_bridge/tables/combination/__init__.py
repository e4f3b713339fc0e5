"""Several phrase tables combined into one."""
