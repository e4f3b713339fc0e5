"""The search with models seeing the source, replaced here by tables of random numbers."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from moses_bridge.builtin.decoder.model import Model, load_model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.neural_feature import NeuralFeature
from moses_bridge.builtin.decoder.neural_translator import NeuralTranslator
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.translator import Translator
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model
from moses_bridge.cli import main
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.ngram_scorer import NO_ID, n_places

Places = Callable[[Sequence[tuple[int, int]], int, int], list[int]]
ROWS = [
    ("u", "a", 0.3, "0-0"),
    ("u", "b a", 0.25, "0-1"),
    ("v", "b", 0.2, "0-0"),
    ("v", "c", 0.35, ""),
    ("w", "c b", 0.4, "0-0 0-1"),
    ("w", "a", 0.1, "0-0"),
    ("u v", "a b", 0.5, "1-0 0-1"),
    ("u v", "c a b c", 0.22, "0-1 1-1 1-2"),
    ("v w", "b c a", 0.3, ""),
    ("w u v", "a c b", 0.33, "2-0 0-0 1-0 1-2"),
]
TARGETS, SOURCES = ["a", "b", "c", "x", "y"], ["u", "v", "w", "x", "y"]
TEXTS = [b"u v w", b"w x v u", b"", b"v", b"y x u v u w", b"x", b"u w v u v w u"]
NARROW, WIDE = Limits(4, 8, 6), Limits(3000, 6000, 6)
LIST = NBestFormat(40, 100, False, True)
LM_WEIGHT = 0.4


class SourceScorer:
    """Random log probabilities of words given the last ones and the source word around a place.

    Args:
        order: words of an n-gram; they are TARGETS and <s>, 5, which also is </s>. 6 is open.
        knows_open: whether 6 is told.
        noise: error of the estimates.
    """

    start_id = end_id = 5
    reads_source = True

    def __init__(self, order: int, knows_open: bool = True, noise: float = 0.0) -> None:
        self.order = order
        self.open_id = 6 if knows_open else NO_ID
        generator = np.random.default_rng(order)
        shape = (len(SOURCES) + 1, 7, *(7,) * order)  # this source word, the one before, words
        self.table = -generator.exponential(2, shape).astype(np.float32)
        self.noise = noise * generator.normal(size=shape).astype(np.float32)
        self.around = np.zeros((0, 2), np.int64)

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        names = [word.decode("latin-1") for word in words]
        return np.array([TARGETS.index(name) if name in TARGETS else 3 for name in names], np.int32)

    def read(self, sources: Sequence[bytes]) -> int:
        self.around = np.concatenate([self.windows(source.split(b" ")) for source in sources])
        return len(self.around)

    def windows(self, words: list[bytes]) -> NDArray[np.int64]:
        names = [word.decode("latin-1") for word in words]
        ids = [SOURCES.index(name) if name in SOURCES else 3 for name in names]
        return np.column_stack([[*ids, 5], [6, *ids]])

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        assert not len(ngrams) or 0 <= ngrams[:, 0].min() <= ngrams[:, 0].max() < len(self.around)
        return self.table[self.places_in_table(ngrams)]

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        return self.log_probs(ngrams) + self.noise[self.places_in_table(ngrams)]

    def places_in_table(self, ngrams: NDArray[np.int32]) -> tuple[NDArray[np.int64], ...]:
        around = self.around[ngrams[:, 0]]
        return (around[:, 0], around[:, 1], *ngrams[:, 1:].astype(np.int64).T)

    def sentence(self, source: list[str], words: list[str], places: list[int]) -> float:
        """The plain sum over a sentence, </s> included."""
        around = self.windows([word.encode() for word in source])
        ids = [5] * (self.order - 1) + [TARGETS.index(word) for word in words] + [5]
        values = (
            self.table[(*around[place], *ids[i : i + self.order])] for i, place in enumerate(places)
        )
        return float(sum(values))


class TargetScorer(SourceScorer):
    """The same for a model not seeing the source."""

    reads_source = False

    def __init__(self, order: int) -> None:
        super().__init__(order, knows_open=False)

    def read(self, sources: Sequence[bytes]) -> int:
        return n_places(sources)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        return self.table[(0, 0, *ngrams.T)]

    estimates = log_probs

    def sentence(self, source: list[str], words: list[str], places: list[int]) -> float:
        ids = [5] * (self.order - 1) + [TARGETS.index(word) for word in words] + [5]
        return float(
            sum(self.table[(0, 0, *ids[i : i + self.order])] for i in range(len(words) + 1))
        )


def table_of(rows: Sequence[tuple[str, str, float, str]]) -> str:
    return "".join(f"{s} ||| {t} ||| {p:g} ||| {links}\n" for s, t, p, links in rows)


@pytest.fixture
def ini(write_bigram_model: Callable[[str], Path]) -> Path:
    return write_bigram_model(table_of(ROWS))


@pytest.fixture
def model(ini: Path) -> Model:
    return load_model(ini, None, None)


def plain(model: Model, limits: Limits) -> Translator:
    return Translator(model, make_weighted_model(model, model.weight_vector(None)), limits)


def translator(
    model: Model, limits: Limits, scorers: dict[str, tuple[SourceScorer, float]]
) -> NeuralTranslator:
    features = [
        NeuralFeature(name, weight, scorer, model.target_words)
        for name, (scorer, weight) in scorers.items()
    ]
    return NeuralTranslator(plain(model, limits), features)


@dataclass(frozen=True)
class Entry:
    """A line of an n-best list."""

    words: list[str]
    values: dict[str, float]
    total: float
    links: list[tuple[int, int]]


def entry(line: bytes) -> Entry:
    _, words, features, total, links = line.decode().split(" |||")
    pairs = features.split()
    values = {name[:-1]: float(value) for name, value in zip(pairs[::2], pairs[1::2], strict=True)}
    pairs_of_links = [link.split("-") for link in links.split()]
    return Entry(words.split(), values, float(total), [(int(s), int(t)) for s, t in pairs_of_links])


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("knows_open", [True, False])
def test_values_and_totals_are_those_of_words_and_links(
    model: Model, order: int, knows_open: bool, places_by_definition: Places
) -> None:
    scorers = {
        "NNJM0": (SourceScorer(order, knows_open, noise=0.3), 0.35),
        "CSLM0": (TargetScorer(3), 0.2),
        "NNJM1": (SourceScorer(2), 0.1),
    }
    results = translator(model, NARROW, scorers).translate_batch(10, TEXTS, LIST)
    weights = {"LM0": LM_WEIGHT, "WordPenalty0": -0.2, "PhrasePenalty0": 0.1}
    weights |= {"TranslationModel0": 0.3, "Distortion0": 0.2}
    weights |= {name: weight for name, (_, weight) in scorers.items()}
    n_entries = 0
    for text, (_, lines) in zip(TEXTS, results, strict=True):
        source = text.decode().split()
        for found in map(entry, lines):
            n_entries += 1
            places = places_by_definition(found.links, len(source), len(found.words))
            for name, (scorer, _) in scorers.items():
                expected = scorer.sentence(source, found.words, places)
                assert found.values[name] == pytest.approx(expected, rel=1e-5)
            n_unknown = sum(word in "xy" for word in found.words)
            total = sum(weights[name] * value for name, value in found.values.items())
            assert found.total == pytest.approx(total - 100 * n_unknown, rel=1e-4, abs=1e-4)
        totals = [entry(line).total for line in lines]
        assert totals == sorted(totals, reverse=True)
    assert n_entries > 40


@pytest.mark.parametrize("limits", [NARROW, WIDE])
def test_without_weight_the_search_is_unchanged(model: Model, limits: Limits) -> None:
    scorers = {"NNJM0": (SourceScorer(3), 0.0), "CSLM0": (TargetScorer(3), 0.0)}
    found = translator(model, limits, scorers).translate_batch(0, TEXTS, LIST)
    expected = plain(model, limits).translate_batch(0, TEXTS, LIST)
    assert [text for text, _ in found] == [text for text, _ in expected]
    for (_, lines), (_, old) in zip(found, expected, strict=True):
        assert [entry(line).total for line in lines] == [entry(line).total for line in old]


@dataclass(frozen=True)
class Piece:
    """A phrase pair at its position in a source."""

    start: int
    end: int
    words: list[str]
    score: float
    places: list[int]


def pieces_of(source: list[str], places_by_definition: Places) -> list[Piece]:
    """All phrase pairs of a source, with their words' places in the search."""
    pieces = []
    for start, end in itertools.combinations(range(len(source) + 1), 2):
        span = " ".join(source[start:end])
        for phrase, target, prob, text in ROWS:
            if phrase == span:
                links = [(int(link[0]), int(link[2])) for link in text.split()]
                words = target.split()
                places = places_by_definition(links, end - start, len(words))[:-1]
                piece = [start + place for place in places]
                pieces.append(Piece(start, end, words, math.log(prob), piece))
        if span in ("x", "y"):
            pieces.append(Piece(start, end, [span], 0.0, [start]))
    return pieces


