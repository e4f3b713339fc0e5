"""Scanning one weight over full decodings."""
