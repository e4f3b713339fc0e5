"""Results for readers: contents of tables, and one module for each output format."""
