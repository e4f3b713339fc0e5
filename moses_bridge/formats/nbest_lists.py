"""N-best lists of several programs, checked as a whole and written in Moses's format.

- Marian (src/translator/output_printer.h) writes
  `id ||| words [||| links] [||| WordScores= v ...] ||| F0= v F1= v ||| total`. The features are those of
  Moses's lists, but other fields are before them instead of after the total. A model without a breakdown of its
  score writes "F0=v" in one word.
- `fairseq-generate --nbest` (fairseq_cli/generate.py): a hypothesis has a line `H-id <tab> score <tab> words`,
  which may be followed by `D-id`, its text without subwords, and `P-id`, the log-probabilities of its subwords.
  `S-id`, the source, is before the hypotheses of a sentence. Logarithms are to base 2; those of the entries are
  natural. Other lines are ignored.
- JSON lines, one sentence a line, with its hypotheses and their features::

    {"hypotheses": [{"text": "the house", "features": {"LogProb0": -1.5}}, ...]}

  "id" numbers a sentence from 0; without it the first line is sentence 0, the second one sentence 1, and so on.
  Other keys, such as "source", are ignored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.json_files import open_record_of, parse_json
from moses_bridge.base.progress import track_lines
from moses_bridge.base.textio import StrPath, open_write, read_lines
from moses_bridge.formats.nbest import (
    BAR,
    FEATURES_FIELD,
    MAX_DIGITS,
    NBestEntry,
    escape_bars,
    format_entry,
    parse_entry,
    parse_features,
    read_nbest,
    with_feature,
)
from moses_bridge.formats.words import split_words

# Only these formats can have three bars in a text.
ESCAPES_BARS: tuple[ListFormat, ...] = ("fairseq", "jsonl")
WORD_PENALTY = "WordPenalty0"
GLUED = re.compile(rb"\b(F\d+=)(?=[^\s])")
# Between text and features: word links, scores of words, or nothing.
BETWEEN = re.compile(rb"\s*(?:(?:\d+-\d+\s+)*|WordScores=\s.*)", re.DOTALL)
NAMED = re.compile(rb"(\S+)(?:=|:(?=[ \t]))[ \t]*")  # of Joshua or cdec; of Moses before 2013
OLD_WORD_SCORES = re.compile(rb"WordScores=(?: +[-+.\w]+(?= |$))*")  # among the features
LABEL = re.compile(rb"([SHDP])-(\d+)\t")
HYPOTHESIS = "H-id <tab> score <tab> words"
SENTENCE = 'a sentence: {"hypotheses": [{"text": "...", "features": {"NAME": number}}]}'


def write_moses_list(
    path: StrPath, form: ListFormat, n_sentences: int, out: StrPath, word_penalty: bool = False,
    blank: Container[int] = (),
) -> None:  # fmt: skip
    """Write a list in Moses's format.

    Args:
        path: the list.
        form: its format.
        n_sentences: number of translated sentences.
        out: the list to write, compressed by suffix.
        word_penalty: whether to add the feature WordPenalty0, minus the number of words, if it is missing.
        blank: sentences without words, whose hypotheses may be empty.

    Raises:
        InputError: a line is malformed, has other features than the first one or no words, or belongs to no
            sentence; or a sentence has no hypothesis.
    """
    with open_write(out) as stream:
        entries = checked(path, form, n_sentences, blank)
        for entry in track_lines(entries, "read", path, "hypotheses"):
            if word_penalty and f"{WORD_PENALTY}=".encode() not in entry.features.split():
                penalty = f" {WORD_PENALTY}= {-len(split_words(entry.words))}".encode()
                entry = replace(entry, features=(entry.features + penalty).strip())
            stream.write(format_entry(entry) + b"\n")


def checked(
    path: StrPath, form: ListFormat, n_sentences: int, blank: Container[int] = ()
) -> Iterator[NBestEntry]:
    """Yield the entries of a whole list; see `write_moses_list`.

    Names with "_" are sparse features, which a hypothesis may lack.
    """
    first: tuple[tuple[str, int], ...] | None = None
    with_hypothesis: set[int] = set()
    for entry in READERS[form](path):
        features = parse_features(entry, path)
        shape = tuple((name, len(row)) for name, row in features.items() if "_" not in name)
        first = shape if first is None else first
        if shape != first:
            found = f"the features {_in_words(shape)}"
            hint = "All hypotheses must have the features of the first one, in its order"
            raise InputError(path, entry.line_number, found, _in_words(first), hint)
        if entry.sentence_id >= n_sentences:
            found = f"the sentence id {entry.sentence_id}"
            expected = f"an id below {n_sentences}, the number of sentences of the source"
            raise InputError(path, entry.line_number, found, expected)
        if entry.sentence_id not in blank and not split_words(entry.words):
            hint = "Leave it out, and keep another one of its sentence"
            raise InputError(path, entry.line_number, "a hypothesis without words", "words", hint)
        with_hypothesis.add(entry.sentence_id)
        yield entry
    for number in range(n_sentences):
        if number not in with_hypothesis:
            found = f"no hypothesis of sentence {number}"
            expected = f"one at least for each of the {n_sentences} sentences of the source"
            raise InputError(path, None, found, expected, "Is the list complete?")


def _in_words(shape: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name} ({n_values})" for name, n_values in shape) or "none"


def read_marian_nbest(path: StrPath) -> Iterator[NBestEntry]:
    """Yield the entries of a list written by `marian-decoder --n-best`.

    Marian does not escape bars of a text, so a line with ` ||| ` in the text is refused.

    Raises:
        InputError: a line has fewer than four fields, or another one between text and features than word links
            and scores of words, or its id or total is not a number.
    """
    for line_number, line in enumerate(read_lines(path), start=1):
        fields = line.split(BAR)
        if len(fields) < 4:
            found = f"{len(fields)} field{'s' if len(fields) > 1 else ''}"
            expected = "at least 4: id ||| words ||| F0= v ||| total"
            raise InputError(path, line_number, found, expected)
        for between in fields[2:-2]:
            if not BETWEEN.fullmatch(between):
                found = f"the field {shown(between.strip())} between words and features"
                expected = "nothing there but word links (0-0 1-2) and WordScores="
                hint = "Is there a bar ||| in the text? Write &#124;&#124;&#124; for it"
                raise InputError(path, line_number, found, expected, hint)
        features = GLUED.sub(rb"\1 ", OLD_WORD_SCORES.sub(b"", fields[-2]))
        known = (fields[0], fields[1], features, fields[-1])
        yield replace(parse_entry(BAR.join(known), path, line_number), line=line)


@dataclass
class _FairseqHypothesis:
    """The known part of a hypothesis, in natural logarithms; None where a line is missing."""

    sentence_id: int
    words: bytes
    score: float
    line_number: int
    log_prob: float | None = None

    def entry(self) -> NBestEntry:
        features = f"Score0= {self.score:.9g}"
        if self.log_prob is not None:
            features += f" LogProb0= {self.log_prob:.9g}"
        words = escape_bars(self.words.strip(b" "))
        return NBestEntry(
            self.sentence_id, words, features.encode(), self.score, (), self.line_number
        )


def read_fairseq_nbest(path: StrPath) -> Iterator[NBestEntry]:
    """Yield the hypotheses as entries of an n-best list.

    The words are those of the line D-id if there is one. The features are Score0, fairseq's score divided by
    the length according to its --lenpen, and LogProb0, the sum of the line P-id if there is one.

    Raises:
        InputError: a hypothesis has no source line, a line D-id or P-id has no hypothesis, or a number is
            malformed.
    """
    sources: set[int] = set()
    begun: _FairseqHypothesis | None = None
    for line_number, line in enumerate(read_lines(path), start=1):
        label = LABEL.match(line)
        if label is None:
            continue
        kind, number, rest = label[1], _number(label[2], path, line_number), line[label.end() :]
        if kind in b"SH" and begun is not None:
            yield begun.entry()
            begun = None
        if kind == b"S":
            sources.add(number)
        elif kind == b"H":
            if number not in sources:
                found, expected = f"a hypothesis of sentence {number}", f"S-{number} before it"
                raise InputError(path, line_number, found, expected)
            score, tab, words = rest.partition(b"\t")
            if not tab:
                raise InputError(path, line_number, shown(line), HYPOTHESIS)
            begun = _FairseqHypothesis(
                number, words, _natural([score], path, line_number), line_number
            )
        elif begun is None or begun.sentence_id != number:
            found = f"{kind.decode()}-{number}"
            raise InputError(path, line_number, found, f"the hypothesis H-{number} before it")
        elif kind == b"D":
            begun.words = _text_of(rest, path, line_number)
        else:
            begun.log_prob = _natural(rest.split(), path, line_number)
    if begun is not None:
        yield begun.entry()


def _text_of(rest: bytes, path: StrPath, line_number: int) -> bytes:
    _, tab, words = rest.partition(b"\t")
    if not tab:
        raise InputError(path, line_number, shown(rest), "score <tab> text after D-id")
    return words


def _number(digits: bytes, path: StrPath, line_number: int) -> int:
    if len(digits) > MAX_DIGITS:
        found = f"the sentence id {shown(digits)}"
        raise InputError(path, line_number, found, "a whole number from 0")
    return int(digits)


def _natural(logarithms: list[bytes], path: StrPath, line_number: int) -> float:
    """Sum logarithms to base 2, as a natural one."""
    try:
        total = math.fsum(map(float, logarithms))
    except ValueError:
        total = math.nan
    if not math.isfinite(total):
        found = f"the score {shown(b' '.join(logarithms))}"
        raise InputError(path, line_number, found, "finite numbers")
    return total * math.log(2)


@dataclass(frozen=True)
class _Hypothesis:
    text: str
    features: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Sentence:
    hypotheses: list[_Hypothesis]
    id: int | None = None


def read_json_nbest(path: StrPath) -> Iterator[NBestEntry]:
    """Yield the hypotheses as entries of an n-best list; totals are 0.

    Raises:
        InputError: a line is not JSON of this form, has no hypothesis, a text of several lines, or a feature
            that is not a finite number, or names that differ in other characters than letters and digits alone.
    """
    places: dict[str, int] = {}  # of the features: JSON objects have no order
    for line_number, line in enumerate(read_lines(path), start=1):
        value = parse_json(line, path, line_number, SENTENCE)
        sentence = open_record_of(_Sentence, value, path, SENTENCE, line=line_number)
        if not sentence.hypotheses:
            raise InputError(path, line_number, "no hypotheses", "one at least in each line")
        number = line_number - 1 if sentence.id is None else sentence.id
        if number < 0:
            raise InputError(path, line_number, f"the id {number}", "a whole number from 0")
        for hypothesis in sentence.hypotheses:
            if "\n" in hypothesis.text or "\0" in hypothesis.text:
                found = f"a text of several lines: {hypothesis.text!r}"
                raise InputError(path, line_number, found, "a line of text")
            for name in hypothesis.features:
                places.setdefault(name, len(places))
            in_order = dict(sorted(hypothesis.features.items(), key=lambda item: places[item[0]]))
            features = _features(in_order, path, line_number)
            words = escape_bars(hypothesis.text.encode("utf-8", "replace").strip(b" "))
            yield NBestEntry(number, words, features, 0.0, (), line_number, line)


def _features(features: dict[str, float], path: StrPath, line_number: int) -> bytes:
    for name, value in features.items():
        if not math.isfinite(value):
            raise InputError(path, line_number, f"{value} as {name}", "a finite number")
    names = [_plain_name(name.encode("utf-8", "replace")) for name in features]
    if len({*names}) < len(names):
        found = f"the features {', '.join(features)}"
        raise InputError(path, line_number, found, "names that differ in letters and digits")
    pairs = zip(names, features.values(), strict=True)
    return b" ".join(b"%b= %b" % (name, repr(float(value)).encode()) for name, value in pairs)


def _plain_name(name: bytes) -> bytes:
    """The name of a feature in a list of Moses: letters and digits, a letter first."""
    plain = re.sub(rb"[^A-Za-z0-9]", b"", name)
    return plain if plain[:1].isalpha() else b"F" + plain


def read_joshua_nbest(path: StrPath) -> Iterator[NBestEntry]:
    """Yield the entries of a list of Joshua or cdec, `id ||| words ||| NAME=v ||| total`; see `read_nbest`.

    Moses before 2013 wrote `NAME: v v`.
    """
    for line_number, line in enumerate(read_lines(path), start=1):
        fields = line.split(BAR)
        named = [NAMED.sub(lambda name: _plain_name(name[1]) + b"= ", each) for each in fields[2:3]]
        known = BAR.join([*fields[:2], *named, *fields[3:]])
        yield replace(parse_entry(known, path, line_number), line=line)


READERS: dict[ListFormat, Callable[[StrPath], Iterator[NBestEntry]]] = {
    "moses": read_nbest,
    "marian": read_marian_nbest,
    "fairseq": read_fairseq_nbest,
    "jsonl": read_json_nbest,
    "joshua": read_joshua_nbest,
}


def with_features(
    form: ListFormat, entries: Iterable[tuple[NBestEntry, Mapping[str, float]]], path: StrPath
) -> Iterator[bytes]:
    """The lines of a list with features added to its entries, given as values by name; all else stays.

    Lists of fairseq, which have no place for a feature, become lists of Moses. InputError if a JSON line has a
    number that is not finite (NaN, 1e400), even in an ignored key: JSON has none to write.
    """
    place = -2 if form == "marian" else FEATURES_FIELD
    for _, group in groupby(entries, lambda each: each[0].line_number):
        own = list(group)
        line = format_entry(own[0][0]) if form == "fairseq" else own[0][0].line
        if form == "jsonl":
            sentence = json.loads(line)
            for hypothesis, (_, added) in zip(sentence["hypotheses"], own, strict=True):
                hypothesis.setdefault("features", {}).update(added)
            try:
                yield json.dumps(sentence, ensure_ascii=False, allow_nan=False).encode()
            except ValueError as error:
                found, hint = "a number that is not finite", "Leave out its key"
                raise InputError(path, own[0][0].line_number, found, "JSON", hint) from error
            continue
        for name, value in own[0][1].items():
            line = with_feature(line, name, value, place)
        yield line
