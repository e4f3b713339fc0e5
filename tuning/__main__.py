"""The command tuning, for `python -m tuning`."""

from __future__ import annotations

from tuning.cli import main

if __name__ == "__main__":
    main(prog_name="tuning")
