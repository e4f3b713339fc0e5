"""The decoders, compared with Moses's outputs, an exhaustive search, and a fake program `moses`."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError, InputError, ToolError, UserError
from moses_bridge.base.textio import open_read
from moses_bridge.builtin.decoder import batches
from moses_bridge.cli import main
from moses_bridge.decoding.decoder import MosesDecoder, open_decoder
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.formats.nbest import parse_features, read_nbest

ARPA = """\\data\\
ngram 1=8
ngram 2=5
ngram 3=1

\\1-grams:
-2.0\t<unk>
0\t<s>\t-0.3
-0.9\t</s>
-0.7\tla\t-0.2
-0.8\tmaison\t-0.4
-0.85\tbleue\t-0.1
-1.1\tbleu
-1.2\tdomicile\t-0.05

\\2-grams:
-0.3\t<s> la\t-0.1
-0.25\tla maison\t-0.15
-0.4\tmaison bleue\t-0.2
-0.2\tbleue </s>
-0.35\tdomicile bleu

\\3-grams:
-0.1\tla maison bleue

\\end\\
"""
PAIRS = {  # (source, target): table scores, reordering scores
    ("the", "la"): ((0.6, 0.5), (0.5, 0.2, 0.3, 0.6, 0.1, 0.3)),
    ("the", ""): ((0.1, 0.05), (0.4, 0.3, 0.3, 0.4, 0.3, 0.3)),
    ("blue", "bleue"): ((0.4, 0.3), (0.2, 0.6, 0.2, 0.3, 0.6, 0.1)),
    ("blue", "bleu"): ((0.5, 0.3), (0.25, 0.5, 0.25, 0.3, 0.4, 0.3)),
    ("house", "maison"): ((0.7, 0.4), (0.3, 0.5, 0.2, 0.1, 0.8, 0.1)),
    ("house", "domicile"): ((0.2, 0.3), (0.6, 0.2, 0.2, 0.6, 0.2, 0.2)),
    ("blue house", "maison bleue"): ((0.3, 0.2), (0.8, 0.1, 0.1, 0.8, 0.1, 0.1)),
    ("the blue", "la bleue"): ((0.05, 0.02), (0.6, 0.1, 0.3, 0.2, 0.2, 0.6)),
}
INI = """[input-factors]
0
[mapping]
0 T 0
[distortion-limit]
6
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path={folder}/table input-factor=0 output-factor=0
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff path={folder}/moves
Distortion
KENLM name=LM0 factor=0 path={folder}/lm.arpa order=3
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -0.3
PhrasePenalty0= 0.2
TranslationModel0= 0.2 0.3
LexicalReordering0= 0.3 0.1 0.2 0.25 0.15 0.05
Distortion0= 0.1
LM0= 0.5
"""
ORDER = ("LexicalReordering0", "Distortion0", "LM0", "WordPenalty0", "PhrasePenalty0")
WEIGHTS = [0.3, 0.1, 0.2, 0.25, 0.15, 0.05, 0.1, 0.5, -0.3, 0.2, 0.2, 0.3]
BUILTIN = DecoderConfig(kind="builtin")


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """The ini of a small system."""

    def row(source: str, target: str, scores: tuple[float, ...]) -> str:
        return f"{source} ||| {target} ||| {' '.join(map(str, scores))}"

    pairs = sorted(PAIRS.items())
    table = [row(*pair, scores) + " ||| 0-0 ||| 1 1 1" for pair, (scores, _) in pairs]
    moves = [row(*pair, scores) for pair, (_, scores) in pairs]
    (tmp_path / "table").write_text("\n".join(table) + "\n")
    (tmp_path / "moves").write_text("\n".join(moves) + "\n")
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "moses.ini").write_text(INI.format(folder=tmp_path))
    return tmp_path / "moses.ini"


def run(
    ini: Path, text: str, options: DecoderConfig = BUILTIN, jobs: int = 1, nbest_size: int = 50
) -> tuple[list[str], list[str]]:
    source, out, nbest = (ini.parent / name for name in ("in", "out", "nbest"))
    source.write_text(text)
    with open_decoder(ini, options, jobs) as search:
        search.decode(source, out, None, nbest, nbest_size)
    return out.read_text().split("\n")[:-1], nbest.read_text().split("\n")[:-1]


def segmentations(words: list[str], start: int = 0) -> Iterator[list[tuple[int, int]]]:
    if start == len(words):
        yield []
    for end in range(start + 1, len(words) + 1):
        source = " ".join(words[start:end])
        if any(source == known for known, _ in PAIRS) or (end == start + 1 and len(source) == 1):
            yield from ([(start, end), *rest] for rest in segmentations(words, end))


def features_of(phrases: list[tuple[int, int, str]], words: list[str], lm: Any) -> list[float]:
    """Feature values in the order of the n-best list, from the definitions in the Moses manual."""
    moves, table, jumps = [0.0] * 6, [0.0] * 2, 0
    previous: tuple[int, int] = (-1, 0)
    previous_scores: tuple[float, ...] | None = None
    for start, end, target in phrases:
        scores = PAIRS.get((" ".join(words[start:end]), target))
        kind = 0 if start == previous[1] else 1 if end == previous[0] else 2
        jumps += abs(start - previous[1])
        if previous_scores:
            moves[3 + kind] += math.log(previous_scores[3 + kind])
        if scores:
            moves[kind] += math.log(scores[1][kind])
            table = [total + math.log(prob) for total, prob in zip(table, scores[0], strict=True)]
        previous, previous_scores = (start, end), scores[1] if scores else None
    text = " ".join(target for *_, target in phrases if target)
    log_prob = lm.score(text, bos=True, eos=True) * math.log(10)
    return [*moves, -jumps, log_prob, -len(text.split()), len(phrases), *table]


def exhaustive_search(text: str, lm: Any, limit: int) -> dict[str, float]:
    """The best score of every translation, over all segmentations and orders."""
    words, best = text.split(), dict[str, float]()
    for spans in segmentations(words):
        for order in itertools.permutations(spans):
            ends = [0, *(end for _, end in order)]
            if any(abs(s - e) > limit for (s, _), e in zip(order, ends, strict=False)):
                continue
            choices = [
                [t for s, t in PAIRS if s == " ".join(words[a:b])] or [words[a]] for a, b in order
            ]
            for targets in itertools.product(*choices):
                phrases = [(a, b, t) for (a, b), t in zip(order, targets, strict=True)]
                values = features_of(phrases, words, lm)
                n_unknown = sum(len(words[a]) == 1 for a, _ in order)
                score = sum(w * v for w, v in zip(WEIGHTS, values, strict=True)) - 100 * n_unknown
                result = " ".join(target for target in targets if target)
                best[result] = max(score, best.get(result, -math.inf))
    return best


@pytest.mark.parametrize(
    "text", ["house", "the blue house", "blue the house", "the house X the blue", "X"]
)
def test_nbest_list_of_an_unbounded_search_is_that_of_an_exhaustive_search(
    toy: Path, text: str, kenlm: Any
) -> None:
    wide = DecoderConfig(
        kind="builtin", stack_size=5000, pop_limit=20000, table_limit=0, distortion_limit=-1
    )
    out, nbest = run(toy, text + "\n", wide, nbest_size=20)
    expected = exhaustive_search(text, kenlm.Model(str(toy.parent / "lm.arpa")), 99)
    best = sorted(expected.values(), reverse=True)[:20]
    fields = [line.split(" ||| ") for line in nbest]
    assert [float(field[3]) for field in fields] == pytest.approx(best, abs=2e-3, rel=1e-5)
    for _, words, _, total in fields:
        assert float(total) == pytest.approx(expected[words.strip()], rel=1e-5)
    assert out == [fields[0][1].strip()]


def test_feature_values_follow_their_definitions(toy: Path, kenlm: Any) -> None:
    text = "the house X the blue"
    without_empty(toy.parent / "table")
    options = DecoderConfig(kind="builtin", segmentation=True)
    _, nbest = run(toy, text + "\n", options, nbest_size=30)
    lm, words = kenlm.Model(str(toy.parent / "lm.arpa")), text.split()
    assert len(nbest) == 30
    for line in nbest:
        _, translation, features, _, segmentation = line.split(" ||| ")
        tokens, phrases = translation.split(), []
        for pair in segmentation.split():
            (start, end), (place, last) = (span_of(span) for span in pair.split("="))
            phrases.append((start, end, " ".join(tokens[place:last])))
        values = [float(value) for value in features.split() if not value.endswith("=")]
        assert values == pytest.approx(features_of(phrases, words, lm), rel=1e-5, abs=1e-5)
        names = [name[:-1] for name in features.split() if name.endswith("=")]
        assert names == [*ORDER, "TranslationModel0"]


def test_an_empty_target_is_reported_by_its_place(toy: Path) -> None:
    options = DecoderConfig(kind="builtin", segmentation=True, distortion_limit=0)
    _, nbest = run(toy, "the house\n", options)
    (line,) = [line for line in nbest if line.split(" ||| ")[1].strip() == "maison"]
    assert line.split(" ||| ")[4] == "0=0 1=0"


def without_empty(table: Path) -> None:
    """Remove rows with an empty target, whose position is not in a segmentation."""
    rows = table.read_text().split("\n")
    table.write_text("\n".join(row for row in rows if "|||  |||" not in row))


def span_of(text: str) -> tuple[int, int]:
    """The first word of "3" or "3-5", and the word after the last."""
    first, _, last = text.partition("-")
    return int(first), int(last or first) + 1


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_no_jump_is_longer_than_the_limit(toy: Path, limit: int) -> None:
    options = DecoderConfig(kind="builtin", distortion_limit=limit, segmentation=True)
    _, nbest = run(toy, "the blue house the house blue\n", options)
    assert nbest
    for line in nbest:
        place = 0
        for pair in line.split(" ||| ")[4].split():
            start, end = span_of(pair.split("=")[0])
            assert abs(start - place) <= limit
            place = end


def test_one_line_for_each_line_and_unknown_words_are_copied(toy: Path) -> None:
    out, nbest = run(toy, "\nthe house\n \nqwérty  |||\tX\n\n")
    assert len(out) == 5
    assert (out[0], out[2], out[3], out[4]) == ("", "", "qwérty ||| X", "")
    assert sorted({line.split(" ||| ")[0] for line in nbest}) == ["1", "3"]
    unknown = [line for line in nbest if line.startswith("3 ")]
    assert all(len(line.split("|||")) == 4 for line in unknown)
    assert float(unknown[0].split(" ||| ")[3]) < -300 + 10


def test_bytes_that_are_no_text_pass_through(toy: Path) -> None:
    source, out = toy.parent / "in", toy.parent / "out"
    source.write_bytes(b"the \xff\xfe house\r\n\x0c\xc2\xa0 \xe2\x80\xa8\n")
    with open_decoder(toy, BUILTIN, 1) as search:
        search.decode(source, out, None, None, 1)
    first, second, last = out.read_bytes().split(b"\n")
    assert b"\xff\xfe" in first and b"\r" not in first
    assert second == b"\x0c\xc2\xa0 \xe2\x80\xa8" and last == b""


def test_the_share_of_unknown_words_is_said_once(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word that is known in longer phrases alone is copied where they do not fit, so it is unknown too."""
    table = toy.parent / "table"
    longer = b"red house ||| maison rouge ||| 0.5 0.5 ||| 0-1 1-0 ||| 1 1 1\n"
    table.write_bytes(longer + table.read_bytes())
    with (toy.parent / "moves").open("a") as moves:
        moves.write("red house ||| maison rouge ||| 0.2 0.2 0.6 0.2 0.2 0.6\n")
    text = "the Blue house .\n. red red x y z House v\n\n"
    run(toy, text)
    run(toy, text)
    said = [line for line in capsys.readouterr().err.splitlines() if "unknown" in line]
    assert said == [
        f"{toy.parent / 'in'}: 83.3% of the words (10 of 12) are unknown to the tables of {toy}; most often "
        "'.' (2), 'red' (2), 'Blue' (1), 'x' (1), 'y' (1); 2 of them known in lower case"
    ]


