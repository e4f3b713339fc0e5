"""What compiled code shares: numbers and words read from bytes, rows written, words looked up."""
