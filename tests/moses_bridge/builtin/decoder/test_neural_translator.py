"""The search with a neural language model, replaced here by tables of random numbers."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, ToolError, UserError
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
from moses_bridge.formats.ngram_scorer import NO_ID, NeuralLm, ScorerProcess, n_places

PAIRS = {
    "u": ["a", "b a"],
    "v": ["b", "c"],
    "w": ["c b", "a", ""],
    "u v": ["a b", "c"],
    "v w": ["b c a", "b"],
}
WORDS = ["a", "b", "c", "x", "y"]
SOURCES = [b"u v w", b"w x v u", b"", b"v", b"y x u v u w", b"x", b"u w v u v w u"]
NARROW, WIDE = Limits(4, 8, 6), Limits(3000, 6000, 6)
LIST = NBestFormat(40, 100, False, False)


class RandomScorer:
    """Random log probabilities of all n-grams of six words: WORDS and <s>, 5, which also is </s>.

    Args:
        order: words of an n-gram.
        noise: error of the estimates.
    """

    start_id = end_id = 5
    open_id, reads_source = NO_ID, False

    def __init__(self, order: int, noise: float = 0.0) -> None:
        self.order = order
        generator = np.random.default_rng(order)
        self.table = -generator.exponential(2, (6,) * order).astype(np.float32)
        self.noise = noise * generator.normal(size=(6,) * order).astype(np.float32)
        self.n_dependent: list[int] = []
        self.message = ""

    def tell(self, file: str) -> None:
        """Append the start, and each request for values, to a file."""
        self.message = file
        self._append("start")

    def _append(self, line: str) -> None:
        if self.message:
            with open(self.message, "a") as stream:
                stream.write(f"{line}\n")

    def read(self, sources: Sequence[bytes]) -> int:
        return n_places(sources)

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        names = [word.decode("latin-1") for word in words]
        return np.array([WORDS.index(name) if name in WORDS else 3 for name in names], np.int32)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        self.n_dependent.append(len(ngrams))
        self._append(f"{len(ngrams)} values")
        return self.table[tuple(ngrams.T)]

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        return self.log_probs(ngrams) + self.noise[tuple(ngrams.T)]

    def sentence(self, words: list[str]) -> float:
        """The plain sum over a sentence, </s> included."""
        ids = [5] * (self.order - 1) + [WORDS.index(word) for word in words] + [5]
        windows = (tuple(ids[i : i + self.order]) for i in range(len(words) + 1))
        return sum(float(self.table[window]) for window in windows)


class CopyOfTheNgramModel(RandomScorer):
    """A bigram model once more.

    Args:
        arpa: its file's text.
    """

    def __init__(self, arpa: str) -> None:
        super().__init__(2)
        names = ["a", "b", "c", "<unk>", "<unk>"]
        probs = {tuple(f[1].split()): float(f[0]) for f in fields_of(arpa) if len(f) > 1}
        weights = {f[1]: float(f[2]) for f in fields_of(arpa) if len(f) == 3}
        for before, word in itertools.product(range(6), repeat=2):
            old = [*names, "<s>"][before]
            new = [*names, "</s>"][word]
            backed_off = weights.get(old, 0.0) + probs[(new,)]
            self.table[before, word] = probs.get((old, new), backed_off) * math.log(10)


def fields_of(arpa: str) -> Iterator[list[str]]:
    return (line.split("\t") for line in arpa.split("\n") if line[:1] in "-0")


@pytest.fixture
def ini(write_bigram_model: Callable[[str], Path]) -> Path:
    rows = [(s, t, 0.1 + 0.07 * i) for i, (s, ts) in enumerate(PAIRS.items()) for t in ts]
    table = [f"{s} ||| {t} ||| {p + len(t) / 50:g}\n" for s, t, p in rows]
    return write_bigram_model("".join(table))


@pytest.fixture
def model(ini: Path) -> Model:
    return load_model(ini, None, None)


def plain(model: Model, limits: Limits, **weights: list[float]) -> Translator:
    return Translator(model, make_weighted_model(model, model.weight_vector(weights)), limits)


def neural(
    model: Model, limits: Limits, scorer: RandomScorer, weight: float, **weights: list[float]
) -> NeuralTranslator:
    feature = NeuralFeature("CSLM0", weight, scorer, model.target_words)
    return NeuralTranslator(plain(model, limits, **weights), [feature])


def fields(line: bytes) -> tuple[list[str], dict[str, float], float]:
    """Words, features and total of an n-best line."""
    _, words, features, total = line.decode().split(" ||| ")
    pairs = features.split()
    values = {name: float(value) for name, value in zip(pairs[::2], pairs[1::2], strict=True)}
    return words.split(), values, float(total)


def listed(lines: list[bytes]) -> set[tuple[str, ...]]:
    """The translations of a list, except those as good as its last one."""
    entries = [fields(line) for line in lines]
    return {tuple(words) for words, _, total in entries if total > entries[-1][2] + 1e-3}


@pytest.mark.parametrize("order", [1, 2, 4])
def test_values_and_totals_are_those_of_the_words(model: Model, order: int) -> None:
    scorer, weight = RandomScorer(order, noise=0.3), 0.35
    results = neural(model, NARROW, scorer, weight).translate_batch(10, SOURCES, LIST)
    n_entries = 0
    for number, (text, lines) in enumerate(results, start=10):
        totals = [fields(line)[2] for line in lines]
        assert totals == sorted(totals, reverse=True)
        assert all(line.startswith(b"%d ||| " % number) for line in lines)
        assert (
            text.decode().split() in [fields(line)[0] for line in lines] or not SOURCES[number - 10]
        )
        for line in lines:
            words, values, total = fields(line)
            n_entries += 1
            assert values["CSLM0="] == pytest.approx(scorer.sentence(words), rel=1e-5)
            ini_weights = {"LM0=": 0.4, "WordPenalty0=": -0.2, "PhrasePenalty0=": 0.1}
            ini_weights |= {"TranslationModel0=": 0.3, "Distortion0=": 0.2, "CSLM0=": weight}
            n_unknown = sum(word in "xy" for word in words)
            expected = sum(ini_weights[name] * value for name, value in values.items())
            assert total == pytest.approx(expected - 100 * n_unknown, rel=1e-4)
    assert n_entries > 20


@pytest.mark.parametrize("limits", [NARROW, WIDE])
def test_without_weight_the_search_is_unchanged(model: Model, limits: Limits) -> None:
    found = neural(model, limits, RandomScorer(3), 0.0).translate_batch(0, SOURCES, LIST)
    expected = plain(model, limits).translate_batch(0, SOURCES, LIST)
    assert [text for text, _ in found] == [text for text, _ in expected]
    for (_, lines), (_, old) in zip(found, expected, strict=True):
        assert listed(lines) == listed(old)
        assert [fields(line)[2] for line in lines] == [fields(o)[2] for o in old]


@pytest.mark.parametrize("limits", [NARROW, WIDE])
def test_a_copy_of_the_ngram_model_counts_as_more_weight_of_it(
    model: Model, limits: Limits
) -> None:
    copied = neural(
        model, limits, CopyOfTheNgramModel((model.ini.path.parent / "lm.arpa").read_text()), 0.4
    )
    found = copied.translate_batch(0, SOURCES, LIST)
    expected = plain(model, limits, LM0=[0.8]).translate_batch(0, SOURCES, LIST)
    assert [text for text, _ in found] == [text for text, _ in expected]
    for (_, lines), (_, old) in zip(found, expected, strict=True):
        assert listed(lines) == listed(old)
        for line, other in zip(lines, old, strict=True):
            assert fields(line)[2] == pytest.approx(fields(other)[2], rel=1e-4, abs=1e-4)
            assert fields(line)[1]["CSLM0="] == pytest.approx(fields(line)[1]["LM0="], rel=1e-4)


# The n-gram model has weight 0.4, and 0 together with the second weight: nothing can stand in then.
@pytest.mark.parametrize("weight", [1.5, -0.4, -0.7])
@pytest.mark.parametrize("source", ["u v w", "u w v u", "w v x"])
def test_a_wide_search_finds_the_best_of_all_translations(
    model: Model, source: str, weight: float, kenlm: Any
) -> None:
    """Monotone, and with a bigram scorer, whose state is that of the n-gram model."""
    scorer = RandomScorer(2)
    wide = replace_limit(WIDE)
    ((text, _),) = neural(model, wide, scorer, weight).translate_batch(0, [source.encode()], None)
    lm = kenlm.Model(str(model.ini.path.parent / "lm.arpa"))
    scores: dict[str, float] = {}
    for targets in derivations(source.split()):
        words = " ".join(target for target, _ in targets if target).split()
        score = 0.4 * lm.score(" ".join(words)) * math.log(10) + weight * scorer.sentence(words)
        score += 0.2 * len(words) + 0.1 * len(targets) + 0.3 * sum(value for _, value in targets)
        result = " ".join(words)
        scores[result] = max(score, scores.get(result, -math.inf))
    assert text.decode() == max(scores, key=lambda result: scores[result])


def replace_limit(limits: Limits) -> Limits:
    return limits._replace(distortion_limit=0)


def derivations(words: list[str]) -> Iterator[list[tuple[str, float]]]:
    if not words:
        yield []
    for end in range(1, len(words) + 1):
        span, number = " ".join(words[:end]), list(PAIRS)
        targets = [
            (target, math.log(0.1 + 0.07 * number.index(span) + len(target) / 50))
            for target in PAIRS.get(span, [])
        ]
        if span in "xy":
            targets = [(span, 0.0)]
        for target, rest in itertools.product(targets, derivations(words[end:])):
            yield [target, *rest]


def test_a_batch_gives_the_same_as_its_sentences_and_asks_twice_a_stack_and_once_for_lists(
    model: Model,
) -> None:
    scorer = RandomScorer(3)
    whole = neural(model, NARROW, scorer, 0.5).translate_batch(0, SOURCES, LIST)
    longest = max(len(source.split()) for source in SOURCES)
    assert len(scorer.n_dependent) <= 2 * longest + 1  # one for all lists
    alone = neural(model, NARROW, RandomScorer(3), 0.5)
    assert [alone.translate_batch(i, [s], LIST)[0] for i, s in enumerate(SOURCES)] == whole


@pytest.mark.parametrize("n_lines", [70, 131])
def test_many_lines_give_in_order_what_each_gives_alone(model: Model, n_lines: int) -> None:
    lines = (SOURCES * 19)[:n_lines]
    many = neural(model, NARROW, RandomScorer(3), 0.5).translate_batch(5, lines, LIST)
    alone = neural(model, NARROW, RandomScorer(3), 0.5)
    for i, line in enumerate(lines):
        assert alone.translate_batch(5 + i, [line], LIST) == [many[i]]


def test_a_strong_neural_model_changes_the_translation(model: Model) -> None:
    texts = {
        weight: neural(model, NARROW, RandomScorer(2), weight).translate_batch(0, SOURCES, None)
        for weight in (0.0, 5.0)
    }
    assert texts[0.0] != texts[5.0]


SCRIPT = """import sys
sys.path.insert(0, {folder!r})
from test_neural_translator import RandomScorer
from moses_bridge.formats.ngram_scorer import serve_ngrams
scorer = RandomScorer(3)
if len(sys.argv) > 1:  # a file for the start and each request for values
    scorer.tell(sys.argv[1])
