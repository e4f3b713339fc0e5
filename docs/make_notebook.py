"""Run docs/examples/first_column.ipynb by Jupyter's own nbclient, and keep its outputs."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent / "examples" / "first_column.ipynb"
# The style that pandas puts before each table.
STYLE = re.compile(r"<style scoped>.*?</style>\n?", re.DOTALL)
# The header and the metadata of matplotlib, with the time.
BEFORE_PICTURE = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>\n?", re.DOTALL)


def executed(folder: Path, notebook: nbformat.NotebookNode | None = None) -> nbformat.NotebookNode:
    """A notebook (`NOTEBOOK`, if none is given), run in a folder.

    Returns:
        The notebook with its outputs, without what differs from run to run: progress on standard error,
        times of cells, the version of Python.

    Raises:
        CellExecutionError: a cell failed.
    """
    notebook = notebook or nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [_kept(each) for each in cell.outputs if each.get("name") != "stderr"]
    return notebook


def _kept(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """An output without what pandas and matplotlib add for pages of another kind."""
    data = output.get("data", {})
    if "text/html" in data:
        data["text/html"] = STYLE.sub("", data["text/html"])
    if "image/svg+xml" in data:
        data["image/svg+xml"] = BEFORE_PICTURE.sub("", data["image/svg+xml"])
    return output


def main() -> None:
    """Write the notebook with its outputs."""
    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(executed(Path(folder)), NOTEBOOK)


if __name__ == "__main__":
    main()
