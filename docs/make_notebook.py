"""Run docs/examples/first_column.ipynb, keep its outputs, and write the page that shows it, first_column.md.

Jupyter's own nbclient runs it. The page is Markdown with the tables of the outputs, so that the site
lists and finds it; its picture is a file in docs/images.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent / "examples" / "first_column.ipynb"
PAGE = NOTEBOOK.with_suffix(".md")
PICTURE = Path(__file__).parent / "images" / "first_column.svg"
PICTURE_TEXT = "BLEU and weights of a tuning, by iteration"
INTRODUCTION = "This page is made by `make notebook` from [a notebook](first_column.ipynb)."
# What pandas puts before each table, for pages without a style of their own.
STYLE = re.compile(r"<style scoped>.*?</style>\n?", re.DOTALL)
TABLE = re.compile(r"<table [^>]*>")
# What matplotlib says of the file, with the time.
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


def page(notebook: nbformat.NotebookNode) -> str:
    """The notebook as Markdown."""
    first, *others = (_of_cell(cell) for cell in notebook.cells)
    title, _, text = first.partition("\n\n")
    return "\n\n".join([title, INTRODUCTION, text, *others]) + "\n"


def picture(notebook: nbformat.NotebookNode) -> str:
    """The notebook's one picture, as SVG."""
    outputs = [each for cell in notebook.cells for each in cell.get("outputs", [])]
    (found,) = (
        each["data"]["image/svg+xml"] for each in outputs if "image/svg+xml" in each.get("data", {})
    )
    return f"{found.strip()}\n"


def _of_cell(cell: nbformat.NotebookNode) -> str:
    if cell.cell_type == "markdown":
        return str(cell.source)
    return "\n\n".join([f"```python\n{cell.source}\n```", *map(_of_output, cell.outputs)])


def _of_output(output: nbformat.NotebookNode) -> str:
    """A link to the picture, a table or text."""
    data: dict[str, Any] = output.get("data", {"text/plain": output.get("text", "")})
    if "image/svg+xml" in data:
        return f"![{PICTURE_TEXT}](../images/{PICTURE.name})"
    if "text/html" in data:
        # HTML ends at an empty line in Markdown; the site lays out tables without a class.
        text = TABLE.sub("<table>", re.sub(r"\n\s*\n", "\n", data["text/html"].strip()))
        return f"<div>\n{text}\n</div>"
    return f"```text\n{data['text/plain'].strip()}\n```"


def main() -> None:
    """Write the notebook and its page."""
    with tempfile.TemporaryDirectory() as folder:
        notebook = executed(Path(folder))
    nbformat.write(notebook, NOTEBOOK)
    PAGE.write_text(page(notebook), encoding="utf-8")
    PICTURE.write_text(picture(notebook), encoding="utf-8")


if __name__ == "__main__":
    main()
