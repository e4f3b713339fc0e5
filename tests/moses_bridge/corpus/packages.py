"""Debian packages for tests."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


def make_deb(folder: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """A package FOLDER/NAME.deb with files by path."""
    tree = folder / f"{name}-tree"
    for path, data in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(data)
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\n"
        "Maintainer: A <a@example.org>\nDescription: text\n"
    )
    deb = folder / f"{name}.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree, deb],
        check=True,
        capture_output=True,
    )
    return deb
