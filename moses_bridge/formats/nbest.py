"""N-best lists: `id ||| words  ||| Name= v v Name2= v ||| total [||| more fields]`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.formats.words import to_number

BAR, ESCAPED_BAR = b"|||", b"&#124;&#124;&#124;"
SEPARATOR = b" ||| "
FEATURES_FIELD = 2
MAX_DIGITS = 18  # of a sentence's number: more would not fit 64 bits
FEATURE_NAME = re.compile("[A-Za-z][A-Za-z0-9]*")
MOSES_LISTS = (
    "Moses writes `0 ||| words ||| LM0= -3.5 TM0= -1 -2 ||| -4`, unless -labeled-n-best-list is false."
    " --list-format reads those of Marian, fairseq, Joshua and cdec (`LM=-3.5`), Moses before 2013"
    " (`lm: -3.5`), and JSON lines"
)
SEGMENTATION_MARK = re.compile(rb"(?:^|[ \t])(\|\d+-\d+[|,])")
SEGMENTATION = "a segmentation as 0-1=0 2=1-2 that covers the words"


def escape_bars(words: bytes) -> bytes:
    """Escape words for a list, whose fields are separated by three bars."""
    return words.replace(BAR, ESCAPED_BAR)


def without_escaped_bars(words: bytes) -> bytes:
    """Undo `escape_bars`."""
    return words.replace(ESCAPED_BAR, BAR)


@dataclass(frozen=True, slots=True)
class NBestEntry:
    """One hypothesis.

    Attributes:
        sentence_id: 0-based number of the source sentence.
        words: the translation.
        features: "Name= v v Name2= v".
        total: weighted sum of the features.
        rest: further fields (segmentation, alignment), unchanged.
        line_number: 1-based line in the list.
        line: the line as it is there, without its "\\n"; several hypotheses may have the same.
    """

    sentence_id: int
    words: bytes
    features: bytes
    total: float
    rest: tuple[bytes, ...]
    line_number: int
    line: bytes = b""


class Segment(NamedTuple):
    """A phrase pair of a hypothesis, as positions of words; ends are exclusive."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int


def read_nbest(path: StrPath) -> Iterator[NBestEntry]:
    """Yield the entries of an n-best list.

    Raises:
        InputError: a line has fewer than four fields, its id or total is not a number, or its words have marks
            of the segmentation.
    """
    for line_number, line in enumerate(read_lines(path), start=1):
        yield parse_entry(line, path, line_number)


def parse_entry(line: bytes, path: StrPath, line_number: int) -> NBestEntry:
    """Parse one line of an n-best list, without its "\\n"; see `read_nbest`."""
    fields = line.split(BAR, 4)
    if len(fields) < 4:
        found = f"{len(fields)} field{'s' if len(fields) > 1 else ''}"
        expected = "at least 4: id ||| words ||| features ||| total"
        raise InputError(path, line_number, found, expected, MOSES_LISTS)
    words = fields[1].strip(b" ")
    refuse_marks(words, path, line_number)
    return NBestEntry(
        sentence_id=sentence_number(fields[0], path, line_number),
        words=words,
        features=fields[2].strip(b" "),
        total=finite_number(fields[3].strip(), path, line_number, MOSES_LISTS),
        rest=tuple(fields[4].removeprefix(b" ").split(SEPARATOR)) if len(fields) > 4 else (),
        line_number=line_number,
        line=line,
    )


def refuse_marks(words: bytes, path: StrPath, line_number: int) -> None:
    """Refuse translations with the marks of Moses's option -t among their words, like `la maison |0-1|`.

    Raises:
        InputError: there is one.
    """
    if b"|" in words and (mark := SEGMENTATION_MARK.search(words)):
        found = f"the mark {shown(mark[1])} of a segmentation among the words"
        hint = "Decode without -t (-report-segmentation)"
        raise InputError(path, line_number, found, "words alone", hint)


def format_entry(entry: NBestEntry) -> bytes:
    """Format one line as Moses prints it, with two blanks after the words, without its "\\n"."""
    fields = [
        b"%d" % entry.sentence_id,
        entry.words + b" " if entry.words else b"",
        entry.features,
        format_number(entry.total),
        *entry.rest,
    ]
    return SEPARATOR.join(fields)


