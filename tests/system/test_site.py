"""The documentation as a site: it builds without a warning and fetches nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

# The whole site is built.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# What a page loads by itself; links that a reader may follow are none of it.
LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]+src=["']?(?:https?:)?//|<link[^>]+href=["'](?:https?:)?//"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    # MkDocs's own warnings end a strict build; those of Python in the libraries that it loads are not ours.
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    navigation = (ROOT / "mkdocs.yml").read_text()
    decisions, journal, results = (
        (ROOT / "docs" / name).read_text()
        for name in ("decisions/index.md", "journal/index.md", "results.md")
    )
    for page in pages:
        assert (site / page.with_suffix(".html")).exists(), page
        if page.as_posix() in navigation:
            continue
        # A menu of all decisions, or of what was measured when, would be too long.
        if page.as_posix() == "journal/index.md":
            assert "](journal/index.md)" in results
        else:
            lists = {"decisions": decisions, "journal": journal}
            assert f"]({page.name})" in lists[page.parent.name], page


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not LOADED.search(page.read_text()), page


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("moses_bridge", "moses_bridge.formats.phrase_table.read_rows"),
        ("rescorer", "rescorer.views.maps.draw_maps"),
        ("tuning", "tuning.optimisers.mert.optimize_mert"),
    ],
)
def test_functions_stand_on_the_pages_of_their_packages(site: Path, page: str, name: str) -> None:
    assert f'id="{name}"' in (site / "api" / f"{page}.html").read_text()
