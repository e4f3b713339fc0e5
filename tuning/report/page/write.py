"""The page as one HTML file: template, style, scripts and data in it, nothing loaded from elsewhere."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from moses_bridge.base.progress import Progress
from moses_bridge.base.textio import write_bytes
from moses_bridge.formats.words import without_escapes
from tuning.compare.translated_text import Output, TranslatedText
from tuning.report.page.contents import PageContents, gather
from tuning.report.page.inputs import ReportInputs

HERE = Path(__file__).parent
# Texts that would end a script element or begin a comment in it are written as escapes.
IN_SCRIPT = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def write_report(inputs: ReportInputs, out: Path) -> None:
    """Write a report on tuning runs as one self-contained HTML page, opened from disk.

    The same inputs give the same bytes.

    Raises:
        InputError: a file is missing or malformed.
        ConfigError: there is nothing to show, the options do not fit together, or no plotting library is
            installed.
        OSError: the page cannot be written.
    """
    contents = gather(inputs)
    with Progress("report: page", 2, "steps") as progress:
        library = plotting_library()
        progress.update(note="scripts joined")
        page = render(contents, library)
        write_bytes(out, page.encode("utf-8", "replace"))
        progress.update(note="written")


def render(contents: PageContents, library: str) -> str:
    """The page as text; the library is JavaScript defining vegaEmbed."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (HERE / "page.js").read_text("utf-8")
    charts = {
        chart.name: {key: getattr(chart, key) for key in ("spec", "renderer", "zoomed", "fields")}
        for chart in contents.charts
    }
    return environment.get_template("page.html").render(
        contents=contents,
        style=Markup((HERE / "page.css").read_text("utf-8")),
        scripts=[Markup(text) for text in (library, script)],
        policy=_policy(library, script),
        charts=_script_data(charts),
        text=_script_data(None if contents.text is None else _text_data(contents.text)),
    )


def _policy(*scripts: str) -> str:
    """The permissions of the browser: run these scripts, request nothing.

    Vega compiles the expressions of its specifications, hence 'unsafe-eval'; text of a corpus is never one.
    """
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _digest(script: str) -> str:
    return b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _script_data(value: Any) -> Markup:
    """JSON for a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(IN_SCRIPT))


def _text_data(text: TranslatedText) -> dict[str, Any]:
    """Sentences as short lists: source, references, distinct outputs, and each system's output among them."""
    return {
        "systems": text.systems,
        "sentences": [
            [
                without_escapes(sentence.source),
                [without_escapes(reference) for reference in sentence.references],
                *_distinct(sentence.outputs),
            ]
            for sentence in text.sentences
        ],
    }


def _distinct(outputs: Sequence[Output]) -> tuple[list[list[Any]], list[int]]:
    """Text, BLEU, chrF and changed words of each distinct output, and each system's output among them."""
    distinct = {output.text: output for output in outputs}
    places = {text: place for place, text in enumerate(distinct)}
    rows: list[list[Any]] = []
    for each in distinct.values():
        scores = round(each.bleu, 2), round(each.chrf, 2)
        rows.append([without_escapes(each.text), *scores, each.gone, each.added])
    return rows, [places[output.text] for output in outputs]


EXPORTED = "window.vegaEmbed = vegaEmbed;"


@cache
def plotting_library() -> str:
    """The library, ready for a `<script>`; it takes some seconds to join it."""
    import vl_convert

    # Inside a script element "</script" and "<!--" would end it or change how it is read.
    return (
        str(vl_convert.javascript_bundle(EXPORTED))
        .replace("</script", "<\\/script")
        .replace("<!--", "<\\!--")
    )