serve_ngrams(scorer, sys.stdin.buffer, sys.stdout.buffer)
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    """A scorer in a process of its own, as NAME=COMMAND."""
    script = tmp_path / "scorer.py"
    script.write_text(SCRIPT.format(folder=str(Path(__file__).parent)))
    return f"CSLM0={sys.executable} {script}"


def run(ini: Path, text: bytes, options: DecoderConfig, jobs: int, weight: float) -> list[bytes]:
    source, out, nbest = (ini.parent / name for name in ("in", "out", "nbest"))
    source.write_bytes(text)
    with open_decoder(ini, options, jobs) as search:
        search.decode(source, out, {"CSLM0": [weight]}, nbest, 20)
    return [out.read_bytes(), nbest.read_bytes()]


def test_a_decoder_starts_a_scorer_once_for_all_texts(ini: Path, command: str) -> None:
    starts = ini.parent / "starts"
    counted = f"CSLM0=sh -c 'echo >> {starts}; exec {command.removeprefix('CSLM0=')}'"
    options = DecoderConfig(kind="builtin", stack_size=5, pop_limit=10, neural_lm=counted)
    source, out, nbest = (ini.parent / name for name in ("in", "out", "nbest"))
    found = []
    with open_decoder(ini, options, 1) as search:
        for text, weight in ((b"u v w\n", 0.3), (b"w u\nx v\n", 0.7)):
            source.write_bytes(text)
            search.decode(source, out, {"CSLM0": [weight]}, nbest, 20)
            found.append([out.read_bytes(), nbest.read_bytes()])
        assert starts.read_bytes() == b"\n"
    plain = replace(options, neural_lm=command)
    assert found == [run(ini, b"u v w\n", plain, 1, 0.3), run(ini, b"w u\nx v\n", plain, 1, 0.7)]


