"""Scores of one output: against scores by hand and against sacreBLEU on text that was never tokenised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from moses_bridge.base.errors import ConfigError, InputError
from tuning.compare.output_scores import score_output, score_systems

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


def test_of_several_references_the_best_match_counts_and_documents_are_drawn(
    texts: tuple[Path, Path], tmp_path: Path
) -> None:
    """A second reference that is the output; of two documents one draw in four is the first one twice."""
    alone = score_output(texts[0], [texts[1]], "fr", n_samples=400)
    both = score_output(texts[0], [texts[1], texts[0]], "fr", n_samples=20)
    assert (both.bleu, both.detokenised_bleu) == (pytest.approx(100), pytest.approx(100))
    groups = tmp_path / "groups"
    groups.write_text("a\nb\na\n")
    scores = score_output(texts[0], [texts[1]], "fr", n_samples=400, groups=groups)
    assert scores.bleu == alone.bleu
    # BLEU of document a twice: matches 7, 2, 1, 0 of 8, 6, 4, 2, so 0; b twice: 6, 5, 4, 3 of 7, 6, 5, 4.
    of_draws = [0.0, alone.bleu, alone.bleu, 100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25]
    assert scores.bootstrap_sd == pytest.approx(np.std(of_draws), rel=0.1)
    groups.write_text("a\nb\n")
    with pytest.raises(InputError, match=r"groups: found 2 lines, expected 3, as .*reference has"):
        score_output(texts[0], [texts[1]], "fr", groups=groups)


def test_the_scores_of_a_system_are_means_over_its_files(texts: tuple[Path, Path]) -> None:
    output, reference = texts
    systems = {"two": [output, reference], "one": [output]}
    two, one = score_systems(systems, [reference], "fr", n_samples=20)
    alone = score_output(output, [reference], "fr", n_samples=20)
    assert (one.system, one.outputs, one.means["chrf"]) == ("one", [alone], alone.chrf)
    assert (one.deviations, two.files) == ({}, [str(output), str(reference)])
    assert two.means["bleu"] == pytest.approx((alone.bleu + 100) / 2)
    assert two.deviations["bleu"] == pytest.approx((100 - alone.bleu) / 2**0.5)
    with pytest.raises(ConfigError, match="one has a file twice: its deviation would be too small"):
        score_systems({"one": [output, output]}, [reference], "fr")
