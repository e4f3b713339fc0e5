"""From text with word links to the phrase table and the reordering table."""