def test_processes_keep_their_scorers_and_what_was_asked_of_any(ini: Path, command: str) -> None:
    """With the same weights the second decoding requests nothing, whichever process has which lines."""
    asked = ini.parent / "asked"
    asks = f"{command.removeprefix('CSLM0=')} {asked}"
    options = DecoderConfig(kind="builtin", stack_size=5, pop_limit=10, neural_lm=f"CSLM0={asks}")
    source, out, nbest = (ini.parent / name for name in ("in", "out", "nbest"))
    source.write_bytes(
        b"".join(
            b" ".join([*line]) + b"\n" for line in itertools.product(*[[b"u", b"v", b"w"]] * 5)
        )
    )
    found = []
    with open_decoder(ini, options, 2) as search:
        for _ in range(2):
            search.decode(source, out, {"CSLM0": [0.3]}, nbest, 20)
            found.append((out.read_bytes(), nbest.read_bytes(), asked.read_bytes()))
    assert found[0] == found[1]
    starts = [line for line in found[0][2].split(b"\n") if line == b"start"]
    assert len(starts) == 2


def test_a_scorer_that_dies_between_texts_is_reported(ini: Path) -> None:
    dies = "CSLM0=sh -c 'echo ngram-scorer 1 2 0 0; exit 5'"
    (ini.parent / "in").write_bytes(b"u\n")
    with open_decoder(ini, DecoderConfig(kind="builtin", neural_lm=dies), 1) as search:
        for _ in range(2):
            with pytest.raises(ToolError, match="status 5"):
                search.decode(ini.parent / "in", ini.parent / "out", {"CSLM0": [0.5]}, None, 1)


