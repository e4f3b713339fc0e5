"""Scores of one output: against scores by hand and against sacreBLEU on text that was never tokenised."""

from __future__ import annotations

from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from moses_bridge.errors import InputError
from tuning.compare.output_scores import score_output

# As tokenised text, and as it reads.
OUTPUT = ["l&apos; homme est là .", "un chat noir , deux chats blancs", "trois petits chiens"]
REFERENCE = ["l&apos; homme est ici .", "un chat noir , deux chats gris", "trois chiens petits"]
PLAIN_OUTPUT = ["l'homme est là.", "un chat noir, deux chats blancs", "trois petits chiens"]
PLAIN_REFERENCE = ["l'homme est ici.", "un chat noir, deux chats gris", "trois chiens petits"]


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    for name, lines in (("output", OUTPUT), ("reference", REFERENCE)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    return tmp_path / "output", tmp_path / "reference"


def test_detokenised_scores_are_sacrebleus_on_plain_text(texts: tuple[Path, Path]) -> None:
    scores = score_output(texts[0], [texts[1]], "fr", n_samples=20)
    for found, metric in (
        (scores.detokenised_bleu, BLEU()),
        (scores.chrf, CHRF()),
        (scores.ter, TER()),
    ):
        expected = metric.corpus_score(PLAIN_OUTPUT, [PLAIN_REFERENCE])
        assert found == pytest.approx(expected.score)


def test_bleu_of_tokens_by_hand(texts: tuple[Path, Path]) -> None:
    # Matches of 1- to 4-grams: 4+6+3, 2+5+0, 1+4+0, 0+3+0 of 15, 12, 9, 6; equal lengths.
    scores = score_output(texts[0], [texts[1]], "fr", n_samples=20)
    assert scores.precisions == pytest.approx([1300 / 15, 700 / 12, 500 / 9, 300 / 6])
    assert scores.bleu == pytest.approx(100 * (13 / 15 * 7 / 12 * 5 / 9 * 3 / 6) ** 0.25)
    assert (scores.output_words, scores.reference_words, scores.length_ratio) == (15, 15, 1)
    assert scores.bootstrap_sd > 0


def test_words_of_longer_output_and_the_default_bootstrap(texts: tuple[Path, Path]) -> None:
    texts[0].write_text("".join(line + " tout petits\n" for line in OUTPUT))
    scores = score_output(texts[0], [texts[1]], "fr")
    assert (scores.output_words, scores.reference_words, scores.length_ratio) == (21, 15, 21 / 15)
    assert scores == score_output(texts[0], [texts[1]], "fr", n_samples=1000, seed=1)


def test_other_numbers_of_lines_are_refused(texts: tuple[Path, Path]) -> None:
    texts[0].write_text("un\n")
    with pytest.raises(InputError, match=r"output: found 1 lines, expected 3"):
        score_output(texts[0], [texts[1]], "fr")
