"""What weights are tuned for and translations are measured by: statistics, and numbers of their sums."""
