"""Scores of detokenised text; tests/tuning/test_output_scores.py sets them beside sacreBLEU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuning.detokenised import DetokenisedReferences


def test_ter_with_several_references_and_processes(tmp_path: Path) -> None:
    """More distinct pairs than one task has, so that processes are started."""
    output, reference = tmp_path / "output", tmp_path / "reference"
    output.write_text("".join(f"un chat {number}\n" for number in range(300)))
    reference.write_text("".join(f"un chat {number + 1}\n" for number in range(300)))
    references = [reference, output]
    one, two = (DetokenisedReferences(references, "fr", jobs).scores([output]) for jobs in (1, 2))
    assert one == two
    assert (one[0].chrf, one[0].ter) == (pytest.approx(100), 0)
