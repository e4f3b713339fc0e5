"""Results for readers: what stands in a table, and one module for each form that it is written in."""
