from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from moses_bridge.base.errors import InputError
from moses_bridge.formats.nbest import read_nbest
from moses_bridge.formats.tuning_data import read_scores
from tuning.metrics.bleu import (
    References,
    bleu,
    length_ratio,
    log_sentence_bleu,
    mean_precision,
    precisions,
)
from tuning.metrics.matched_ngrams import closest_length
from tuning.metrics.metric import read_references

SENTENCE = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=9).map(
    lambda words: " ".join(words).encode()
)


def transcription(hypothesis: bytes, references: list[bytes]) -> list[int]:
    """Papineni et al. (2002), section 2.1.1, with counters; one pass an order."""
    words = hypothesis.split()
    row = []
    for order in range(1, 5):
        ngrams = Counter(zip(*(words[k:] for k in range(order)), strict=False))
        limits: Counter[tuple[bytes, ...]] = Counter()
        for reference in references:
            other = reference.split()
            limits |= Counter(zip(*(other[k:] for k in range(order)), strict=False))
        row += [(ngrams & limits).total(), ngrams.total()]
    lens = sorted(len(reference.split()) for reference in references)
    return [*row, min(lens, key=lambda length: abs(length - len(words)))]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(SENTENCE, st.lists(SENTENCE, min_size=1, max_size=3)), max_size=4))
def test_counts_are_those_of_the_definition(sentences: list[tuple[bytes, list[bytes]]]) -> None:
    references = References([refs for _, refs in sentences])
    rows = references.statistics(enumerate(text for text, _ in sentences))
    assert rows.tolist() == [transcription(text, refs) for text, refs in sentences]


@pytest.mark.parametrize("run", ["run1", "run2"])
def test_statistics_are_those_of_mosess_extractor(golden: Path, run: str) -> None:
    # The extractor drops copies and changes the order; features and copies: see test_nbest_pool.
    references = References.read([golden / "mert" / "reference.fr"])
    (nbest,) = (golden / "mert").glob(f"{run}.best*.out.gz")
    entries = list(read_nbest(nbest))
    found = references.statistics((entry.sentence_id, entry.words) for entry in entries)
    ids = np.array([entry.sentence_id for entry in entries])
    for block in read_scores(golden / "mert" / f"{run}.scores.dat.gz"):
        ours = found[ids == block.sentence_id]
        assert set(map(tuple, ours.tolist())) == set(map(tuple, block.values.tolist()))
        if block.sentence_id == 300:
            break


@pytest.mark.parametrize(
    ("length", "lens", "closest"),
    [(5, [5], 5), (5, [4, 6], 4), (5, [6, 4], 4), (0, [3, 2], 2), (9, [1, 8, 12], 8)],
)
def test_closest_length_ties_to_the_shorter(length: int, lens: list[int], closest: int) -> None:
    assert closest_length(length, np.array(lens)) == closest


def test_bleu_equals_sacrebleu_on_tokens(golden: Path) -> None:
    output, reference = (
        (golden / "decode" / name).read_text("utf-8").split("\n")[:-1]
        for name in ("output.cube400.fr", "reference.fr")
    )
    peer = BLEU(tokenize="none", smooth_method="none", force=True).corpus_score(output, [reference])
    rows = References([[line.encode()] for line in reference]).statistics(
        enumerate(line.encode() for line in output)
    )
    sums = rows.sum(axis=0)
    assert float(bleu(sums)) == pytest.approx(peer.score, abs=1e-9)
    assert precisions(sums) == pytest.approx(peer.precisions, abs=1e-9)
    assert length_ratio(sums) == pytest.approx(peer.sys_len / peer.ref_len)


@pytest.mark.parametrize("n_references", [1, 2])
def test_figures_are_those_of_multi_bleu(small_golden: Path, n_references: int) -> None:
    folder = small_golden / "decode"
    first = (folder / "reference.fr").read_bytes().split(b"\n")[:-1]
    references = [first, first[::-1]][:n_references]
    output = (folder / "output.cube400.fr").read_bytes().split(b"\n")[:-1]
    rows = References(list(zip(*references, strict=True))).statistics(enumerate(output))
    sums = rows.sum(axis=0)
    found = "BLEU = {:.2f}, {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP={:.3f}, ratio={:.3f}, ".format(
        float(bleu(sums)),
        *precisions(sums),
        min(1.0, np.exp(1 - 1 / length_ratio(sums))),
        length_ratio(sums),
    )
    found += f"hyp_len={sums[1]}, ref_len={sums[-1]})"
    assert found == (folder / "multi-bleu.txt").read_text().split("\n")[n_references - 1]


def test_bleu_by_hand() -> None:
    # 3 of 4 words, 2 of 3 pairs, 1 of 2 triples, and no 4-gram at all: 0. With 1 of 1: by the formula.
    assert bleu(np.array([3, 4, 2, 3, 1, 2, 0, 1, 4])) == 0
    sums = np.array([3, 4, 2, 3, 1, 2, 1, 1, 5])
    assert bleu(sums) == pytest.approx(100 * (3 / 4 * 2 / 3 / 2) ** 0.25 * np.exp(1 - 5 / 4))


def test_sentence_bleu_by_hand() -> None:
    # Orders above 1 get one more, 3/6, 2/6, 2/5, 2/4; so does the reference, 7 words for 6, if asked.
    wrong = np.array([[3, 6, 1, 5, 1, 4, 1, 3, 6]], np.int32)
    expected = (3 / 6 * 2 / 6 * 2 / 5 * 2 / 4) ** 0.25
    assert np.exp(log_sentence_bleu(wrong)) == pytest.approx(expected)
    too_long = np.array([[6, 6, 5, 5, 4, 4, 3, 3, 4]], np.int32)
    assert log_sentence_bleu(too_long).tolist() == [0]
    longer = log_sentence_bleu(wrong, added_reference_words=1)
    assert np.exp(longer) == pytest.approx(expected * np.exp(1 - 7 / 6))


