"""Estimation against models that lmplz made, a plain transcription of the formulas, and kenlm."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.builtin.language_model import ngram_counts
from moses_bridge.builtin.language_model.arpa import Arpa, read_arpa
from moses_bridge.builtin.language_model.kneser_ney import discounts, estimate, pruning_thresholds

Gram = tuple[str, ...]
UNPRUNED = (0,)


def write_text(tmp_path: Path, text: bytes) -> Path:
    path = tmp_path / "text"
    path.write_bytes(text)
    return path


def estimated(text: Path, order: int, prune: tuple[int, ...]) -> Arpa:
    out = text.parent / "lm.arpa.gz"
    estimate(text, out, order, prune)
    return read_arpa(out)


def as_dict(arpa: Arpa) -> dict[Gram, tuple[float, float]]:
    words = [word.decode() for word in arpa.words]
    return {
        tuple(words[i] for i in ids): (log_prob, backoff)
        for section in arpa.sections
        for ids, log_prob, backoff in zip(
            section.ids.tolist(), section.log_probs.tolist(), section.backoffs.tolist(), strict=True
        )
    }


@pytest.mark.parametrize(
    ("name", "order", "prune", "at_once"),
    [
        ("lm.o3", 3, (), 1 << 20),
        ("lm.o5", 5, UNPRUNED, 10_000),
        ("lm.o5.prune001", 5, (0, 0, 1), 1 << 20),
    ],
)
def test_models_of_lmplz(
    golden: Path, tmp_path: Path, name: str, order: int, prune: tuple[int, ...], at_once: int
) -> None:
    out = tmp_path / "lm.arpa"
    estimate(golden / "extract" / "corpus.fr.gz", out, order, prune, at_once)
    ours, theirs = read_arpa(out), read_arpa(golden / "extract" / f"{name}.arpa.gz")
    assert ours.words == theirs.words
    assert ours.order == theirs.order
    for own, expected in zip(ours.sections, theirs.sections, strict=True):
        assert np.array_equal(own.ids, expected.ids)
        assert np.abs(own.log_probs - expected.log_probs).max() < 2e-6
        assert np.abs(own.backoffs - expected.backoffs).max() < 2e-6


def test_bigrams_by_hand(tmp_path: Path) -> None:
    # Bigrams <s>a ab b</s> <s>b ba a</s> <s></s>, once each; different left neighbours: a 2, b 2,
    # </s> 3, of 7. No count of one, so discounts 0.5, 1, 1.5: unigrams leave (1 + 1 + 1.5) / 7
    # = 1/2 to the uniform 1/4 over <unk>, </s>, a, b; each context leaves 1/2 to the unigrams.
    model = as_dict(estimated(write_text(tmp_path, b"a b\n\nb a\n"), 2, UNPRUNED))
    a, end = 1 / 7 + 1 / 8, 1.5 / 7 + 1 / 8
    expected = {
        ("<unk>",): (1 / 8, 1.0),
        ("<s>",): (1.0, 0.5),
        ("</s>",): (end, 1.0),
        ("a",): (a, 0.5),
        ("b",): (a, 0.5),
        ("<s>", "a"): (0.5 / 3 + a / 2, 1.0),
        ("<s>", "b"): (0.5 / 3 + a / 2, 1.0),
        ("<s>", "</s>"): (0.5 / 3 + end / 2, 1.0),
        ("a", "b"): (0.5 / 2 + a / 2, 1.0),
        ("b", "a"): (0.5 / 2 + a / 2, 1.0),
        ("a", "</s>"): (0.5 / 2 + end / 2, 1.0),
        ("b", "</s>"): (0.5 / 2 + end / 2, 1.0),
    }
    assert model.keys() == expected.keys()
    for gram, values in expected.items():
        assert model[gram] == pytest.approx(np.log10(values), abs=1e-6)


WORDS = [f"w{i}" for i in range(60)]


def random_text(n_lines: int) -> list[list[str]]:
    random_numbers = random.Random(5)
    weights = [1.0 / (i + 1) ** 1.5 for i in range(len(WORDS))]
    return [
        random_numbers.choices(WORDS, weights, k=random_numbers.randint(0, 7))
        for _ in range(n_lines)
    ]


def transcription(
    sentences: list[list[str]], order: int, thresholds: list[int]
) -> dict[Gram, tuple[float, float]]:
    """Chen and Goodman's formulas over dictionaries: probability and back-off weight."""
    padded = [("<s>", *sentence, "</s>") for sentence in sentences]
    raw: Counter[Gram] = Counter(
        line[i : i + n] for line in padded for n in range(1, order + 1)
        for i in range(len(line) - n + 1) if line[i : i + n] != ("<s>",)
    )  # fmt: skip
    raw.update({("<s>",): 0, ("<unk>",): 0})
    left: dict[Gram, set[str]] = defaultdict(set)
    for gram in raw:
        left[gram[1:]].add(gram[0])
    counts = {
        gram: count
        if len(gram) == order or gram[0] == "<s>" or gram == ("<unk>",)
        else len(left[gram])
        for gram, count in raw.items()
    }
    followers: dict[Gram, list[Gram]] = defaultdict(list)
    for gram in counts:
        followers[gram[:-1]].append(gram)
    amounts = {}
    for n in range(1, order + 1):
        of = Counter(count for gram, count in counts.items() if len(gram) == n)
        y = of[1] / (of[1] + 2 * of[2])
        amounts[n] = [0.0, *(j - (j + 1) * y * of[j + 1] / of[j] for j in (1, 2, 3))]
        assert all(0 <= amount <= j for j, amount in enumerate(amounts[n])), n

    def kept(gram: Gram) -> bool:
        return len(gram) == 1 or raw[gram] > thresholds[len(gram) - 1]

    def discount(gram: Gram) -> float:
        return amounts[len(gram)][min(counts[gram], 3)]

    def weight(context: Gram) -> float:
        grams = followers[context]
        freed = sum(discount(gram) if kept(gram) else counts[gram] for gram in grams)
        return freed / sum(counts[gram] for gram in grams) if grams else 1.0

    def prob(gram: Gram) -> float:
        if not gram:
            return 1.0 / (len(followers[()]) - 1)
        total = sum(counts[other] for other in followers[gram[:-1]])
        return (counts[gram] - discount(gram)) / total + weight(gram[:-1]) * prob(gram[1:])

    model = {
        gram: (prob(gram), weight(gram) if len(gram) < order else 1.0)
        for gram in counts
        if kept(gram)
    }
    model[("<s>",)] = (1.0, model[("<s>",)][1])
    return model


