"""Forced decoding and scoring of given entries, against Moses's lists and an exhaustive search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.cli import main
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.given_translations import force_translations, score_entries
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.nbest import parse_features, read_nbest

ARPA = """\\data\\
ngram 1=5
ngram 2=2

\\1-grams:
-1.5\t<unk>
0\t<s>\t-0.3
-1.0\t</s>
-0.7\ta\t-0.2
-0.9\tb\t-0.4

\\2-grams:
-0.2\t<s> a
-0.6\ta b

\\end\\
"""
INI = """[distortion-limit]
2
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=1 path=table table-limit=1
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff path=moves
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=2
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -0.2
PhrasePenalty0= 0.1
TranslationModel0= 0.3
LexicalReordering0= 0.1 0.2 0.15 0.05 0.1 0.3
Distortion0= 0.2
LM0= 0.4
"""
PAIRS = {
    ("u", "a"): (0.5, 0.2, 0.3, 0.6, 0.1, 0.3, 0.4),
    ("u", "b"): (0.4, 0.6, 0.3, 0.2, 0.5, 0.3, 0.2),
    ("v", "a"): (0.3, 0.1, 0.3, 0.3, 0.6, 0.1, 0.2),
    ("v", ""): (0.1, 0.3, 0.2, 0.2, 0.2, 0.3, 0.6),
    ("w", "b"): (0.6, 0.5, 0.1, 0.4, 0.3, 0.3, 0.3),
    ("u v", "a a"): (0.2, 0.2, 0.1, 0.4, 0.1, 0.7, 0.1),
    ("v w", "a b"): (0.25, 0.4, 0.5, 0.1, 0.2, 0.3, 0.5),
}


@pytest.fixture
def ini(tmp_path: Path) -> Path:
    def rows(first: int, last: int) -> str:
        lines = [
            f"{s} ||| {t} ||| {' '.join(map(str, scores[first:last]))}\n"
            for (s, t), scores in sorted(PAIRS.items())
        ]
        return "".join(lines)

    (tmp_path / "table").write_text(rows(0, 1))
    (tmp_path / "moves").write_text(rows(1, 7))
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "moses.ini").write_text(INI)
    return tmp_path / "moses.ini"


def derivations(source: list[str]) -> Iterator[list[tuple[int, int, str]]]:
    """All sequences of phrase pairs allowed by the distortion limit of 2."""

    def extend(
        covered: set[int], path: list[tuple[int, int, str]]
    ) -> Iterator[list[tuple[int, int, str]]]:
        if len(covered) == len(source):
            yield path
            return
        gap = min(set(range(len(source))) - covered)
        last = path[-1][1] if path else 0
        for start, end in itertools.combinations(range(len(source) + 1), 2):
            span = set(range(start, end))
            if covered & span or abs(start - last) > 2 or (start > gap and end - gap > 2):
                continue
            words = " ".join(source[start:end])
            targets = [t for s, t in PAIRS if s == words] or [words] * (words == "x")
            for target in targets:
                yield from extend(covered | span, [*path, (start, end, target)])

    yield from extend(set(), [])


def score(source: list[str], path: list[tuple[int, int, str]], lm: Any) -> float:
    """The model score from the definitions of the features."""
    words = " ".join(target for _, _, target in path if target)
    total = 0.4 * lm.score(words) * math.log(10) + 0.2 * len(words.split()) + 0.1 * len(path)
    last_start, last_end, last = -1, 0, None
    for start, end, target in path:
        scores = PAIRS.get((" ".join(source[start:end]), target))
        kind = 0 if start == last_end else 1 if end == last_start else 2
        total -= 0.2 * abs(start - last_end)
        if last is not None:
            total += (0.05, 0.1, 0.3)[kind] * math.log(last[4 + kind])
        if scores is None:
            total -= 100
        else:
            total += 0.3 * math.log(scores[0])
            total += (0.1, 0.2, 0.15)[kind] * math.log(scores[1 + kind])
        last_start, last_end, last = start, end, scores
    return total


def force(ini: Path, pairs: list[tuple[bytes, bytes]], jobs: int = 1) -> tuple[list[bytes], int]:
    source, target, out = (ini.parent / name for name in ("source", "target", "out"))
    write_lines(source, [line for line, _ in pairs])
    write_lines(target, [line for _, line in pairs])
    options = DecoderConfig(segmentation=True, alignment=True)
    nbest = ini.parent / "nbest"
    report = force_translations(ini, options, jobs, source, target, out, None, nbest)
    assert report.n_lines == len(pairs)
    return list(read_lines(out)), report.n_missed


def test_the_best_of_all_derivations_is_found(ini: Path, kenlm: Any) -> None:
    lm = kenlm.Model(str(ini.parent / "lm.arpa"))
    best: dict[tuple[str, str], float] = {}
    for source in ("u v w", "w x v u", "v u v", "u v u v w"):
        words = source.split()
        for path in derivations(words):
            key = source, " ".join(target for _, _, target in path if target)
            best[key] = max(score(words, path, lm), best.get(key, -math.inf))
    assert len(best) > 30
    pairs = [(source.encode(), target.encode()) for source, target in best]
    out, n_missed = force(ini, pairs)
    assert out == [target for _, target in pairs]
    assert n_missed == 0
    totals = [entry.total for entry in read_nbest(ini.parent / "nbest")]
    assert totals == pytest.approx(list(best.values()), rel=1e-5, abs=1e-5)


def test_what_cannot_be_made_is_an_empty_line_and_counted(ini: Path) -> None:
    pairs = [
        (b"u v", b"b a"),
        (b"u v", b"c"),
        (b"u v", b""),
        (b"", b"a"),
        (b"x |||\ty", b"x ||| y"),
        (b"x y", b"x x"),
        (b"\xff", b"\xff"),
        (b"u " * 120, b"a " * 120),
    ]
    out, n_missed = force(ini, pairs)
    assert out == [b"b a", b"", b"", b"", b"x ||| y", b"", b"\xff", b"a " * 119 + b"a"]
    assert n_missed == 3
    ids = [entry.sentence_id for entry in read_nbest(ini.parent / "nbest")]
    assert ids == [0, 4, 6, 7]
    assert force(ini, pairs, jobs=2)[0] == out


def test_entries_keep_their_values_under_the_same_model(ini: Path) -> None:
    """Empty targets, unknown words and bars are in the list."""
    source, nbest, again = (ini.parent / name for name in ("in", "list", "again"))
    source.write_bytes(b"u v w ||| x\n\nw v u v\n")
    options = DecoderConfig(kind="builtin", segmentation=True, alignment=True, table_limit=0)
    with open_decoder(ini, options, 1) as decoder:
        decoder.decode(source, ini.parent / "out", None, nbest, 50)
    score_entries(ini, source, nbest, again, None)
    assert again.read_bytes() == nbest.read_bytes()
    assert b"&#124;" in again.read_bytes()


def test_other_weights_give_other_totals(ini: Path) -> None:
    source, nbest, out = (ini.parent / name for name in ("in", "list", "new"))
    source.write_bytes(b"u v\n")
    nbest.write_bytes(b"0 ||| a a  ||| Other= 1 ||| 0 ||| 0=0 1=1\n")
    weights = ini.parent / "weights.json"
    weights.write_text('{"PhrasePenalty0": [100]}')
    arguments = [nbest, "--ini", ini, "--source", source, "--out", out, "--weights", weights]
    result = CliRunner().invoke(main, ["score-nbest", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    (entry,) = read_nbest(out)
    assert 196 < entry.total < 199
    assert parse_features(entry, out)["PhrasePenalty0"] == (2.0,)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"0 ||| a a ||| A= 1 ||| 0", "no segmentation"),
        (b"0 ||| a a ||| A= 1 ||| 0 ||| 0=zero", "zero"),
        (b"0 ||| a a ||| A= 1 ||| 0 ||| 0=1 1=0", "covers the words"),
        (b"0 ||| a c ||| A= 1 ||| 0 ||| 0=0 1=1", "phrase pair of the table"),
        (b"0 ||| b b ||| A= 1 ||| 0 ||| 0=0 1=1", "'b' for the source words 1 to 1"),
        (b"1 ||| a ||| A= 1 ||| 0 ||| 0=0", "an empty sentence"),
        (b"2 ||| a ||| A= 1 ||| 0 ||| 0=0", "the sentence id 2"),
    ],
)
def test_entries_that_cannot_be_scored_are_reported_by_line(
    ini: Path, line: bytes, message: str
) -> None:
    source, nbest = ini.parent / "in", ini.parent / "list"
    source.write_bytes(b"u v\n\n")
    nbest.write_bytes(line + b"\n")
    with pytest.raises(InputError, match=f"list:1: .*{message}"):
        score_entries(ini, source, nbest, ini.parent / "out", None)


def test_lines_must_go_in_pairs_and_without_a_neural_model(ini: Path) -> None:
    source, target, out = (ini.parent / name for name in ("source", "target", "out"))
    write_lines(source, [b"u", b"v"])
    write_lines(target, [b"a"])
    with pytest.raises(InputError, match="target:2"):
        force_translations(ini, DecoderConfig(), 1, source, target, out, None, None)
    neural = DecoderConfig(neural_lm="CSLM0=cat")
    with pytest.raises(ConfigError, match="without a neural model"):
        force_translations(ini, neural, 1, source, source, out, None, None)


def test_the_command_counts_what_it_cannot_make(ini: Path) -> None:
    (ini.parent / "source").write_bytes(b"u\nu\n")
    (ini.parent / "target").write_bytes(b"b\nz\n")
    names = [("--ini", ini), ("--source", ini.parent / "source"), ("--out", ini.parent / "out")]
    names.append(("--constrain", ini.parent / "target"))
    arguments = [str(part) for pair in names for part in pair]
    result = CliRunner().invoke(main, ["decode", *arguments, "--jobs", "1"])
    assert result.exit_code == 0
    assert "1 of 2 translations cannot be made" in result.output
    assert (ini.parent / "out").read_bytes() == b"b\n\n"


def test_outputs_of_moses_are_made_at_least_as_well(golden: Path, tmp_path: Path) -> None:
    """Its search is pruned, so a derivation of the same words may be better than its own."""
    folder, n_lines = golden / "decode", 40
    source, target = tmp_path / "in", tmp_path / "target"
    write_lines(source, list(read_lines(folder / "input.en"))[:n_lines])
    outputs = [line.rstrip(b" ") for line in read_lines(folder / "output.cube400.fr")][:n_lines]
    write_lines(target, outputs)
    best: dict[int, float] = {}
    for entry in read_nbest(folder / "nbest100.cube400.gz"):
        best.setdefault(entry.sentence_id, entry.total)
    nbest, out = tmp_path / "nbest", tmp_path / "out"
    arguments = (folder / "moses.ini", DecoderConfig(), 1, source, target, out, None, nbest)
    assert force_translations(*arguments).n_missed == 0
    assert list(read_lines(out)) == outputs
    gains = [entry.total - best[entry.sentence_id] for entry in read_nbest(nbest)]
    assert min(gains) > -1e-3
    assert sum(gain < 1e-3 for gain in gains) > 0.8 * len(gains)


def test_forced_translations_are_those_of_moses(small_golden: Path, tmp_path: Path) -> None:
    """Of the references, by its feature ConstrainedDecoding; an empty line for an impossible one."""
    folder, nbest, out = small_golden / "decode", tmp_path / "nbest", tmp_path / "out"
    texts = folder / "input.en", folder / "reference.fr", out
    force_translations(folder / "moses.ini", DecoderConfig(), 1, *texts, None, nbest)
    ours = {entry.sentence_id: entry for entry in read_nbest(nbest)}
    moses = {entry.sentence_id: entry for entry in read_nbest(folder / "nbest1.constrained.gz")}
    assert len(moses) == 16
    for number, entry in moses.items():
        assert ours[number].words == entry.words
        assert ours[number].total == pytest.approx(entry.total, rel=1e-5, abs=1e-3)
    # To its feature the copy of an unknown word, at -100, is no word of the reference.
    assert all(ours[number].total < -90 for number in ours.keys() - moses.keys())
    found = [line for line in read_lines(out) if line]
    assert len(found) == len(ours) == 17


def test_entries_of_moses_get_its_values(golden: Path, tmp_path: Path) -> None:
    folder, n_lines = golden / "decode", 20
    nbest, out = tmp_path / "nbest", tmp_path / "out"
    lines = read_lines(folder / "nbest100.cube400.gz")
    write_lines(nbest, [line for line in lines if int(line.split(b" ", 1)[0]) < n_lines])
    score_entries(folder / "moses.ini", folder / "input.en", nbest, out, None)
    entries = list(zip(read_nbest(out), read_nbest(nbest), strict=True))
    assert len(entries) > 1000
    for ours, moses in entries:
        assert (ours.sentence_id, ours.words) == (moses.sentence_id, moses.words)
        assert ours.total == pytest.approx(moses.total, rel=1e-5, abs=1e-3)
        values, expected = parse_features(ours, out), parse_features(moses, nbest)
        assert list(values) == list(expected)
        for name, numbers in values.items():
            assert numbers == pytest.approx(expected[name], rel=5e-5, abs=1e-3)
        assert [field.split() for field in ours.rest] == [field.split() for field in moses.rest]