def derivations(pieces: list[Piece], n_words: int) -> Iterator[tuple[Piece, ...]]:
    """All ways to cover a source, in any order."""

    def covers(chosen: tuple[Piece, ...]) -> bool:
        covered = [i for piece in chosen for i in range(piece.start, piece.end)]
        return sorted(covered) == list(range(n_words))

    for n_pieces in range(1, n_words + 1):
        for chosen in itertools.combinations(pieces, n_pieces):
            if covers(chosen):
                yield from itertools.permutations(chosen)


@pytest.mark.parametrize("source", ["u v w", "w u v", "w v x", "x u v w"])
@pytest.mark.parametrize("knows_open", [True, False])
def test_a_wide_search_finds_the_best_of_all_translations(
    model: Model, source: str, knows_open: bool, places_by_definition: Places, kenlm: Any
) -> None:
    """With bigram scorers, whose state is that of the n-gram model."""
    scorers = {"NNJM0": (SourceScorer(2, knows_open), 1.5), "CSLM0": (TargetScorer(2), 0.7)}
    ((text, _),) = translator(model, WIDE, scorers).translate_batch(0, [source.encode()], None)
    lm = kenlm.Model(str(model.ini.path.parent / "lm.arpa"))
    n_words = len(source.split())
    scores: dict[str, float] = {}
    for pieces in derivations(pieces_of(source.split(), places_by_definition), n_words):
        words = [word for piece in pieces for word in piece.words]
        places = [place for piece in pieces for place in piece.places] + [n_words]
        result = " ".join(words)
        score = LM_WEIGHT * lm.score(result) * math.log(10)
        score += 0.2 * len(words) + 0.1 * len(pieces) + 0.3 * sum(piece.score for piece in pieces)
        for scorer, weight in scorers.values():
            score += weight * scorer.sentence(source.split(), words, places)
        ends = [0, *(piece.end for piece in pieces[:-1])]
        score -= 0.2 * sum(abs(p.start - end) for p, end in zip(pieces, ends, strict=True))
        scores[result] = max(score, scores.get(result, -math.inf))
    assert len(scores) > 8
    assert text.decode() == max(scores, key=lambda result: scores[result])