HARD = b"""
u v w
x
||| [x] &#124; <seg id='1'> u </seg> </s> <s>
\xff\xfe \x80 u\r
 \t\x20
\xc2\xa0 \xe2\x80\xa8 \x0c \xc2\x85
""" + b"\n".join([b"u v w x " * 40, b"unknown " * 130, b"", b"v", b"u w " * 3])


def test_processes_with_a_scorer_each_give_a_line_for_any_line(ini: Path, command: str) -> None:
    options = DecoderConfig(kind="builtin", stack_size=5, pop_limit=10, neural_lm=command)
    text = HARD * 6
    alone = run(ini, text, options, 1, 0.3)
    assert run(ini, text, options, 2, 0.3) == alone
    lines = text.split(b"\n")
    outputs = alone[0].split(b"\n")
    assert len(outputs) == len(lines) + 1 and outputs[-1] == b""
    for line, output in zip(lines, outputs, strict=False):
        line = line.removesuffix(b"\r")  # it ends the line in many files
        words = [word for word in line.replace(b"\t", b" ").split(b" ") if word]
        assert bool(words) == bool(output)
        for word in set(words) - {b"u", b"v", b"w"}:
            assert output.split(b" ").count(word) == words.count(word)
    plain_options = replace(options, neural_lm=())
    with open_decoder(ini, plain_options, 1) as search:
        search.decode(ini.parent / "in", ini.parent / "plain", None, ini.parent / "list", 20)
    assert len((ini.parent / "plain").read_bytes().split(b"\n")) == len(lines) + 1


DIES = """import struct, sys
print('ngram-scorer 1 2 0 0', flush=True)
while sys.stdin.buffer.read(1) in {answered!r}:
    n_bytes = struct.unpack('<I', sys.stdin.buffer.read(4))[0]
    n_words = sys.stdin.buffer.read(n_bytes).count(b'\\n') + 1
    sys.stdout.buffer.write(bytes(4 * n_words))
    sys.stdout.buffer.flush()
sys.exit('no memory left')
"""


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("answered", [(), (b"W",)])
def test_a_scorer_that_dies_is_reported_in_its_own_words(
    ini: Path, tmp_path: Path, jobs: int, answered: tuple[bytes, ...]
) -> None:
    script = tmp_path / "dies.py"
    script.write_text(DIES.format(answered=answered))
    options = DecoderConfig(kind="builtin", neural_lm=f"CSLM0={sys.executable} {script}")
    with pytest.raises(UserError, match=r"dies\.py.*status 1.*no memory left"):
        run(ini, b"u v w\n" * 99, options, jobs, 0.3)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["echo ngram-scorer 2", "true", "/no/such/program"])
def test_a_command_that_is_no_scorer_is_reported(command: str) -> None:
    with pytest.raises(ToolError, match=command.split()[0]):
        ScorerProcess(NeuralLm.parse(f"CSLM0={command}").command)


def test_what_does_not_fit_a_neural_model_is_refused(ini: Path) -> None:
    with pytest.raises(ConfigError, match="Moses"):
        open_decoder(ini, DecoderConfig(kind="moses", neural_lm="CSLM0=cat"), 1)
    with pytest.raises(ConfigError, match="LM0; use another name"):
        open_decoder(ini, DecoderConfig(kind="builtin", neural_lm="LM0=cat"), 1)
    (ini.parent / "in").write_bytes(b"u\n")
    with (
        open_decoder(ini, DecoderConfig(neural_lm="CSLM0=cat"), 1) as search,
        pytest.raises(ConfigError, match="0 weights of CSLM0"),
    ):
        search.decode(ini.parent / "in", ini.parent / "out", None, None, 1)


def test_the_command_line(ini: Path, command: str) -> None:
    source, weights = ini.parent / "in", ini.parent / "weights.json"
    source.write_bytes(b"u v w\n")
    weights.write_text('{"CSLM0": [0.5]}')
    arguments = ["decode", "--ini", ini, "--source", source, "--out", ini.parent / "out"]
    arguments += ["--weights", weights, "--neural-lm", command, "--jobs", "1"]
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    assert len((ini.parent / "out").read_bytes().split()) > 0
