"""The command moses-bridge, for `python -m moses_bridge`."""

from __future__ import annotations

from moses_bridge.cli import main

if __name__ == "__main__":
    main(prog_name="moses-bridge")