def test_a_batch_gives_the_same_as_its_sentences(model: Model) -> None:
    scorers = {"NNJM0": (SourceScorer(4, noise=0.2), 0.5), "NNJM1": (SourceScorer(2), 0.3)}
    whole = translator(model, NARROW, scorers).translate_batch(0, TEXTS, LIST)
    alone = translator(model, NARROW, scorers)
    assert [alone.translate_batch(i, [s], LIST)[0] for i, s in enumerate(TEXTS)] == whole
    assert alone.translate_batch(0, TEXTS, LIST) == whole


SCRIPT = """import sys
sys.path.insert(0, {folder!r})
from test_neural_source import SourceScorer
from moses_bridge.formats.ngram_scorer import serve_ngrams
serve_ngrams(SourceScorer(int(sys.argv[1])), sys.stdin.buffer, sys.stdout.buffer)
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    """A scorer in a process of its own; its order follows."""
    script = tmp_path / "scorer.py"
    script.write_text(SCRIPT.format(folder=str(Path(__file__).parent)))
    return f"{sys.executable} {script}"


HARD = b"""
u v w
x
||| [x] &#124; <seg id='1'> u </seg> </s> <s>
\xff\xfe \x80 u\r
 \t\x20
\xc2\xa0 \xe2\x80\xa8 \x0c \xc2\x85
""" + b"\n".join([b"u v w x " * 40, b"unknown " * 130, b"", b"v", b"u w " * 3])


def test_processes_with_scorers_of_their_own_give_what_one_gives(ini: Path, command: str) -> None:
    neural_lms = (f"NNJM0={command} 3", f"NNJM1={command} 2")
    options = DecoderConfig(5, 10, kind="builtin", neural_lm=neural_lms, alignment=True)
    source = ini.parent / "in"
    source.write_bytes(HARD * 6)
    weights = {"NNJM0": [0.3], "NNJM1": [0.1]}
    found = []
    for jobs in (1, 2):
        out, nbest = ini.parent / f"out{jobs}", ini.parent / f"nbest{jobs}"
        with open_decoder(ini, options, jobs) as search:
            search.decode(source, out, weights, nbest, 20)
        found.append((out.read_bytes(), nbest.read_bytes()))
    assert found[0] == found[1]
    assert len(found[0][0].split(b"\n")) == len((HARD * 6).split(b"\n")) + 1


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("links", "message"),
    [("", "table:1: found no word links"), ("0-7", "table:1: found the link '0-7'")],
)
def test_a_table_whose_links_are_bad_is_reported(
    tmp_path: Path,
    write_bigram_model: Callable[[str], Path],
    command: str,
    jobs: int,
    links: str,
    message: str,
) -> None:
    ini = write_bigram_model(table_of([(s, t, p, links) for s, t, p, _ in ROWS]))
    (tmp_path / "in").write_bytes(b"u v w\n" * 99)
    (tmp_path / "weights.json").write_text('{"NNJM0": [0.5]}')
    arguments = ["decode", "--ini", ini, "--source", tmp_path / "in", "--out", tmp_path / "out"]
    arguments += ["--weights", tmp_path / "weights.json", "--neural-lm", f"NNJM0={command} 2"]
    result = CliRunner().invoke(main, [*map(str, arguments), "--jobs", str(jobs)])
    assert result.exit_code == 1 and result.output.count(message) == 1
    assert "Traceback" not in result.output and not (tmp_path / "out").exists()


def test_bad_links_do_not_matter_to_models_that_do_not_see_the_source(
    write_bigram_model: Callable[[str], Path],
) -> None:
    table = table_of([(s, t, p, "9-9 x") for s, t, p, _ in ROWS])
    model = load_model(write_bigram_model(table), None, None)
    found = translator(model, NARROW, {"CSLM0": (TargetScorer(3), 0.3)})
    assert len(found.translate_batch(0, TEXTS, None)) == len(TEXTS)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("A0", "A0"), "2 neural models have the name A0"),
        (("A0", "LM0"), "has a feature LM0; use another name"),
        (("A0", "B_0"), "B_0"),
    ],
)
def test_names_must_differ(ini: Path, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_decoder(ini, DecoderConfig(neural_lm=tuple(f"{name}=cat" for name in names)), 1)


def test_each_needs_a_weight(ini: Path) -> None:
    (ini.parent / "in").write_bytes(b"u\n")
    with (
        open_decoder(ini, DecoderConfig(neural_lm=("A0=cat", "B0=cat")), 1) as search,
        pytest.raises(ConfigError, match="0 weights of B0"),
    ):
        search.decode(ini.parent / "in", ini.parent / "out", {"A0": [0.5]}, None, 1)


def test_a_single_one_needs_no_brackets() -> None:
    assert DecoderConfig(neural_lm="A0=cat x") == DecoderConfig(neural_lm=("A0=cat x",))
