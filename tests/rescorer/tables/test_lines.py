"""A value for each line: those of n-best lists and tables, whatever the form, the blocks and interruptions."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import rescorer
import rescorer.tables.lines
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.formats.nbest import parse_features, read_nbest
from rescorer.cli import main
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.scorer import NamedScorer
from rescorer.tables.line_settings import LineSettings, LineTexts
from rescorer.tables.lines import LineModel, score_lines

PAIRS = [
    ("the red house", "le maison rouge"),
    ("a car", "un voiture bleu de"),
    ("unseen", "inconnu"),
    ("the house of a car in the house " * 5, "la maison de un voiture dans le maison " * 5),
    ("", ""),
    ("a red car", "un voiture rouge"),
]


def run(*words: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, list(map(str, words)), input=stdin, prog_name="rescorer")


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    paths = (tmp_path / "text.en", tmp_path / "text.fr")
    for path, side in zip(paths, zip(*PAIRS, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side))
    return paths


def of_list(model: rescorer.Model, folder: Path, per_word: bool = False) -> list[float]:
    """The features of an n-best list with the lines as hypotheses."""
    nbest, out = folder / "nbest", folder / "out.nbest"
    lines = [
        f"{number} ||| {target} ||| LM0= 0 ||| 0\n" for number, (_, target) in enumerate(PAIRS)
    ]
    nbest.write_text("".join(lines))
    rescorer.rescore_nbest(nbest, folder / "text.en", out, model, "NN0", per_word_feature="NN1")
    features = [parse_features(entry, out) for entry in read_nbest(out)]
    return [row["NN1" if per_word else "NN0"][0] for row in features]


def test_values_are_those_of_lists_and_tables(
    encdec: Path, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    """A table cuts the probability of the long sentence to 1e-30."""
    result = run("lines", *texts, "--model", encdec, "--device", "cpu")
    assert result.exit_code == 0, result.output
    values = [float(line) for line in result.stdout.splitlines()]
    model = rescorer.load(encdec, device="cpu")
    assert values == pytest.approx(of_list(model, tmp_path), abs=1e-5)
    rows = [pair for pair in PAIRS if pair[0]]
    table = tmp_path / "table"
    table.write_text("".join(f"{s.strip()} ||| {t.strip()} ||| 0.5\n" for s, t in rows))
    rescorer.rescore(table, tmp_path / "scored", model)
    lines = (tmp_path / "scored").read_text().splitlines()
    column = [math.log(float(line.split(" ||| ")[2].split()[1])) for line in lines]
    own = [value for value, pair in zip(values, PAIRS, strict=True) if pair[0]]
    assert min(own) < math.log(1e-30) - 1
    assert column == pytest.approx(np.maximum(own, math.log(1e-30)), abs=1e-4)


def test_values_by_the_word_are_those_of_lists(
    cslm: Path, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    model = rescorer.load(cslm, device="cpu")
    n_lines = rescorer.score_lines(
        texts[1], None, tmp_path / "out", model, settings={"per_word": True}
    )
    values = [float(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert n_lines == len(PAIRS)
    assert values == pytest.approx(of_list(model, tmp_path, per_word=True), abs=1e-5)


def test_models_side_by_side_with_their_names(
    encdec: Path, cslm: Path, texts: tuple[Path, Path]
) -> None:
    options = ("--model", encdec, "--model", cslm, "--device", "cpu")
    alone = [run("lines", *texts, "--model", each).stdout.splitlines() for each in (encdec, cslm)]
    result = run("lines", *texts, *options)
    plain = result.stdout.splitlines()
    assert f"{cslm}: {cslm} (whole sentences)\n" in result.stderr
    assert plain == [f"{one}\t{other}" for one, other in zip(*alone, strict=True)]
    tsv = run("lines", *texts, *options, "--format", "tsv", "--no-end", "--per-word")
    assert tsv.stdout.splitlines()[0] == f"{encdec} no-end per-word\t{cslm} no-end per-word"
    records = [
        json.loads(line)
        for line in run("lines", *texts, *options, "--format", "jsonl").stdout.splitlines()
    ]
    assert [f"{row[str(encdec)]:.6f}\t{row[str(cslm)]:.6f}" for row in records] == plain


def test_words_and_the_end_add_up_to_the_line(encdec: Path, texts: tuple[Path, Path]) -> None:
    options = ("--model", encdec, "--device", "cpu", "--tokens")
    record = json.loads(run("lines", *texts, *options, "--format", "jsonl").stdout.splitlines()[0])
    tokens = record[f"{encdec} tokens"]
    assert [token for token, _ in tokens] == ["le", "maison", "rouge", "</s>"]
    assert sum(value for _, value in tokens) == pytest.approx(record[str(encdec)], abs=1e-5)
    expected = rescorer.load(encdec, device="cpu").score_words([PAIRS[0][0]], [PAIRS[0][1]])[0]
    assert [value for _, value in tokens] == pytest.approx(expected, abs=1e-5)
    cell = (
        run("lines", *texts, *options, "--no-end", "--per-word").stdout.splitlines()[0].split(" ")
    )
    assert cell[1:] == [f"{token}={value:.6f}" for token, value in tokens[:3]]
    assert float(cell[0]) == pytest.approx(expected[:3].mean(), abs=1e-5)


ARPA = b"""\
\\data\\
ngram 1=5
ngram 2=2