@pytest.mark.parametrize(
    ("order", "prune"),
    [(1, UNPRUNED), (2, UNPRUNED), (2, (0, 3)), (3, (0, 0, 1)), (4, (0, 1, 2)), (4, (0, 10_000))],
)
def test_agrees_with_the_formulas(tmp_path: Path, order: int, prune: tuple[int, ...]) -> None:
    sentences = random_text(500)
    text = write_text(tmp_path, "".join(" ".join(words) + "\n" for words in sentences).encode())
    model = as_dict(estimated(text, order, prune))
    expected = transcription(sentences, order, pruning_thresholds(order, prune))
    assert model.keys() == expected.keys()
    for gram, values in expected.items():
        assert model[gram] == pytest.approx(np.log10(values), abs=1e-6)


@pytest.mark.parametrize("prune", [UNPRUNED, (0, 0, 2)])
@pytest.mark.parametrize("history", [[], ["w0"], ["w0", "w1"], ["w40", "w39"], ["w1", "w0", "w2"]])
def test_kenlm_finds_distributions_that_sum_to_one(
    tmp_path: Path, prune: tuple[int, ...], history: list[str], kenlm: Any
) -> None:
    sentences = random_text(500)
    text = write_text(tmp_path, "\n".join(map(" ".join, sentences)).encode())
    estimate(text, tmp_path / "lm.arpa", 3, prune)
    model = kenlm.Model(str(tmp_path / "lm.arpa"))
    state, after = kenlm.State(), kenlm.State()
    model.BeginSentenceWrite(state)
    for word in history:
        model.BaseScore(state, word, after)
        state, after = after, state
    words = {"</s>", "unseen"}.union(*sentences)
    total = sum(10.0 ** model.BaseScore(state, word, kenlm.State()) for word in words)
    assert total == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("at_once", [3, 50, 999])
