"""Neural scorers for phrase pairs: training, scoring, and the columns they add to Moses's files."""