def test_known_words_and_given_translations_are_not_unknown(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.write_text("[xml-input]\nexclusive\n" + toy.read_text())
    run(toy, '<n translation="X">new</n> house\n')
    said = f"in: 0.0% of the words (0 of 2) are unknown to the tables of {toy}\n"
    assert said in capsys.readouterr().err
    run(toy, "\n")
    assert "unknown" not in capsys.readouterr().err


def test_a_long_sentence_is_translated_whole(toy: Path) -> None:
    options = DecoderConfig(kind="builtin", pop_limit=20, stack_size=10)
    out, _ = run(toy, "house the " * 200 + "\n", options, nbest_size=1)
    assert out[0].count("maison") + out[0].count("domicile") == 200


def test_several_processes_give_the_same_as_one(toy: Path) -> None:
    words = ["the", "blue", "house", "X"]
    lines = [" ".join(line) for line in itertools.product(words, repeat=3)][:30]
    text = "\n".join([*lines, "", "the"]) + "\n"
    assert run(toy, text, jobs=1) == run(toy, text, jobs=3)


def test_weights_of_a_call_count_for_that_call(toy: Path) -> None:
    source, out = toy.parent / "in", toy.parent / "out"
    source.write_text("the house\n")
    with open_decoder(toy, BUILTIN, 1) as search:
        texts = []
        for weights in (None, {"WordPenalty0": [9.0]}, {"LM0": [0.0]}, None):
            search.decode(source, out, weights, None, 1)
            texts.append(out.read_text())
    assert texts[0] == texts[3] == "la maison\n"
    assert texts[1] in ("maison\n", "domicile\n")


def test_packed_files_in_and_out(toy: Path) -> None:
    source, out, nbest = (toy.parent / name for name in ("in.gz", "out.gz", "nbest.gz"))
    source.write_bytes(gzip.compress(b"the house\n"))
    with open_decoder(toy, BUILTIN, 1) as search:
        search.decode(source, out, None, nbest, 3)
    assert gzip.decompress(out.read_bytes()) == b"la maison\n"
    entries = [*read_nbest(nbest)]
    assert len(entries) == 3
    features = parse_features(entries[0], nbest)
    assert [(name, len(values)) for name, values in features.items()] == [
        ("LexicalReordering0", 6),
        ("Distortion0", 1),
        ("LM0", 1),
        ("WordPenalty0", 1),
        ("PhrasePenalty0", 1),
        ("TranslationModel0", 2),
    ]


def test_outputs_of_moses(golden: Path, tmp_path: Path) -> None:
    lines = (golden / "decode/input.en").read_bytes().split(b"\n")[:-1][:60]
    n_sentences = len(lines)
    (tmp_path / "in").write_bytes(b"\n".join(lines) + b"\n")
    options = DecoderConfig(kind="builtin", segmentation=True, alignment=True)
    with open_decoder(golden / "decode/moses.ini", options, 1) as search:
        search.decode(tmp_path / "in", tmp_path / "out", None, tmp_path / "nbest", 100)
    found = (tmp_path / "out").read_text().split("\n")[:n_sentences]
    expected = (golden / "decode/output.cube400.fr").read_text().split("\n")[:n_sentences]
    assert found == [line.rstrip() for line in expected]
    ours, theirs = (
        nbest_by_words(path, n_sentences)
        for path in (tmp_path / "nbest", golden / "decode/nbest100.cube400.gz")
    )
    common = ours.keys() & theirs.keys()
    assert len(common) >= 0.999 * len(theirs) and len(ours) == len(theirs)
    same_spans = [ours[key][2:] == theirs[key][2:] for key in common]
    assert sum(same_spans) >= 0.999 * len(common)
    for key, same in zip(common, same_spans, strict=True):
        if same:
            assert numbers(ours[key]) == pytest.approx(numbers(theirs[key]), rel=3e-5, abs=1e-5)


def nbest_by_words(path: Path, n_sentences: int) -> dict[tuple[str, str], list[str]]:
    """Features, total, segmentation and links by sentence and words."""
    with open_read(path) as stream:
        fields = [line.decode().rstrip("\n").split(" ||| ") for line in stream]
    return {(f[0], f[1]): f[2:] for f in fields if int(f[0]) < n_sentences}


def numbers(fields: list[str]) -> list[float]:
    """The feature values and the total."""
    return [float(word) for word in (fields[0] + " " + fields[1]).split() if word[-1] != "="]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Distortion\n", "Distortion\nOpSequenceModel path=x\n", "OpSequenceModel"),
        ("Distortion\n", "Distortion\nDistortion name=Again\n", "2 features of kind Distortion"),
        ("LM0 factor=0", "LM0 factor=1", "factor"),
        ("wbe-msd-bid", "hier-mslr-bid", "hier-mslr"),
        ("path={folder}/table ", "", "path"),
        ("Distortion0= 0.1", "Distortion7= 0.1", "Distortion7"),
        ("0 T 0", "0 T 0\n0 G 0", "mapping"),
        ("[distortion-limit]\n6", "[time-out]\n5", "time-out"),
        ("KENLM name=LM0", "SRILM name=LM0", "no feature SRILM; .* KENLM reads it"),
        (
            "PhraseDictionaryMemory",
            "PhraseDictionaryCompact",
            "Memory there, with path={folder}/table$",
        ),
        ("Distortion\n", "ProbingPT path=pt\n", "with path=the text table that it was made from"),
    ],
)
def test_unsupported_features_are_named(toy: Path, old: str, new: str, message: str) -> None:
    text = toy.read_text()
    old, new, message = (each.replace("{folder}", str(toy.parent)) for each in (old, new, message))
    assert text.count(old) == 1
    toy.write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=message):
        run(toy, "the\n")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("limit]\n6", "limit]\nfew", 2, "distortion-limit: 'few', expected a whole number from -1"),
        ("limit]\n6", "limit]\n# longest\n1_0", 3, "distortion-limit: '1_0'"),
        ("limit]\n6", "limit]\n\u0663", 2, "distortion-limit: '\u0663'"),
        ("limit]\n6", "limit]\n+6", 2, r"distortion-limit: '\+6'"),
        ("limit]\n6", "limit]\n-2", 2, "distortion-limit: '-2'"),
        ("limit]\n6", "limit]\n2147483648", 2, "distortion-limit: '2147483648'"),
        ("limit]\n6", f"limit]\n{'9' * 5000}", 2, "distortion-limit: '999"),
        ("limit]\n6", "limit]\n6\n[max-phrase-length]\n0", 4, "max-phrase-length: '0', .* from 1"),
        ("/table ", "/table table-limit=all ", None, "table-limit: 'all', .* number from 0"),
        ("/table ", "/table table-limit=-1 ", None, "table-limit: '-1'"),
    ],
)
def test_limits_are_read_as_strictly_as_moses_reads_them(
    toy: Path, old: str, new: str, line: int | None, message: str
) -> None:
    text = toy.read_text()
    assert text.count(old) == 1
    changed = text.replace(old, new)
    toy.write_text(changed)
    if line is None:
        line = 1 + changed[: changed.index("table-limit")].count("\n")
    else:
        line += text[: text.index("[distortion-limit]")].count("\n")
    with pytest.raises(InputError, match=f"moses.ini:{line}: found {message}"):
        run(toy, "the\n")


