from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from moses_bridge.builtin.decoder import feature_slots as slots
from moses_bridge.builtin.decoder.lattice import score_path
from moses_bridge.builtin.decoder.model import Model, load_model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.translator import Translator
from moses_bridge.formats.nbest import NBestEntry, parse_features, read_nbest
from tests.moses_bridge.builtin.decoder.conftest import ARPA, ini_text, make_translator

kenlm = pytest.importorskip("kenlm", reason="KenLM, the extra `kenlm`, is not installed")


@dataclass
class ToyModel:
    """A random model for a source of letters, with its own plain scoring."""

    folder: Path
    limit: int
    seed: int
    pairs: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    scores: dict[tuple[tuple[str, ...], str], list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        generator = np.random.default_rng(self.seed)
        targets = ["a", "b", "a b", "b a", "b c", "a b a b"]
        spans = [
            ("u",),
            ("v",),
            ("w",),
            ("x",),
            ("u", "v"),
            ("v", "w"),
            ("w", "x"),
            ("u", "v", "w"),
        ]
        for span in spans:
            for target in generator.choice(targets, 2, replace=False).tolist():
                self.pairs.setdefault(span, []).append(target)
                self.scores[span, target] = generator.uniform(0.05, 1, 8).round(3).tolist()
        self._write()
        self.lm = kenlm.Model(str(self.folder / "lm.arpa"))

    def _write(self) -> None:
        table, reordering = [], []
        for (span, target), values in self.scores.items():
            numbers = [f"{value:g}" for value in values]
            table.append(f"{' '.join(span)} ||| {target} ||| {' '.join(numbers[:2])}\n")
            reordering.append(f"{' '.join(span)} ||| {target} ||| {' '.join(numbers[2:])}\n")
        (self.folder / "table").write_text("".join(table))
        (self.folder / "reordering").write_text("".join(reordering))
        (self.folder / "lm.arpa").write_text(ARPA)
        (self.folder / "moses.ini").write_text(ini_text(self.limit, 0.3, 0.1))

    def derivations(self, source: list[str]) -> Iterator[list[tuple[int, int, str]]]:
        """All sequences of (start, end, target) allowed by Moses's limits."""

        def extend(
            covered: frozenset[int], path: list[tuple[int, int, str]]
        ) -> Iterator[list[tuple[int, int, str]]]:
            if len(covered) == len(source):
                yield path
                return
            gap = min(set(range(len(source))) - covered)
            last = path[-1][1] if path else 0
            for start in range(len(source)):
                for end in range(start + 1, len(source) + 1):
                    if covered & set(range(start, end)) or abs(start - last) > self.limit:
                        continue
                    if start > gap and end - gap > self.limit:
                        continue
                    for target in self.translations(tuple(source[start:end])):
                        yield from extend(
                            covered | set(range(start, end)), [*path, (start, end, target)]
                        )

        yield from extend(frozenset(), [])

    def translations(self, span: tuple[str, ...]) -> list[str]:
        if len(span) == 1 and span not in self.pairs:
            return [span[0]]
        return self.pairs.get(span, [])

    def score(self, source: list[str], path: list[tuple[int, int, str]]) -> float:
        """The model score from the definitions of the features."""
        words = " ".join(target for _, _, target in path)
        total = 0.4 * self.lm.score(words) * math.log(10)
        total += 0.2 * len(words.split()) + 0.1 * len(path)
        last_start, last_end, last_scores = -1, 0, None
        for start, end, target in path:
            scores = self.scores.get((tuple(source[start:end]), target))
            total -= 0.2 * abs(start - last_end)
            kind = 0 if start == last_end else 1 if end == last_start else 2
            if scores is None:
                total -= 100
            else:
                total += 0.3 * math.log(scores[0]) + 0.1 * math.log(scores[1])
                total += (0.1, 0.2, 0.15)[kind] * math.log(scores[2 + kind])
            if last_scores is not None:
                total += (0.05, 0.1, 0.3)[kind] * math.log(last_scores[5 + kind])
            last_start, last_end, last_scores = start, end, scores
        return total


@pytest.mark.parametrize(
    ("limit", "seed", "sentence"),
    [
        (6, 1, "u v w x"),
        (6, 2, "w u v w"),
        (2, 3, "u v w x u"),
        (1, 4, "w v u v"),
        (0, 5, "u v w x"),
        (-1, 6, "w x v u"),
    ],
)
def test_wide_search_finds_the_best_of_all_derivations(
    tmp_path: Path, limit: int, seed: int, sentence: str
) -> None:
    toy = ToyModel(tmp_path, limit if limit >= 0 else 99, seed)
    (tmp_path / "moses.ini").write_text(ini_text(limit, 0.3, 0.1))
    source = sentence.split()
    best: dict[str, float] = {}
    for path in toy.derivations(source):
        words = " ".join(target for _, _, target in path)
        best[words] = max(best.get(words, -math.inf), toy.score(source, path))
    expected = sorted(best.values(), reverse=True)[:30]
    translator = make_translator(load_model(tmp_path / "moses.ini", None, None), 2000, 4000)
    text, lines = translator.translate(7, sentence.encode(), NBestFormat(30, 500, False, False))
    found = [line.split(b" ||| ") for line in lines]
    assert [float(fields[3]) for fields in found] == pytest.approx(expected, rel=1e-5)
    assert best[text.decode()] == pytest.approx(expected[0])
    for fields in found:
        assert float(fields[3]) == pytest.approx(best[fields[1].strip().decode()], rel=1e-5)


@pytest.mark.parametrize("kept", ["", "KENLM", "LexicalReordering", "Distortion"])
def test_features_may_be_absent(tmp_path: Path, kept: str) -> None:
    ToyModel(tmp_path, 3, 1)
    kinds = {"KENLM": "LM0=", "LexicalReordering": "LexicalReordering0=", "Distortion": "Dist"}
    lines = ini_text(3, 0.3, 0.1).splitlines()
    gone = [name for kind, weight in kinds.items() if kind != kept for name in (kind, weight)]
    lines = [line for line in lines if not line.startswith(tuple(gone))]
    (tmp_path / "moses.ini").write_text("\n".join(lines))
    model = load_model(tmp_path / "moses.ini", None, None)
    text, entries = make_translator(model, 50, 50).translate(
        0, b"u v w x", NBestFormat(9, 20, False, False)
    )
    assert text and len(entries) == 9
    assert (kept[:5] in entries[0].decode()) or kept == "KENLM"
    assert [name in entries[0].decode() for name in ("LM0=", "LexicalReordering0=")] == [
        kept == "KENLM",
        kept == "LexicalReordering",
    ]


@dataclass(frozen=True)
class RealRun:
    """The translations of some sentences by Moses and by the decoder."""

    folder: Path
    model: Model
    translator: Translator
    entries: Mapping[int, list[NBestEntry]]
    texts: list[bytes]
    lines: list[list[bytes]]


@pytest.fixture(scope="module")
def real(golden: Path) -> RealRun:
    folder = golden / "decode"
    model = load_model(folder / "moses.ini", None, None)
    translator = make_translator(model, 200, 400)
    entries: dict[int, list[NBestEntry]] = {}
    for entry in read_nbest(folder / "nbest100.cube400.gz"):
        entries.setdefault(entry.sentence_id, []).append(entry)
    sources = (folder / "input.en").read_bytes().split(b"\n")[:-1]
    settings = NBestFormat(100, 20, True, True)
    results = [translator.translate(i, line, settings) for i, line in enumerate(sources)]
    return RealRun(
        folder, model, translator, entries, [text for text, _ in results], [r[1] for r in results]
    )


def test_search_is_as_good_as_that_of_moses(real: RealRun) -> None:
    n_sentences = len(real.lines)
    moses = np.array([real.entries[i][0].total for i in range(n_sentences)])
    ours = np.array([float(lines[0].split(b" ||| ")[3]) for lines in real.lines])
    assert ours.mean() >= moses.mean() - 0.001
    assert (ours >= moses - 1e-3).sum() >= 0.98 * n_sentences
    reference = (real.folder / "reference.fr").read_text().split("\n")[:n_sentences]
    outputs = (real.folder / "output.cube400.fr").read_text().split("\n")[:n_sentences]
    texts = [text.decode() for text in real.texts]
    bleu = [
        sacrebleu.corpus_bleu([t.strip() for t in each], [reference], tokenize="none", force=True)
        for each in (texts, outputs)
    ]
    assert bleu[0].score == pytest.approx(bleu[1].score, abs=0.1)
    n_equal = sum(a == b.strip() for a, b in zip(texts, outputs, strict=True))
    assert n_equal >= 0.98 * n_sentences


def test_nbest_lists_are_those_of_moses(real: RealRun) -> None:
    n_entries = n_common = 0
    for sentence_id, entries in real.entries.items():
        found = {line.split(b" ||| ")[1].strip() for line in real.lines[sentence_id]}
        assert len(found) == len(real.lines[sentence_id])
        n_entries += len(entries)
        n_common += len(found & {entry.words for entry in entries})
        totals = [float(line.split(b" ||| ")[3]) for line in real.lines[sentence_id]]
        assert totals == sorted(totals, reverse=True)
    assert abs(sum(map(len, real.lines)) - n_entries) <= 10
    assert n_common >= 0.995 * n_entries


def test_nbest_lines_are_written_as_moses_writes_them(real: RealRun) -> None:
    """Byte for byte, up to the last of six digits, if the same words are first."""
    with gzip.open(real.folder / "nbest100.cube400.gz") as stream:
        written = {}
        for line in stream:
            written.setdefault(int(line.partition(b" ")[0]), line.rstrip(b"\n"))
    n_equal = 0
    for sentence_id, lines in enumerate(real.lines):
        ours, moses = lines[0].split(b" "), written[sentence_id].split(b" ")
        assert len(ours) == len(moses)
        for mine, other in zip(ours, moses, strict=True):
            if mine != other:
                assert float(mine) == pytest.approx(float(other), rel=1e-4, abs=2e-6)
        n_equal += ours == moses
    assert n_equal >= 2 / 3 * len(real.lines)


def test_features_of_moses_entries_from_their_segmentation(real: RealRun) -> None:
    sources = (real.folder / "input.en").read_bytes().split(b"\n")
    rows = _row_numbers(real.folder / "phrase-table.gz")
    columns = [
        feature.first + i
        for feature in real.model.features
        if feature.listed
        for i in range(feature.size)
    ]
    ours, moses, totals = [], [], []
    for sentence_id, entries in real.entries.items():
        source = sources[sentence_id].split()
        for entry in entries:
            moses.append([*sum(parse_features(entry, "nbest").values(), ()), entry.total])
            path = _path(entry, source, rows, real.model.target_ids)
            values = score_path(*path, real.translator.weighted)
            ours.append(values[columns])
            totals.append(values @ real.translator.weighted.weights)
    expected = np.array(moses)
    np.testing.assert_allclose(ours, expected[:, :-1], rtol=5e-6, atol=1e-3)
    np.testing.assert_allclose(totals, expected[:, -1], rtol=5e-6, atol=1e-3)
    assert real.model.n_features == slots.PHRASE_TABLE + 4


def _row_numbers(path: Path) -> dict[tuple[bytes, bytes], int]:
    numbers = {}
    with gzip.open(path) as table:
        for number, line in enumerate(table):
            source, target, _ = line.split(b" ||| ", 2)
            numbers[source, target] = number
    return numbers


def _path(
    entry: NBestEntry,
    source: list[bytes],
    rows: Mapping[tuple[bytes, bytes], int],
    target_ids: Mapping[bytes, int],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    words, phrases = entry.words.split(b" "), []
    for segment in entry.rest[0].split():
        (start, end), (first, last) = (
            (int(span.split(b"-")[0]), int(span.split(b"-")[-1]) + 1)
            for span in segment.split(b"=")
        )
        pair = b" ".join(source[start:end]), b" ".join(words[first:last])
        phrases.append((rows.get(pair, -1), start, end))
    table = np.array(phrases, np.int64)
    ids = np.array([target_ids.get(word, len(target_ids)) for word in words], np.int32)
    return table[:, 0], table[:, 1], table[:, 2], ids
