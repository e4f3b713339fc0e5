"""The command rescorer, for `python -m rescorer` and `torchrun -m rescorer`."""

from __future__ import annotations

from rescorer.cli import main

if __name__ == "__main__":
    main(prog_name="rescorer")