def with_feature(line: bytes, feature: str, value: float, field: int = FEATURES_FIELD) -> bytes:
    """Append a feature to a line of an n-best list.

    Args:
        line: without its "\\n".
        feature: letters and digits.
        value: natural log-probability.
        field: the place of the features among the fields.

    Raises:
        ValueError: the value is not finite.
    """
    if not math.isfinite(value):
        raise ValueError(f"a feature of an n-best list must be finite, not {value}")
    fields = line.split(BAR)
    body = fields[field].rstrip(b" ")
    blanks = fields[field][len(body) :]
    fields[field] = body + f" {feature}= {value:.6f}".encode() + blanks
    return BAR.join(fields)


def format_number(value: float) -> bytes:
    """Format with six significant digits, the default of a C++ stream."""
    return b"%g" % value


def parse_features(entry: NBestEntry, path: StrPath) -> dict[str, tuple[float, ...]]:
    """Parse the values of each named feature, in the order of the line.

    Raises:
        InputError: a value precedes any name, is not a finite number, or a name comes twice.
    """
    features: dict[str, list[float]] = {}
    values: list[float] | None = None
    for token in entry.features.split():
        if token.endswith(b"="):
            name = token[:-1].decode("utf-8", "surrogateescape")
            if name in features:
                raise InputError(path, entry.line_number, f"{name} twice", "each feature once")
            values = features[name] = []
        elif values is None:
            found = f"the value {shown(token)} without a name"
            raise InputError(path, entry.line_number, found, "Name= before it", MOSES_LISTS)
        else:
            values.append(finite_number(token, path, entry.line_number))
    return {name: tuple(numbers) for name, numbers in features.items()}


def parse_segmentation(entry: NBestEntry, n_words: int, path: StrPath) -> list[Segment]:
    """Parse the phrase pairs of an entry in target order, from its first further field.

    A target phrase ends where the next one begins: Moses prints an empty one as if it had a word.

    Args:
        entry: entry of a list made with -include-segmentation-in-n-best.
        n_words: number of words of the hypothesis.
        path: path of the list, for errors.

    Raises:
        InputError: there is no segmentation, or it does not cover the words.
    """
    try:
        pairs = [segment.split(b"=") for segment in entry.rest[0].split()]
        spans = [
            (int(source.split(b"-")[0]), int(source.split(b"-")[-1]) + 1, int(place.split(b"-")[0]))
            for source, place in pairs
        ]
    except (ValueError, IndexError):
        spans = []
    places = [*(place for _, _, place in spans), n_words]
    if not spans or places[0] != 0 or places != sorted(places):
        found = shown(entry.rest[0]) if entry.rest else "no segmentation"
        raise InputError(path, entry.line_number, found, SEGMENTATION)
    return [Segment(*span, following) for span, following in zip(spans, places[1:], strict=True)]


def check_feature_name(name: str) -> None:
    """Refuse a name that Moses's tools cannot read back as the name of one dense feature.

    They read a label with "_" as a sparse feature (mert/FeatureStats.cpp), and mert-moses.pl accepts only
    labels of letters and digits, a letter first (scripts/training/mert-moses.pl:1517-1531).

    Raises:
        ConfigError: the name has other characters, or begins with a digit.
    """
    if not FEATURE_NAME.fullmatch(name):
        raise ConfigError(
            f"found the feature name {name!r}, expected letters and digits, a letter first:"
            " Moses cannot read any other name, and takes one with '_' for a sparse feature"
        )


def sentence_number(field: bytes, path: StrPath, line_number: int) -> int:
    """The number of a sentence, from 0; InputError if the field has another content."""
    if not field.strip().isdigit() or len(field.strip()) > MAX_DIGITS:
        found = f"the sentence id {shown(field)}"
        raise InputError(path, line_number, found, "a whole number from 0")
    return int(field)


def finite_number(token: bytes, path: StrPath, line_number: int, hint: str = "") -> float:
    """The finite number in a token; InputError if it is none."""
    value = to_number(token)
    if not math.isfinite(value):
        raise InputError(path, line_number, f"the value {shown(token)}", "a finite number", hint)
    return value
