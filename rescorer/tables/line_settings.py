"""Settings of `rescorer lines` and `rescorer nbest`; they load nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.config import AtLeast
from moses_bridge.base.textio import StrPath
from rescorer.contract.choices import BadHypotheses, LineFormat


class LineTexts(NamedTuple):
    """The files of `rescorer lines`, line by line parallel; at most one of them is "-", standard input.

    Without a target the source is the text of language models.
    """

    source: StrPath
    target: StrPath | None = None
    links: StrPath | None = None


@dataclass(frozen=True)
class LineSettings:
    """What `rescorer lines` writes for a line.

    Attributes:
        per_word: Divide each value by the number of words of the line, plus one for the end of sentence.
        tokens: Add the value of each word, or of each subword of a pretrained model.
        end: Score the end of sentence.
        format: Form of the output: text has values alone, tsv a first line with the models, jsonl an object
            for each line.
        skip_bad: Leave up to N lines without a value instead of stopping at the first that cannot be scored.
    """

    per_word: bool = False
    tokens: bool = False
    end: bool = True
    format: LineFormat = "text"
    skip_bad: int = 0


@dataclass(frozen=True)
class ListSettings:
    """How `rescorer nbest` reads and writes a list.

    Attributes:
        list_format: Format of the list.
        list_size: Number of hypotheses of each sentence in a list of the format plain.
        skip_bad: Go on without a score for up to N hypotheses that cannot be scored.
        bad_hypotheses: What becomes of them: least gives them the least score of their sentence, left-out
            leaves them out, unless their sentence has no others.
    """

    list_format: ListFormat = "moses"
    list_size: Annotated[int, AtLeast(0)] = 0
    skip_bad: Annotated[int, AtLeast(0)] = 0
    bad_hypotheses: BadHypotheses = "least"
