"""A whole model from a corpus: what is made, what is kept, what is refused."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.errors import ConfigError, InputError, ToolError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.builtin.build import BuildConfig, build_model
from moses_bridge.formats.moses_ini import read_ini

REORDERING = "reordering-table.wbe-msd-bidirectional-fe.gz"
PRODUCTS = ("lex.e2f", "lex.f2e", "phrase-table.gz", REORDERING, "lm.arpa.gz")


@pytest.fixture(autouse=True)
def no_lmplz(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty directory is the whole PATH."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    return programs


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_lines(tmp_path / "train.en", [b"the house", b"the old house", b"old"] * 3)
    write_lines(tmp_path / "train.fr", [b"la maison", b"la vieille maison", b"vieille"] * 3)
    write_lines(tmp_path / "links.gz", [b"0-0 1-1", b"0-0 1-1 2-2", b"0-0"] * 3)
    return tmp_path / "train"


def build(corpus: Path, options: BuildConfig | None = None) -> dict[str, int]:
    """Build with the given links; when each product was written, in ns."""
    out = corpus.parent / "model"
    build_model(
        corpus, "en", "fr", out, options or BuildConfig(), corpus.parent / "links.gz", jobs=2
    )
    return {name: (out / name).stat().st_mtime_ns for name in PRODUCTS}


def test_ini_names_the_tables(corpus: Path) -> None:
    build(corpus)
    ini = read_ini(corpus.parent / "model" / "moses.ini")
    paths = {
        name: Path(ini.feature(name).arguments["path"])
        for name in ("TranslationModel0", "LexicalReordering0", "LM0")
    }
    assert {name: path.name for name, path in paths.items()} == {
        "TranslationModel0": "phrase-table.gz",
        "LexicalReordering0": REORDERING,
        "LM0": "lm.arpa.gz",
    }
    assert all(path.is_file() for path in paths.values())
    assert len(ini.weights["TranslationModel0"]) == 4
    rows = list(read_lines(paths["TranslationModel0"]))
    reordering = list(read_lines(paths["LexicalReordering0"]))
    assert [row.split(b" ||| ")[:2] for row in rows] == [r.split(b" ||| ")[:2] for r in reordering]
    # the, house, old, the house, the old, old house, the old house
    assert len(rows) == 7


def test_second_run_makes_nothing_anew(corpus: Path) -> None:
    assert build(corpus) == build(corpus)


@pytest.mark.parametrize(
    ("changed", "remade"),
    [
        ({"smoothing": "none"}, set(PRODUCTS[:4])),
        ({"max_phrase_words": 2}, set(PRODUCTS[:4])),
        ({"lm_order": 2, "lm_prune": (0,)}, {"lm.arpa.gz"}),
    ],
)
def test_other_settings_remake_what_depends_on_them(
    corpus: Path, changed: dict[str, object], remade: set[str]
) -> None:
    before = build(corpus)
    after = build(corpus, dataclasses.replace(BuildConfig(), **changed))
    assert {name for name in PRODUCTS if before[name] != after[name]} == remade


def test_interrupted_build_goes_on(corpus: Path) -> None:
    before = build(corpus)
    (corpus.parent / "model" / "lm.arpa.gz").unlink()
    after = build(corpus)
    assert {name for name in PRODUCTS if before[name] != after[name]} == {"lm.arpa.gz"}


def test_newer_text_remakes_all(corpus: Path) -> None:
    before = build(corpus)
    later = max(before.values()) + 10**9
    os.utime(f"{corpus}.fr", ns=(later, later))
    after = build(corpus)
    assert all(before[name] != after[name] for name in PRODUCTS)


def test_links_are_made_where_none_are_given(corpus: Path) -> None:
    out = corpus.parent / "aligned"
    build_model(corpus, "en", "fr", out, BuildConfig(lm_order=2, lm_prune=(0,)))
    assert len(list(read_lines(out / "aligned.grow-diag-final-and.gz"))) == 9
    assert (out / "moses.ini").exists()


def test_lmplz_is_used_where_it_is_installed(corpus: Path, no_lmplz: Path) -> None:
    program = no_lmplz / "lmplz"
    program.write_text(
        '#!/bin/sh\nwords=$*\nwhile [ "$1" != --arpa ]; do shift; done\necho "$words" > "$2"\n'
    )
    program.chmod(0o755)
    build(corpus)
    (line,) = read_lines(corpus.parent / "model" / "lm.arpa.gz")
    assert line.startswith(b"-o 5 --prune 0 0 1 --discount_fallback --text")


def test_failing_lmplz_is_told(corpus: Path, no_lmplz: Path) -> None:
    program = no_lmplz / "lmplz"
    program.write_text("#!/bin/sh\necho 'too little memory' >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(ToolError, match="status 3: too little memory"):
        build(corpus)
    assert not (corpus.parent / "model" / "lm.arpa.gz").exists()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"max_phrase_words": 0}, "max_phrase_words is 0; the smallest value is 1"),
        ({"max_phrase_words": 8}, "max_phrase_words is 8; the largest value is 7"),
        ({"lm_order": 17}, "lm_order is 17; the largest value is 16"),
        ({"lm_prune": (0, -1)}, "lm_prune is -1; the smallest value is 0"),
    ],
)
def test_settings_out_of_their_limits_are_refused(change: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        BuildConfig(**change)


def test_a_path_that_moses_cuts_is_told_before_the_work(corpus: Path) -> None:
    out = corpus.parent / "my model"
    with pytest.raises(InputError, match="my model"):
        build_model(corpus, "en", "fr", out, BuildConfig(), jobs=1)
    assert not out.exists()


@pytest.mark.parametrize("text", [b"", b"\n"])
def test_texts_without_phrase_pairs_are_told(tmp_path: Path, text: bytes) -> None:
    for name in ("train.en", "train.fr"):
        (tmp_path / name).write_bytes(text)
    out = tmp_path / "model"
    with pytest.raises(InputError, match=r"train\.en: found no phrase pair"):
        build_model(tmp_path / "train", "en", "fr", out, BuildConfig(), jobs=1)
    assert not (out / "phrase-table.gz").exists()
    assert not (out / "moses.ini").exists()


def test_missing_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a readable file"):
        build_model(tmp_path / "none", "en", "fr", tmp_path / "model", BuildConfig())
