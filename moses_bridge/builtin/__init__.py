"""Stand-ins that run where no program of Moses is installed: same files in, same files out."""
