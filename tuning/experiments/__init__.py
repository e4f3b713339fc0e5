"""Experiments as data: settings, systems and tables in TOML, and the plan followed by make."""