\\1-grams:
-1.5\t<unk>
-99\t<s>\t-0.5
-0.7\t</s>
-0.4\ta\t-0.25
-0.9\tb\t-0.125

\\2-grams:
-0.2\t<s> a
-0.3\ta b

\\end\\
"""
DATA = Path(__file__).resolve().parents[2] / "data"
BINARY = DATA / "kenlm" / "small.probing.gz"
ARPA_OF_BINARY = DATA / "moses" / "extract" / "lm.o5.prune001.arpa.gz"


def test_an_ngram_model_scores_lines(cslm: Path, tmp_path: Path) -> None:
    """By hand, in logarithms to base 10: n-grams that are there, and by back-off; an unknown word."""
    (tmp_path / "lm.arpa").write_bytes(ARPA)
    (tmp_path / "text").write_text("a b\nb zebra\n\n")
    given = (tmp_path / "text", "--model", tmp_path / "lm.arpa", "--tokens", "--format", "jsonl")
    expected = [
        {"a": -0.2, "b": -0.3, "</s>": -0.125 - 0.7},
        {"b": -0.5 - 0.9, "zebra": -0.125 - 1.5, "</s>": -0.7},
        {"</s>": -0.5 - 0.7},
    ]
    result = run("lines", *given, "--model", cslm)
    for line, words in zip(result.stdout.splitlines(), expected, strict=True):
        found = json.loads(line)
        assert found[str(tmp_path / "lm.arpa")] == pytest.approx(math.log(10) * sum(words.values()))
        tokens = dict(found[f"{tmp_path / 'lm.arpa'} tokens"])
        assert tokens == pytest.approx({k: math.log(10) * v for k, v in words.items()}, abs=1e-5)
    assert run("lines", *given, "--unnormalized").exit_code == 1
    (tmp_path / "lm.arpa").write_bytes(b"no model\n")
    result = run("lines", *given)
    assert result.exit_code == 1 and "Is this an ARPA file" in result.stderr


def test_a_binary_file_of_kenlm_gives_the_values_of_its_arpa(tmp_path: Path) -> None:
    (tmp_path / "lm.binary").write_bytes(gzip.decompress(BINARY.read_bytes()))
    (tmp_path / "text").write_text("the house is small\nunseen words\n")
    both = ("--model", tmp_path / "lm.binary", "--model", ARPA_OF_BINARY)
    for line in run("lines", tmp_path / "text", *both).stdout.splitlines():
        binary, arpa = map(float, line.split("\t"))
        assert binary == pytest.approx(arpa, abs=1e-4)


def test_links_are_a_third_text(
    nnjm: Path, texts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescorer.tables.lines, "LINES_AT_ONCE", 2)
    links = ["0-0 1-2 2-1", "0-0 1-1", "0-0", "0-0", "", "0-0"]
    (tmp_path / "links").write_text("".join(f"{line}\n" for line in links))
    model = rescorer.load(nnjm, device="cpu")
    rescorer.score_lines(*texts, tmp_path / "out", model, tmp_path / "links")
    found = [float(line) for line in (tmp_path / "out").read_text().splitlines()]
    expected = model.score([one for one, _ in PAIRS], [other for _, other in PAIRS], links)
    assert found == pytest.approx(expected, abs=1e-5)
    (tmp_path / "links").write_text("0-0\n" + "\n" * 4 + "0-9\n")
    result = run("lines", *texts, "--model", nnjm, "--links", tmp_path / "links")
    assert result.exit_code == 1 and f"{tmp_path / 'links'}:6: found " in result.stderr
    result = run("lines", *texts, "--model", nnjm)
    assert "needs word links: name their file with --links" in result.stderr


def test_standard_input_and_blocks_change_nothing(
    encdec: Path, texts: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run("lines", *texts, "--model", encdec).stdout
    monkeypatch.setattr(rescorer.tables.lines, "LINES_AT_ONCE", 2)
    assert (
        run("lines", "-", texts[1], "--model", encdec, stdin=texts[0].read_text()).stdout
        == expected
    )
    result = run("lines", "-", "-", "--model", encdec, stdin="a\n")
    assert result.exit_code == 1 and "standard input is one text" in result.stderr
    result = run("lines", "-", texts[1], "--model", encdec, "--resume", stdin="a\n")
    assert result.exit_code == 1 and "cannot be resumed" in result.stderr


def test_an_interrupted_run_is_continued(
    cslm: Path, texts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescorer.tables.lines, "LINES_AT_ONCE", 2)
    model, out = rescorer.load(cslm, device="cpu"), tmp_path / "out.gz"
    given: dict[str, Any] = {"settings": {"format": "tsv"}, "jobs": 1}
    rescorer.score_lines(*texts, tmp_path / "whole.gz", model, **given)
    score, seen = model.named.scorer.values, list[bytes]()

    def dies_at_the_third_block(batch: Batch) -> Any:
        if seen[3:]:
            raise KeyboardInterrupt
        seen.extend(batch.targets)
        return score(batch)

    monkeypatch.setattr(model.named.scorer, "values", dies_at_the_third_block)
    with pytest.raises(KeyboardInterrupt):
        rescorer.score_lines(*texts, out, model, **given)
    assert not out.exists()
    seen.clear()
    rescorer.score_lines(*texts, out, model, **given, resume=True)
    assert len(seen) < len(PAIRS)
    assert out.read_bytes() == (tmp_path / "whole.gz").read_bytes()


class Picky:
    """Refuses sources of more than 10 words, and gives nan for two; a scorer of whole pairs."""

    shortlist = None
    needs_links = False

    def values(self, batch: Batch) -> Any:
        for row, source in enumerate(batch.sources):
            if source.count(b" ") > 9:
                raise UnscorablePair(row, batch, "source", "40 words", "10 words", "Cut it")
        return np.array(
            [
                math.nan if s.count(b" ") == 1 else float(len(t))
                for s, t in zip(batch.sources, batch.targets, strict=True)
            ]
        )


@pytest.fixture
def picky() -> Any:
    return LineModel("picky", NamedScorer("picky", Picky(), "1"), True)


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_lines_without_a_value_are_counted_and_named(
    picky: Any,
    texts: tuple[Path, Path],
    tmp_path: Path,
    form: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = LineSettings(format=form, skip_bad=2)
    assert score_lines(LineTexts(*texts), tmp_path / "out", [picky], settings) == len(PAIRS)
    empty = {"text": "", "jsonl": '{"picky": null}'}[form]
    lines = (tmp_path / "out").read_text().splitlines()
    assert [number for number, line in enumerate(lines) if line == empty] == [1, 3]
    told = capsys.readouterr().err
    assert f"{texts[0]}:4: found 40 words on the source side, expected 10 words. Cut it" in told
    assert f"{texts[1]}:2: found the score nan" in told and "2 of 6 lines have no value" in told


def test_more_of_them_than_may_be_are_an_error(
    picky: Any, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    settings = LineSettings(skip_bad=1)
    with pytest.raises(InputError, match=r"text\.en:4: found 40 words .* --skip-bad N lines"):
        score_lines(LineTexts(*texts), tmp_path / "out", [picky], settings)
    assert not (tmp_path / "out").exists()


def test_what_does_not_fit_is_refused(
    picky: Any, encdec: Path, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    for settings in (LineSettings(tokens=True), LineSettings(end=False)):
        with pytest.raises(
            ConfigError, match="picky gives values of whole pairs: leave --tokens and --no-end out"
        ):
            score_lines(LineTexts(*texts), tmp_path / "out", [picky], settings)
    result = run("lines", texts[0], "--model", encdec)
    assert result.exit_code == 1 and "scores pairs: name a target text, too" in result.stderr
    result = run("lines", *texts, "--model", encdec, "--model", encdec)
    assert result.exit_code == 1 and "a model comes twice" in result.stderr
    texts[1].write_text("la\n")
    result = run("lines", *texts, "--model", encdec, "--out", tmp_path / "out")
    assert result.exit_code == 1 and f"{texts[1]}:2: found the end of the file" in result.stderr
    assert not (tmp_path / "out").exists()