def test_models_do_not_depend_on_what_is_in_memory(tmp_path: Path, at_once: int) -> None:
    sentences = random_text(120)
    text = write_text(tmp_path, "\n".join(map(" ".join, sentences)).encode())
    estimate(text, tmp_path / "whole.arpa", 4, (0, 0, 1))
    estimate(text, tmp_path / "parts.arpa", 4, (0, 0, 1), at_once)
    assert (tmp_path / "parts.arpa").read_bytes() == (tmp_path / "whole.arpa").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"text", "whole.arpa", "parts.arpa"}


def test_memory_does_not_grow_with_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ngram_counts, "TOKENS_AT_ONCE", 500)
    peaks = []
    for n_lines in (800, 8000):
        sentences = random_text(n_lines)
        text = write_text(tmp_path, "\n".join(map(" ".join, sentences)).encode())
        estimate(text, tmp_path / "lm.arpa", 4, (0,), 1000)  # imports and compiled code come before
        tracemalloc.start()
        estimate(text, tmp_path / "lm.arpa", 4, (0,), 1000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_a_full_disk_is_told_with_the_name_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(dir: Path, buffering: int) -> BinaryIO:
        return open("/dev/full", "w+b", buffering=buffering)  # type: ignore[return-value]

    text = write_text(tmp_path, b"a b\n")
    monkeypatch.setattr("tempfile.TemporaryFile", full_disk)
    with pytest.raises(OSError, match=r"No space left on device: .*lm\.arpa"):
        estimate(text, tmp_path / "lm.arpa", 2, ())
    assert not (tmp_path / "lm.arpa").exists()


def test_tiny_text_warns_and_loads(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kenlm: Any
) -> None:
    text = write_text(tmp_path, b"a b\n")
    estimate(text, tmp_path / "lm.arpa", 5, (0, 0, 1))
    assert "too little text, fixed discounts for order 1, 2, 3, 4, 5" in capfd.readouterr().err
    assert kenlm.Model(str(tmp_path / "lm.arpa")).order == 5


def test_words_are_bytes_between_blanks(tmp_path: Path) -> None:
    text = write_text(tmp_path, b" a\xff\tb\x0bb\r\nc\xc2\xa0c a\xff")
    assert estimated(text, 2, UNPRUNED).words[3:] == [b"a\xff", b"b\x0bb", b"c\xc2\xa0c"]


def test_discounts_by_hand() -> None:
    # n1 = 8, n2 = 4, n3 = 2, n4 = 1: Y = 8 / 16; D1 = 1 - 2Y 4/8, D2 = 2 - 3Y 2/4, D3 = 3 - 4Y 1/2
    counts = np.repeat([0, 1, 2, 3, 4, 9], [2, 8, 4, 2, 1, 5])
    assert discounts(np.bincount(counts)) == pytest.approx((0.0, 0.5, 1.25, 2.0))


@pytest.mark.parametrize("repeats", [[0, 4, 2, 1], [8, 0, 2, 1], [8, 4, 0, 1], [1, 1, 30, 1]])
def test_discounts_that_cannot_be_had(repeats: list[int]) -> None:
    assert discounts(np.array([0, *repeats])) is None


@pytest.mark.parametrize(
    ("order", "prune", "message"),
    [
        (0, (), "from 1 to"),
        (99, (), "from 1 to"),
        (2, (0, 0, 1), "more numbers"),
        (3, (1,), "first number must be 0"),
        (3, (0, 2, 1), "no smaller number"),
    ],
)
def test_senseless_settings(
    tmp_path: Path, order: int, prune: tuple[int, ...], message: str
) -> None:
    text = write_text(tmp_path, b"a\n")
    with pytest.raises(ConfigError, match=message):
        estimate(text, tmp_path / "lm.arpa", order, prune)
    assert not (tmp_path / "lm.arpa").exists()


@pytest.mark.parametrize("word", [b"<s>", b"</s>", b"<unk>"])
def test_special_words_in_the_text(tmp_path: Path, word: bytes) -> None:
    with pytest.raises(InputError) as caught:
        estimate(write_text(tmp_path, b"a b\nc " + word + b" d\n"), tmp_path / "lm", 2, ())
    assert caught.value.line == 2


def test_text_without_lines(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no lines"):
        estimate(write_text(tmp_path, b""), tmp_path / "lm", 2, ())