def test_sentence_bleu_without_a_match_and_without_words_is_finite() -> None:
    """A count of 0 words is taken for 1e-9; the orders above 1 have 1/6, 1/5 and 1/4 all the same."""
    rows = np.array([[0, 6, 0, 5, 0, 4, 0, 3, 6], [0, 0, 0, 0, 0, 0, 0, 0, 2]], np.int32)
    nothing, empty = log_sentence_bleu(rows)
    assert nothing == pytest.approx(np.log([1e-9 / 6, 1 / 6, 1 / 5, 1 / 4]).mean())
    assert empty == pytest.approx(1 - 2 / 1e-9)


def test_bleu_of_many_sums_and_of_none() -> None:
    """Rows by hand: precisions 3/4, 2/3, 1/2, 1/1 and 4 words for 5; all right; nothing."""
    sums = np.array([[3, 4, 2, 3, 1, 2, 1, 1, 5], [4, 4, 3, 3, 2, 2, 1, 1, 3], [0] * 9])
    precision = (3 / 4 * 2 / 3 / 2) ** 0.25
    expected = [100 * precision * np.exp(1 - 5 / 4), 100, 0]
    assert bleu(sums).tolist() == pytest.approx(expected)
    assert mean_precision(sums).tolist() == pytest.approx([100 * precision, 100, 0])
    assert precisions(sums[0]).tolist() == pytest.approx([75, 200 / 3, 50, 100])
    assert precisions(sums[2]).tolist() == [0, 0, 0, 0]
    assert length_ratio(sums[0]) == pytest.approx(4 / 5)
    assert length_ratio(np.array([0, 3, 0, 2, 0, 1, 0, 0, 0])) == 3


def test_several_blanks_are_as_one_and_sentences_may_come_in_any_order() -> None:
    references = References([[b"a  b c", b"c"], [b" b b"]])
    assert len(references) == 2
    rows = references.statistics([(1, b"b  c b "), (0, b"c"), (0, b"b c d")])
    assert rows.tolist() == [
        [2, 3, 0, 2, 0, 1, 0, 0, 2],
        [1, 1, 0, 0, 0, 0, 0, 0, 1],
        [2, 3, 1, 2, 0, 1, 0, 0, 3],
    ]
    assert references.statistics([]).shape == (0, 9)


def test_references_have_as_many_lines_as_the_source_and_some(tmp_path: Path) -> None:
    for name, lines in (("source", b"1\n2\n"), ("one", b"a\n"), ("two", b"a\nb\n"), ("none", b"")):
        (tmp_path / name).write_bytes(lines)
    references = References.read([tmp_path / "two"], tmp_path / "source")
    assert references.output_statistics(tmp_path / "two")[:, 0].tolist() == [1, 1]
    with pytest.raises(InputError, match=r"one: found 1 lines, expected 2, as .*source has"):
        References.read([tmp_path / "one"], tmp_path / "source")
    with pytest.raises(InputError, match=r"two: found 2 lines, expected 1, as .*one has"):
        References.read([tmp_path / "one", tmp_path / "two"])
    with pytest.raises(InputError, match=r"none: found no lines, expected a line for each"):
        References.read([tmp_path / "none"])


def test_tabs_and_other_blanks_are_part_of_words() -> None:
    references = References([[b"a\tb c\xc2\xa0d"]])
    assert references.statistics([(0, b"a\tb c d")]).tolist() == [[1, 3, 0, 2, 0, 1, 0, 0, 2]]


def test_output_and_reference_must_have_as_many_lines(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"a b\n")
    (tmp_path / "ref").write_bytes(b"a b\nc\n")
    with pytest.raises(InputError, match=r"out: found 1 lines, expected 2"):
        References.read([tmp_path / "ref"]).output_statistics(tmp_path / "out")
    (tmp_path / "ref2").write_bytes(b"a b\n")
    with pytest.raises(InputError, match=re.escape("ref2: found 1 lines, expected 2")):
        References.read([tmp_path / "ref", tmp_path / "ref2"])


def test_marks_of_a_segmentation_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"a|0-1| b|N &#124;0-1&#124;\nla maison |0-1| grande |2-2|\n")
    message = (
        r"out:2: found the mark '\|0-1\|' of a segmentation among the words, .* Decode without -t"
    )
    with pytest.raises(InputError, match=message):
        References([[b"a"], [b"b"]]).output_statistics(tmp_path / "out")


def test_an_empty_line_in_one_of_several_references_is_none(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    paths[0].write_bytes(b"a b c\n\n  \n")
    paths[1].write_bytes(b" \nd\n\n")
    assert read_references(paths) == [(b"a b c",), (b"d",), (b"  ",)]
    assert read_references(paths[:1]) == [(b"a b c",), (b"",), (b"  ",)]
    assert References.read(paths).statistics([(0, b"x"), (2, b"x")])[:, -1].tolist() == [3, 0]


def test_a_sentence_without_reference_is_refused() -> None:
    references = References([[b"a"], [b"b"]])
    for number in (-1, 2):
        with pytest.raises(IndexError, match="sentences 0 to 1 have references"):
            references.statistics([(0, b"a"), (number, b"a")])
