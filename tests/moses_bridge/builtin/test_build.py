"""A whole model from a corpus: what is made, what is kept, what is refused."""

from __future__ import annotations

import dataclasses
import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.errors import ConfigError, InputError, ToolError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.builtin import build as steps
from moses_bridge.builtin.aligner import link_text, train_aligner
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


def test_without_reordering_phrases_keep_their_order(corpus: Path, tmp_path: Path) -> None:
    build(corpus)
    out = tmp_path / "in-order"
    config = BuildConfig(reordering="none")
    build_model(corpus, "en", "fr", out, config, tmp_path / "links.gz")
    ini = read_ini(out / "moses.ini")
    assert ini.settings["distortion-limit"] == ("0",)
    assert [*ini.weights] == [
        "UnknownWordPenalty0", "WordPenalty0", "PhrasePenalty0", "TranslationModel0", "LM0"
    ]  # fmt: skip
    assert not (out / REORDERING).exists()
    tables = [folder / "phrase-table.gz" for folder in (out, tmp_path / "model")]
    assert tables[0].read_bytes() == tables[1].read_bytes()
    build_model(corpus, "en", "fr", out, BuildConfig(), tmp_path / "links.gz")
    assert (out / REORDERING).exists()


def test_how_the_corpus_was_made_is_beside_the_model(corpus: Path) -> None:
    for name in ("corpus.json", "truecase.en", "truecase.fr", "truecase.de"):
        (corpus.parent / name).write_text(f"{name}\n")
    build(corpus)
    found = [path.name for path in sorted((corpus.parent / "model").glob("[ct][or][ru]*"))]
    assert found == ["corpus.json", "truecase.en", "truecase.fr"]
    assert (corpus.parent / "model/truecase.fr").read_text() == "truecase.fr\n"


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


def test_what_an_interrupted_build_of_other_settings_left_is_made_again(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    build(corpus)
    table = corpus.parent / "model" / "phrase-table.gz"
    rows = table.read_bytes()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(steps, "reordering_probs", interrupted)
        build(corpus, BuildConfig(max_phrase_words=1))
    assert table.read_bytes() != rows
    build(corpus)
    assert table.read_bytes() == rows


def test_other_texts_of_the_same_size_and_time_remake_what_depends_on_them(corpus: Path) -> None:
    before = build(corpus)
    text = Path(f"{corpus}.fr")
    times = text.stat().st_atime_ns, text.stat().st_mtime_ns
    text.write_bytes(text.read_bytes().replace(b"vieille", b"ancienn"))
    os.utime(text, ns=times)
    assert all(before[name] != at for name, at in build(corpus).items())
    assert b"ancienn" in gzip.decompress((corpus.parent / "model" / "lm.arpa.gz").read_bytes())


def test_a_touched_text_remakes_nothing(corpus: Path) -> None:
    before = build(corpus)
    later = max(before.values()) + 10**9
    os.utime(f"{corpus}.fr", ns=(later, later))
    assert build(corpus) == before


def test_other_links_remake_the_tables_alone(corpus: Path) -> None:
    before = build(corpus)
    write_lines(corpus.parent / "links.gz", [b"0-0", b"0-0 2-2", b"0-0"] * 3)
    after = build(corpus)
    assert {name for name in PRODUCTS if before[name] != after[name]} == set(PRODUCTS[:4])


def test_swapped_languages_give_the_model_of_the_other_direction(corpus: Path) -> None:
    files = {}
    for out, source, target in (("a", "en", "fr"), ("a", "fr", "en"), ("b", "fr", "en")):
        folder = corpus.parent / out
        build_model(corpus, source, target, folder, BuildConfig(), corpus.parent / "links.gz")
        files[out] = [(folder / name).read_bytes() for name in PRODUCTS]
    assert files["a"] == files["b"]


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
        ({"max_phrase_words": 13}, "max_phrase_words is 13; the largest value is 12"),
        ({"lm_order": 17}, "lm_order is 17; the largest value is 16"),
        ({"lm_prune": (0, -1)}, "lm_prune is -1; the smallest value is 0"),
        ({"lm_order": 2}, r"more numbers than the order 2; .* such as lm_prune = \[0, 0\]"),
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


@pytest.mark.parametrize(
    ("language", "word", "n_more"),
    [
        ("en", b"|||", 0),
        ("en", b"a|b", 0),
        ("fr", b"a|b", 2),
        ("en", b"[X]", 0),
        ("fr", b"[NP]", 1),
        ("fr", b"<s>", 0),
        ("fr", b"</s>", 1),
        ("fr", b"<unk>\r", 0),
    ],
)
def test_words_with_a_meaning_of_their_own_are_told_before_the_work(
    corpus: Path, language: str, word: bytes, n_more: int
) -> None:
    lines = list(read_lines(f"{corpus}.{language}"))
    for number in range(1, 2 + n_more):
        lines[number] += b" " + word
    write_lines(f"{corpus}.{language}", lines)
    out = corpus.parent / "model"
    with pytest.raises(InputError, match=r"expected plain words.*Escape them") as caught:
        build_model(corpus, "en", "fr", out, BuildConfig())
    assert caught.value.line == 2
    assert caught.value.found.startswith(f"the word '{word.strip().decode()}")
    assert (f"in {n_more} more lines" in caught.value.found) == (n_more > 0)
    assert not out.exists()


def test_words_that_only_look_special_are_built(corpus: Path) -> None:
    for language in ("en", "fr"):
        lines = list(read_lines(f"{corpus}.{language}"))
        write_lines(f"{corpus}.{language}", [line + b" [ ] <p> &#124; [x" for line in lines])
    # In the source a marker of the language model is a word as any other.
    Path(f"{corpus}.en").write_bytes(Path(f"{corpus}.en").read_bytes().replace(b"<p>", b"<s>"))
    assert build(corpus).keys() == set(PRODUCTS)


def test_what_can_be_read_only_once_is_refused(corpus: Path) -> None:
    with pytest.raises(InputError, match=r"-: found standard input.*read several times"):
        build_model(corpus, "en", "fr", corpus.parent / "model", BuildConfig(), Path("-"))


def test_a_kept_aligner_links_the_corpus(corpus: Path, tmp_path: Path) -> None:
    """What another aligner links is made again, and what the same one has linked is not."""
    texts = Path(f"{corpus}.en"), Path(f"{corpus}.fr")
    out = tmp_path / "model"
    times = []
    for kind in ("fast-align", "eflomal"):
        aligner = tmp_path / kind
        train_aligner(*texts, aligner, kind)
        link_text(*texts, aligner, tmp_path / f"{kind}.gz")
        for _ in range(2):
            build_model(corpus, "en", "fr", out, BuildConfig(), aligner=aligner)
            times.append((out / steps.LINKS_NAME).stat().st_mtime_ns)
            links = list(read_lines(out / steps.LINKS_NAME))
            assert links == list(read_lines(tmp_path / f"{kind}.gz"))
    assert times[0] == times[1] < times[2] == times[3]


def test_links_and_an_aligner_are_refused_together(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give one of them"):
        build_model(
            corpus,
            "en",
            "fr",
            tmp_path / "model",
            BuildConfig(),
            tmp_path / "links.gz",
            1,
            tmp_path,
        )
    assert not (tmp_path / "model").exists()
