"""The folder of stored outputs: its text comes from its generator, its page names its files."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path


def test_the_text_is_that_of_its_generator(small_golden: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, small_golden / "made_text.py", tmp_path], check=True)
    for name in ("corpus.en", "corpus.fr", "forward.align", "reverse.align"):
        stored = gzip.decompress((small_golden / "extract" / f"{name}.gz").read_bytes())
        assert (tmp_path / name).read_bytes() == stored
    for name, stored_as in (
        ("test.en", "decode/input.en"),
        ("test.fr", "decode/reference.fr"),
        ("dev.en", "mert/input.en"),
        ("dev.fr", "mert/reference.fr"),
    ):
        assert (tmp_path / name).read_bytes() == (small_golden / stored_as).read_bytes()


def test_every_file_is_explained_and_all_are_small(small_golden: Path) -> None:
    page = (small_golden / "README.md").read_text("utf-8")
    files = [path for path in small_golden.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    missing = [path.name for path in files if path.name.removesuffix(".gz") not in page]
    assert missing == ["README.md"]
    assert sum(path.stat().st_size for path in files) < 700_000