@pytest.mark.parametrize("name", ["table", "moves", "lm.arpa"])
def test_a_missing_file_is_named(toy: Path, name: str) -> None:
    (toy.parent / name).unlink()
    with pytest.raises(InputError, match=name):
        open_decoder(toy, BUILTIN, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stack_size", 0),
        ("pop_limit", 0),
        ("distortion_limit", -2),
        ("table_limit", -1),
        ("nbest_factor", -1),
    ],
)
def test_options_out_of_range_are_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{name} is {value}; the smallest"):
        DecoderConfig(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", [{"LM0": [1.0, 2.0]}, {"LM7": [1.0]}])
def test_weights_that_fit_no_feature_are_refused(
    toy: Path, weights: dict[str, list[float]]
) -> None:
    source = toy.parent / "in"
    source.write_text("the\n")
    with (
        open_decoder(toy, BUILTIN, 1) as search,
        pytest.raises(ConfigError, match=next(iter(weights))),
    ):
        search.decode(source, toy.parent / "out", weights, None, 1)


def test_no_jobs_no_nbest_size_no_moses(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="jobs"):
        open_decoder(toy, BUILTIN, 0)
    with pytest.raises(ConfigError, match="PATH"):
        open_decoder(toy, DecoderConfig(kind="moses"), 1)
    with pytest.raises(ConfigError, match="nbest_size"):
        run(toy, "the\n", nbest_size=0)


def test_a_process_that_dies_is_reported(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(first_id: int, lines: list[bytes]) -> list[tuple[bytes, list[bytes]]]:
        os._exit(9)

    die.__qualname__, die.__module__ = "_translate_shared", batches.__name__
    monkeypatch.setattr(batches, "_translate_shared", die)
    with pytest.raises(UserError, match="killed"):
        run(toy, "the\n" * 20, jobs=2)
    assert not (toy.parent / "out").exists()


FAKE_MOSES = """#!/bin/sh
echo "$@" >> {folder}/commands
while [ $# -gt 0 ]; do
    [ "$1" = -i ] && input=$2
    [ "$1" = -output-unknowns ] && printf 'X \\n\\nX Y \\n' > $2
    [ "$1" = -n-best-list ] && echo '0 ||| la  ||| LM0= -1 ||| -0.5' > $2
    shift
done
sed 's/$/ /' "$input" {extra}
"""


@pytest.fixture
def stand_in(toy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named moses that records its arguments and prints its input."""
    write_stand_in(toy.parent)
    monkeypatch.setenv("PATH", f"{toy.parent}/bin:{os.environ['PATH']}")
    return toy


def write_stand_in(folder: Path, extra: str = "") -> None:
    program = folder / "bin/moses"
    program.parent.mkdir(exist_ok=True)
    program.write_text(FAKE_MOSES.format(folder=folder, extra=extra))
    program.chmod(0o755)


def test_moses_is_chosen_where_it_is_installed(stand_in: Path) -> None:
    out, nbest = run(stand_in, "the house\n\nX\n", DecoderConfig(), nbest_size=7)
    assert out == ["the house", "", "X"]
    assert nbest == ["0 ||| la  ||| LM0= -1 ||| -0.5"]
    command = (stand_in.parent / "commands").read_text()
    for part in (
        f"-f {stand_in}",
        "-search-algorithm 1 -cube-pruning-pop-limit 400 -stack 200",
        " 7 distinct -n-best-factor 20",
    ):
        assert part in command
    assert "-distortion-limit" not in command


def test_the_unknown_words_of_moses_are_said(
    stand_in: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(stand_in, "X house\n\nX Y a\tb\n", DecoderConfig())
    assert (
        f"50.0% of the words (3 of 6) are unknown to the tables of {stand_in}; most often 'X' (2), 'Y' (1)\n"
    ) in capsys.readouterr().err


def test_moses_has_the_sizes_of_its_ini_unless_others_are_set(stand_in: Path) -> None:
    stand_in.write_text("[stack]\n0\n[cube-pruning-pop-limit]\n70\n" + stand_in.read_text())
    ini = read_ini(stand_in)
    command = MosesDecoder(Path("moses"), ini, DecoderConfig(), 1).command(Path("in"), None)
    assert "-stack" not in command and "-cube-pruning-pop-limit" not in command
    set_here = DecoderConfig(stack_size=9, pop_limit=8)
    command = MosesDecoder(Path("moses"), ini, set_here, 1).command(Path("in"), None)
    assert " ".join(command).endswith("-cube-pruning-pop-limit 8 -stack 9")


def test_a_table_limit_is_not_for_tables_in_a_group(stand_in: Path) -> None:
    with stand_in.open("a") as stream:
        stream.write(
            "\n[feature]\nPhraseDictionaryMemory name=Other\n"
            "PhraseDictionaryGroup name=Both members=TranslationModel0,X\n"
        )
    decoder = MosesDecoder(Path("moses"), read_ini(stand_in), DecoderConfig(table_limit=3), 1)
    command = decoder.command(Path("in"), None)
    limits = command[command.index("-feature-overwrite") + 1]
    assert limits == "Other table-limit=3 Both table-limit=3"


def test_settings_and_weights_reach_moses(stand_in: Path) -> None:
    options = DecoderConfig(
        kind="moses", table_limit=5, distortion_limit=3, segmentation=True, alignment=True
    )
    with open_decoder(stand_in, options, 2) as search:
        assert isinstance(search, MosesDecoder)
        (stand_in.parent / "in").write_text("X\n")
        search.decode(
            stand_in.parent / "in",
            stand_in.parent / "out",
            {"LM0": [0.25], "TranslationModel0": [1, 1e-7]},
            stand_in.parent / "nbest",
            1,
        )
    command = (stand_in.parent / "commands").read_text()
    for part in (
        "-threads 2",
        "-distortion-limit 3",
        "-feature-overwrite TranslationModel0 table-limit=5",
        "-weight-overwrite LM0= 0.25 TranslationModel0= 1 0.000000100000",
        "-include-segmentation-in-n-best",
        "-print-alignment-info-in-n-best",
    ):
        assert part in command


def test_moses_gets_absolute_paths(stand_in: Path) -> None:
    """It would look for relative ones in the working directory."""
    text = stand_in.read_text()
    stand_in.write_text(text.replace(f"path={stand_in.parent}/", "path="))
    with open_decoder(stand_in, DecoderConfig(kind="moses"), 1) as search:
        assert isinstance(search, MosesDecoder)
        command = search.command(stand_in, None)
        given = Path(command[command.index("-f") + 1])
        assert given != stand_in
        assert given.read_text() == text
    assert not given.exists()


@pytest.mark.parametrize("extra", ["| tail -n 1", "; echo out of memory >&2; exit 3"])
def test_a_moses_that_fails_is_reported(stand_in: Path, extra: str) -> None:
    write_stand_in(stand_in.parent, extra)
    with pytest.raises(ToolError, match="moses"):
        run(stand_in, "the\nhouse\n", DecoderConfig())
    assert not (stand_in.parent / "out").exists()


def test_moses_may_be_given_weights_of_a_feature_without_a_weight_line(stand_in: Path) -> None:
    """Moses takes 1 for each of its values, so overwriting needs one weight for each too."""
    lines = stand_in.read_text().splitlines()
    stand_in.write_text("".join(f"{line}\n" for line in lines if "TranslationModel0=" not in line))
    search = MosesDecoder(Path("moses"), read_ini(stand_in), DecoderConfig(), 1)
    command = search.command(Path("in"), {"TranslationModel0": [1, 0.5]})
    assert command[-1] == "TranslationModel0= 1 0.5"
    with pytest.raises(ConfigError, match=r"1 weights of TranslationModel0; .* has 2"):
        search.command(Path("in"), {"TranslationModel0": [1]})


def test_moses_gets_weights_of_sparse_values(stand_in: Path) -> None:
    search = MosesDecoder(Path("moses"), read_ini(stand_in), DecoderConfig(), 1)
    assert search.command(Path("in"), {"LM0_a": [0.5]})[-1] == "LM0_a= 0.5"
    with pytest.raises(ConfigError, match="2 weights of LM0_a"):
        search.command(Path("in"), {"LM0_a": [0.5, 1.0]})


def test_moses_gets_no_weights_that_fit_no_feature(stand_in: Path) -> None:
    search = MosesDecoder(Path("moses"), read_ini(stand_in), DecoderConfig(), 1)
    with pytest.raises(ConfigError, match="LM0"):
        search.command(Path("in"), {"LM0": [1.0, 1.0]})


def test_the_command_decodes_with_weights_of_a_file(toy: Path) -> None:
    folder = toy.parent
    (folder / "in").write_text("the house\n")
    (folder / "weights.json").write_text(json.dumps({"WordPenalty0": [9.0]}))
    arguments = ["decode", "--ini", toy, "--source", folder / "in", "--out", folder / "out"]
    arguments += ["--decoder", "builtin", "--weights", folder / "weights.json", "--jobs", "1"]
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    assert (folder / "out").read_text() in ("maison\n", "domicile\n")


@pytest.mark.parametrize("kind", ["probing", "compressed"])
def test_a_binary_language_model_gives_the_same_lists(kind: str, tmp_path: Path) -> None:
    """The file was made from the ARPA file by KenLM's build_binary."""
    data = Path(__file__).resolve().parents[2] / "data"
    for file in (data / "moses" / "decode").iterdir():
        shutil.copy(file, tmp_path)
    packed = (data / "kenlm" / f"small.{kind}.gz").read_bytes()
    (tmp_path / "lm.binary").write_bytes(gzip.decompress(packed))
    ini = tmp_path / "moses.ini"
    (tmp_path / "binary.ini").write_text(ini.read_text().replace("lm.arpa.gz", "lm.binary"))
    text = (tmp_path / "input.en").read_text()
    assert run(tmp_path / "binary.ini", text) == run(ini, text)


def test_settings_of_a_decoder_load_no_compiled_code() -> None:
    """Commands that only read the records of a run start in a fraction of a second."""
    code = "import sys, moses_bridge.decoding.decoder; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numba", "moses_bridge.builtin.decoder"} & {*found.stdout.split()}
