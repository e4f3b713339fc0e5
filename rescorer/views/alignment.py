"""Parallel text aligned by a network with attention: word links, matrices, pictures, error rate."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.progress import Progress
from moses_bridge.base.text_lines import read_parallel
from moses_bridge.base.textio import StrPath, open_write
from moses_bridge.formats.alignment import format_links, parse_links
from moses_bridge.formats.words import as_text, split_words
from rescorer.contract.architectures import load
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.models.model_description import DESCRIPTION
from rescorer.models.model_directory import load_model
from rescorer.models.reading import MatrixReader, RightToLeftReader
from rescorer.tries.generation import AttentionReader, Attentive
from rescorer.tries.scoring import TrieScorer
from rescorer.views.pictures import AttentionPicture, draw_attention

Link = tuple[int, int]


def attention_links(weights: NDArray[np.float32], min_weight: float = 0.0) -> list[Link]:
    """Link each target word to its most attended source word, both counted from 0.

    The links are (source word, target word) in the order of the target. A target word attending
    most to </s> has no link, nor one with less than min_weight, 0 to 1; of equal weights the first
    counts. The weights have </s> as last row and last column, *Shape:* (I + 1, J + 1).
    """
    end = weights.shape[1] - 1
    best = weights[:-1].argmax(axis=1)
    return [
        (int(source), target)
        for target, source in enumerate(best)
        if source != end and weights[target, source] >= min_weight
    ]


# Beyond float32's own error nothing is lost.
DIGITS = 7


class SentencePair(NamedTuple):
    """The words of one line of parallel text, at least one a side.

    Its given links are those of an aligner; None if there are none to compare with.
    """

    source: list[bytes]
    target: list[bytes]
    given: list[Link] | None = None


@dataclass(frozen=True)
class AttentionPictures:
    """The lines to draw, counted from 1, and the directory of line-N.png and line-N.svg."""

    directory: Path
    lines: Sequence[int]


def read_pairs(
    source: StrPath, target: StrPath, links: StrPath | None = None
) -> list[SentencePair]:
    """Read parallel text, and its links in Pharaoh format if given.

    Raises:
        InputError: a file has fewer lines than another one, a line has no words, or a link is
            malformed or names a missing word.
    """
    paths = [source, target] + ([] if links is None else [links])
    pairs = []
    for number, lines in enumerate(read_parallel(*paths), start=1):
        words = [split_words(line) for line in lines[:2]]
        for path, side in zip(paths, words, strict=False):
            if not side:
                raise InputError(path, number, "no words", "a sentence", "Leave such pairs out")
        given = None
        if links is not None:
            given = parse_links(lines[2], links, number)
            _check_range(given, words, links, number)
        pairs.append(SentencePair(words[0], words[1], given))
    return pairs


def _check_range(
    given: Sequence[Link], words: Sequence[Sequence[bytes]], path: StrPath, number: int
) -> None:
    n_source, n_target = map(len, words)
    for source, target in given:
        if source >= n_source or target >= n_target:
            expected = f"words of a pair of {n_source} source and {n_target} target words, from 0"
            hint = "Give the links of these two texts, SOURCE-TARGET"
            raise InputError(path, number, f"the link {source}-{target}", expected, hint)


def attention_reader_of_model(
    directory: Path, compute: Compute, trust_code: bool = False
) -> MatrixReader:
    """The maker of attention matrices of a model directory.

    Raises:
        InputError: the directory is not a whole model, or its network has no attention.
        ConfigError: the model reads target text, or a GPU is requested and there is none.
    """
    model = load_model(directory, trust_code)
    if model.reverses_sides:
        raise ConfigError(
            f"{directory} was trained with reversed sides, so source words look at target words: align with a "
            "model that was trained without"
        )
    scorer: object = load(model.architecture).scorer(model, compute)
    source = model.shortlists.source
    network: Any = scorer.network if isinstance(scorer, TrieScorer) else None
    if source is None or not isinstance(network, Attentive):
        found = f"a network of the architecture {model.architecture!r} without an attention"
        expected = 'one with it, such as "rnnsearch" with the context "attention"'
        raise InputError(directory / DESCRIPTION, None, found, expected)
    reader = AttentionReader(network, source, model.shortlists.target)
    return RightToLeftReader(reader) if model.goes_right_to_left else reader


def align(
    reader: MatrixReader,
    pairs: Sequence[SentencePair],
    out: str,
    matrix: str | None = None,
    pictures: AttentionPictures | None = None,
    min_weight: float = 0.0,
) -> AlignmentError | None:
    """Write the word links of each pair: each target word with its most attended source word.

    Either all pairs have given links or none; the error against them is returned. Links are in
    Pharaoh format, a line a pair, compressed by suffix; the matrix has JSON lines with all weights.
    A link needs min_weight, 0 to 1.

    Raises:
        ConfigError: a picture is requested of a missing line.
    """
    drawn = _check_lines(pictures, len(pairs))
    sources = [b" ".join(pair.source) for pair in pairs]
    targets = [b" ".join(pair.target) for pair in pairs]
    error = AlignmentError()
    with contextlib.ExitStack() as files:
        stream = files.enter_context(open_write(out))
        matrices = files.enter_context(open_write(matrix)) if matrix else None
        progress = files.enter_context(Progress("align", len(pairs), "pairs"))
        read = zip(pairs, reader.matrices(Batch(sources, targets)), strict=True)
        for number, (pair, weights) in enumerate(read, start=1):
            links = attention_links(weights, min_weight)
            stream.write(format_links(links) + b"\n")
            error += AlignmentError.of(links, pair.given or ())
            if matrices:
                matrices.write(_as_json(pair, weights))
            if pictures is not None and number in drawn:
                title, given = f"line {number}", pair.given
                picture = AttentionPicture(title, pair.source, pair.target, weights, given)
                draw_attention(picture, pictures.directory / f"line-{number}")
            progress.update()
    return error if pairs and pairs[0].given is not None else None


def _check_lines(pictures: AttentionPictures | None, n_pairs: int) -> frozenset[int]:
    lines = () if pictures is None else pictures.lines
    for line in lines:
        if not 1 <= line <= n_pairs:
            raise ConfigError(f"a picture of line {line}: the text has the lines 1 to {n_pairs}")
    return frozenset(lines)


def _as_json(pair: SentencePair, weights: NDArray[np.float32]) -> bytes:
    value = {
        "source": [as_text(word) for word in pair.source],
        "target": [as_text(word) for word in pair.target],
        "weights": [[float(f"{weight:.{DIGITS}g}") for weight in row] for row in weights],
    }
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True)
class AlignmentError:
    """Numbers of judged links, reference links and links in both, which add up over sentence pairs."""

    n_found: int = 0
    n_given: int = 0
    n_both: int = 0

    @classmethod
    def of(
        cls, found: Iterable[tuple[int, int]], given: Iterable[tuple[int, int]]
    ) -> AlignmentError:
        """The counts of one pair; a repeated link counts once."""
        distinct, sure = set(found), set(given)
        return cls(len(distinct), len(sure), len(distinct & sure))

    def __add__(self, other: AlignmentError) -> AlignmentError:
        return AlignmentError(
            self.n_found + other.n_found, self.n_given + other.n_given, self.n_both + other.n_both
        )

    @property
    def rate(self) -> float:
        """Alignment error rate, 0 to 1; 0 without any links."""
        n_links = self.n_found + self.n_given
        return 1 - 2 * self.n_both / n_links if n_links else 0.0

    @property
    def precision(self) -> float:
        """The share of the judged links given, 0 to 1; 1 of no links."""
        return self.n_both / self.n_found if self.n_found else 1.0

    @property
    def recall(self) -> float:
        """The share of the given links found, 0 to 1; 1 of no links."""
        return self.n_both / self.n_given if self.n_given else 1.0

    def __str__(self) -> str:
        return (
            f"AER {self.rate:.1%}, precision {self.precision:.1%}, recall {self.recall:.1%} "
            f"({self.n_found} links, {self.n_given} given, {self.n_both} in both)"
        )
