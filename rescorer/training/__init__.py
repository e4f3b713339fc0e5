"""From data to a model directory, the same way for every network."""
