"""The documentation as a site: it builds without a warning, fetches nothing and works from disk."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# The whole site is built.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# What a page loads by itself; links that a reader may follow are none of it.
LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]+src=["']?(?:https?:)?//|<link[^>]+href=["'](?:https?:)?//"""
)


SOURCES = ("docs", "mkdocs.yml", "moses_bridge", "rescorer", "tuning")
SHOWN = (
    "index",
    "quickstart",
    "which",
    "results",
    "commands",
    "api/tuning",
)
FOCUS = """() => { let each = document.activeElement;
  while (each?.shadowRoot?.activeElement) each = each.shadowRoot.activeElement; return each; }"""
LIMIT = 60_000  # milliseconds, of a busy machine
FOUND = """() => [...document.querySelectorAll("*")].filter((each) => each.shadowRoot)
  .flatMap((each) => [...each.shadowRoot.querySelectorAll("a")]).map((each) => each.href)"""


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of the sources in a folder."""
    # Zensical's own warnings end a strict build; those of Python in the libraries that it loads are not ours.
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for name in SOURCES:
        place = ROOT / name
        copy = shutil.copytree if place.is_dir() else shutil.copy
        copy(place, folder / name)
    result = build(folder)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder / "build" / "site"


@pytest.fixture
def page(browser: Browser, site: Path) -> Iterator[Page]:
    """The first page, opened from disk."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(LIMIT)
    opened.goto((site / "index.html").as_uri())
    yield opened
    opened.close()


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    navigation = (ROOT / "mkdocs.yml").read_text()
    decisions = (ROOT / "docs" / "decisions" / "index.md").read_text()
    for page in pages:
        assert (site / page.with_suffix(".html")).exists(), page
        if page.as_posix() in navigation:
            continue
        # A menu of all decisions would be too long.
        assert page.parent.name == "decisions"
        assert f"]({page.name})" in decisions, page


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


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("[x](nowhere.md)", "page does not exist"),
        ("[x](index.md#nowhere)", "anchor does not exist"),
        ("::: rescorer.nowhere", "Could not collect 'rescorer.nowhere'"),
    ],
)
def test_a_wrong_link_ends_the_build(tmp_path: Path, link: str, message: str) -> None:
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text().split("\nnav:")[0])
    (tmp_path / "docs").mkdir()
    shutil.copytree(ROOT / "docs" / "site", tmp_path / "docs" / "site")
    (tmp_path / "docs" / "index.md").write_text(f"# A page\n\n{link}\n")
    (tmp_path / "rescorer").mkdir()
    (tmp_path / "rescorer" / "__init__.py").write_text(
        '"""A package without what is asked for."""\n'
    )
    result = build(tmp_path)
    assert result.returncode == 1
    assert message in result.stdout + result.stderr


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_window_or_complains(
    browser: Browser, site: Path, width: int
) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 844})
    complaints: list[str] = []
    asked_for: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda request: asked_for.append(request.url))
    for name in SHOWN:
        opened.goto((site / f"{name}.html").as_uri())
        assert opened.evaluate("document.documentElement.scrollWidth") <= width, name
    assert complaints == []
    assert [url for url in asked_for if not url.startswith(("file:", "data:", "blob:"))] == []
    opened.close()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("--shortlist_coverage", "settings.html"),
        ("--neural-lm", "formats.html"),
        ("Kneser", "decisions/ngrams-in-parts.html"),
    ],
)
def test_a_page_on_disk_can_be_searched(page: Page, words: str, found: str) -> None:
    search(page, words)
    page.wait_for_function(f"({FOUND})().some((each) => each.includes({found!r}))")


@pytest.mark.parametrize("option", ["--init-weights", "--nbest-size"])
def test_an_option_is_found_where_the_commands_are(page: Page, option: str) -> None:
    """Before functions with parameters of that name."""
    search(page, option)
    page.wait_for_function(f"/commands[.]html#.*{option[1:]}$/.test(({FOUND})()[0])")


def search(page: Page, words: str) -> None:
    page.locator(".md-search__button").first.click()
    page.wait_for_function(f"({FOCUS})()?.matches('input')")
    page.keyboard.type(words, delay=20)


def test_pages_are_listed_and_code_is_coloured(page: Page, site: Path) -> None:
    names = page.locator(".md-sidebar--primary a").all_text_contents()
    assert {"Quick start", "Glossary", "Settings"} <= {name.strip() for name in names}
    page.goto((site / "api" / "index.html").as_uri())
    code = page.locator("pre code").first
    colours = code.evaluate(
        "each => [...each.querySelectorAll('span')].map((span) => getComputedStyle(span).color)"
    )
    assert len(set(colours)) >= 3
