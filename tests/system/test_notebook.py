"""The notebook of docs/examples runs from its first cell to its last, and has the outputs of such a run."""

from __future__ import annotations

import os
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbclient", reason="nbclient, of the extra `docs`, is not installed")
pytest.importorskip("ipykernel", reason="ipykernel, of the extra `docs`, is not installed")
import nbformat
from nbclient.exceptions import CellExecutionError

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOTEBOOK = DOCS / "examples" / "first_column.ipynb"
MOST_BYTES = 200_000
# Paths and times of the machine on which it was run.
OF_A_MACHINE = re.compile(r"/(?:home|root|tmp|work|usr)\b|\d\d:\d\d|\d{4}-\d\d-\d\d")


@pytest.fixture(scope="module")
def maker() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_notebook.py"))


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebook starts a command."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)


def outputs(notebook: nbformat.NotebookNode) -> list[tuple[str, ...]]:
    """The kinds of the outputs of each cell."""
    return [
        tuple(kind for output in cell.outputs for kind in sorted(output.get("data", {"text": ""})))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_each_cell_runs_and_shows_what_it_showed(maker: dict[str, Any], tmp_path: Path) -> None:
    assert outputs(maker["executed"](tmp_path)) == outputs(nbformat.read(NOTEBOOK, as_version=4))
    assert (tmp_path / "first_column" / "rnn" / "phrase-table.gz").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_a_cell_that_fails_is_noticed(maker: dict[str, Any], tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("import rescorer.nowhere")]
    )
    with pytest.raises(CellExecutionError, match="nowhere"):
        maker["executed"](tmp_path, notebook)


def test_the_outputs_are_small_and_name_no_machine() -> None:
    text = NOTEBOOK.read_text()
    assert len(text) < MOST_BYTES
    assert OF_A_MACHINE.findall(text) == []
    shown = set().union(*outputs(nbformat.read(NOTEBOOK, as_version=4)))
    assert {"text/html", "image/svg+xml"} <= shown
