"""Files and functions that the pages about the code name exist, and the picture of the rooms is current."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [DOCS / "core.md", DOCS / "architecture.md", *sorted((DOCS / "decisions").glob("*.md"))]
PACKAGES = ("moses_bridge", "rescorer", "tuning")
CODE = re.compile(r"`([^`\n]+)`")
# A path from the root of the repository; a room alone, like `tries/`, is none.
PATH = re.compile(r"(?:moses_bridge|rescorer|tuning|tests|docs)/[\w/.]*")
NAME = re.compile(r"(?:moses_bridge|rescorer|tuning)(?:\.\w+)+")


def named_in(text: str) -> tuple[set[str], set[str]]:
    """The paths and the dotted names that a page has in code."""
    spans = CODE.findall(text)
    return (
        {span for span in spans if PATH.fullmatch(span)},
        {span for span in spans if NAME.fullmatch(span)},
    )


def found(name: str) -> object:
    """The module, or what it defines; a class may be followed by what it has."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            result: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            result = getattr(result, part)
        return result
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_exists(page: Path) -> None:
    paths, names = named_in(page.read_text())
    for path in paths:
        assert (ROOT / path).exists(), path
    for name in names:
        assert found(name) is not None, name


def test_the_walk_names_files_and_functions() -> None:
    """A page whose code spans are not understood would pass without a look."""
    paths, names = named_in((DOCS / "core.md").read_text())
    assert len(paths) >= 8
    assert len(names) >= 30


@pytest.mark.parametrize("name", ["rescorer.nowhere", "rescorer.runs.train.nothing", "nowhere.at"])
def test_a_name_that_does_not_exist_is_noticed(name: str) -> None:
    with pytest.raises((ModuleNotFoundError, AttributeError)):
        found(name)


def test_the_map_is_short_and_has_every_room() -> None:
    text = (DOCS / "architecture.md").read_text()
    assert len(text.splitlines()) <= 80
    for package in PACKAGES:
        for folder in (ROOT / package).iterdir():
            if folder.is_dir() and (folder / "__init__.py").exists() and folder.name != "cli":
                assert f"`{folder.name}/`" in text, folder


def test_the_picture_of_the_rooms_is_that_of_the_imports() -> None:
    script = runpy.run_path(str(DOCS / "make_rooms.py"))
    modules = script["module_files"]()
    rooms = {script["room_of"](name) for name in modules if name.count(".")}
    assert {room for room in rooms if not room.endswith(".__main__")} == set(script["ROOMS"])
    assert (DOCS / "images" / "rooms.svg").read_text() == script["picture"](), "make rooms"
