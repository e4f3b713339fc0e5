"""The tuning loop, its initial weights, and the files of a run."""
