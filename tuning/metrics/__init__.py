"""Metrics for tuning and for comparing translations: statistics, and values of their sums."""
