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
- sockeye (sockeye/inference.py, `--output-type json`) writes a JSON object a line, with "translations" and
  "scores", or "translation" and "score" alone. A score is minus the natural log-probability, divided by its
  length penalty, or a list of that and the scores of target factors. We add "features", a list of objects.
- Joshua and cdec write `id ||| words ||| NAME=v NAME=v ||| total`, and cdec leaves out a feature of value 0.
- Plain lists have one hypothesis a line, equally many for each sentence.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, groupby
from typing import Any

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.json_files import open_record_of, parse_json
from moses_bridge.base.progress import track_lines
from moses_bridge.base.text_lines import read_text_lines, say
from moses_bridge.base.textio import StrPath, is_stream, open_write, read_lines
from moses_bridge.formats.nbest import (
    BAR,
    FEATURES_FIELD,
    NBestEntry,
    escape_bars,
    finite_number,
    format_entry,
    parse_entry,
    parse_features,
    read_nbest,
    sentence_number,
    with_feature,
    without_escaped_bars,
)
from moses_bridge.formats.words import split_words

# Only these formats can have three bars in a text.
ESCAPES_BARS: tuple[ListFormat, ...] = ("fairseq", "jsonl", "sockeye", "plain")
WORD_PENALTY = "WordPenalty0"
GLUED = re.compile(rb"\b(F\d+=)(?=[^\s])")
# Between text and features: word links, scores of words, or nothing.
BETWEEN = re.compile(rb"\s*(?:(?:\d+-\d+\s+)*|WordScores=\s.*)", re.DOTALL)
NAMED = re.compile(rb"(\S+)(?:=|:(?=[ \t]))[ \t]*")  # of Joshua or cdec; of Moses before 2013
OLD_WORD_SCORES = re.compile(rb"WordScores=(?: +[-+.\w]+(?= |$))*")  # among the features
NOT_IN_TEXT = re.compile("[\n\0\ud800-\udfff]")  # line ends and surrogates
LABEL = re.compile(rb"([SHDP])-(\d+)\t")
HYPOTHESIS = "H-id or D-id <tab> score <tab> words"
SENTENCE = 'a sentence: {"hypotheses": [{"text": "...", "features": {"NAME": number}}]}'
OF_SOCKEYE = 'a line of sockeye: {"translations": ["..."], "scores": [number]}'
OF_HYPOTHESES = ("translations", "scores", "translations_factors", "features")  # lists of sockeye


def bars_of(form: ListFormat) -> Callable[[bytes], bytes]:
    """What undoes the escapes that `write_moses_list` puts into texts of this format."""
    return without_escaped_bars if form in ESCAPES_BARS else bytes


def write_moses_list(
    path: StrPath, form: ListFormat, n_sentences: int, out: StrPath, word_penalty: bool = False,
    blank: Container[int] = (), size: int = 0,
) -> None:  # fmt: skip
    """Write a list in Moses's format.

    Args:
        path: the list.
        form: its format.
        n_sentences: number of translated sentences.
        out: the list to write, compressed by suffix.
        word_penalty: whether to add the feature WordPenalty0, minus the number of words, if it is missing.
        blank: sentences without words, whose hypotheses may be empty; others that are empty are left out.
        size: see `read_list`.

    Raises:
        ConfigError: see `read_list`.
        InputError: a line is malformed, has other features than the first one, or belongs to no sentence; or a
            sentence has no hypothesis with words.
    """
    with open_write(out) as stream:
        entries = checked(path, form, n_sentences, blank, size)
        for entry in track_lines(entries, "read", path, "hypotheses"):
            if word_penalty and f"{WORD_PENALTY}=".encode() not in entry.features.split():
                penalty = f" {WORD_PENALTY}= {-len(split_words(entry.words))}".encode()
                entry = replace(entry, features=(entry.features + penalty).strip())
            stream.write(format_entry(entry) + b"\n")


def checked(
    path: StrPath, form: ListFormat, n_sentences: int, blank: Container[int] = (), size: int = 0
) -> Iterator[NBestEntry]:
    """Yield the entries of a whole list; see `write_moses_list`.

    Names with "_" are sparse features, which a hypothesis may lack; of cdec it may lack any.
    """
    entries = read_list(path, form, size)
    if form == "joshua":
        if is_stream(path):
            hint = "A feature may be left out, so the list is read twice: write it to a file"
            raise InputError(path, None, "a pipe", "a file", hint)
        names = dict.fromkeys(name for each in entries for name in parse_features(each, path))
        entries = (_with_zeros(each, names, path) for each in read_list(path, form))
    first: tuple[tuple[str, int], ...] | None = None
    with_hypothesis, empty = set[int](), list[int]()
    for entry in entries:
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
            empty.append(entry.line_number)
            continue
        with_hypothesis.add(entry.sentence_id)
        yield entry
    for number in range(n_sentences):
        if number not in with_hypothesis:
            found = f"no hypothesis of sentence {number}{' with words' if empty else ''}"
            expected = f"one at least for each of the {n_sentences} sentences of the source"
            raise InputError(path, None, found, expected, "Is the list complete?")
    if empty:
        told = f"the first of {len(empty):,} hypotheses without words, which are left out"
        say(f"note: {os.fspath(path)}:{empty[0]}: {told}")


def _with_zeros(entry: NBestEntry, names: Iterable[str], path: StrPath) -> NBestEntry:
    found = parse_features(entry, path)
    rows = (" ".join([f"{name}=", *map(repr, found.get(name, (0.0,)))]) for name in names)
    return replace(entry, features=" ".join(rows).encode())


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


def read_fairseq_nbest(path: StrPath) -> Iterator[NBestEntry]:
    """Yield the hypotheses as entries of an n-best list.

    The words are those of the line D-id if there is one. The features are Score0, fairseq's score divided by
    the length according to its --lenpen, and LogProb0, the sum of the line P-id if there is one.

    Raises:
        InputError: a hypothesis has no source line, a line D-id or P-id has no hypothesis, or a number is
            malformed.
    """
    sources: set[int] = set()
    begun: NBestEntry | None = None
    for line_number, line in enumerate(read_lines(path), start=1):
        label = LABEL.match(line)
        if label is None:
            continue
        kind, number = label[1], sentence_number(label[2], path, line_number)
        score, tab, text = line[label.end() :].partition(b"\t")
        if kind in b"HD" and not tab:
            raise InputError(path, line_number, shown(line), HYPOTHESIS)
        words = escape_bars(text.strip(b" "))
        if kind in b"SH" and begun is not None:
            yield begun
            begun = None
        if kind == b"S":
            sources.add(number)
        elif kind == b"H":
            if number not in sources:
                found, expected = f"a hypothesis of sentence {number}", f"S-{number} before it"
                raise InputError(path, line_number, found, expected)
            total = _natural([score], path, line_number)
            features = f"Score0= {total:.9g}".encode()
            begun = NBestEntry(number, words, features, total, (), line_number)
        elif begun is None or begun.sentence_id != number:
            found = f"{kind.decode()}-{number}"
            raise InputError(path, line_number, found, f"the hypothesis H-{number} before it")
        elif kind == b"D":
            begun = replace(begun, words=words)
        else:
            log_prob = _natural(score.split(), path, line_number)
            begun = replace(begun, features=begun.features + f" LogProb0= {log_prob:.9g}".encode())
    if begun is not None:
        yield begun


def _natural(logarithms: list[bytes], path: StrPath, line_number: int) -> float:
    """Sum logarithms to base 2, as a natural one."""
    return math.log(2) * math.fsum(finite_number(each, path, line_number) for each in logarithms)


@dataclass(frozen=True)
class _Hypothesis:
    text: str
    features: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Sentence:
    hypotheses: list[_Hypothesis]
    id: int | None = None


def read_json_nbest(
    path: StrPath, as_sentence: Callable[[Any], Any] = lambda value: value, what: str = SENTENCE
) -> Iterator[NBestEntry]:
    """Yield the hypotheses as entries of an n-best list; totals are 0.

    `as_sentence` brings the value of a line into this form; `what` is its content, for errors.

    Raises:
        InputError: a line is not JSON of this form, has no hypothesis, a text of several lines, or a feature
            that is not a finite number, or names that differ in other characters than letters and digits alone.
    """
    places: dict[str, int] = {}  # of the features: JSON objects have no order
    for line_number, line in enumerate(read_lines(path), start=1):
        value = parse_json(line, path, line_number, what)
        try:
            value = as_sentence(value)
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(path, line_number, shown(line), what) from error
        sentence = open_record_of(_Sentence, value, path, what, line=line_number)
        if not sentence.hypotheses:
            raise InputError(path, line_number, "no hypotheses", "one at least in each line")
        number = line_number - 1 if sentence.id is None else sentence.id
        if number < 0:
            raise InputError(path, line_number, f"the id {number}", "a whole number from 0")
        for hypothesis in sentence.hypotheses:
            if NOT_IN_TEXT.search(hypothesis.text):
                found = f"a text of several lines, or with half a character: {hypothesis.text!r}"
                raise InputError(path, line_number, found, "a line of text")
            for name in hypothesis.features:
                places.setdefault(name, len(places))
            in_order = dict(sorted(hypothesis.features.items(), key=lambda item: places[item[0]]))
            features = _features(in_order, path, line_number)
            words = escape_bars(hypothesis.text.encode().strip(b" "))
            yield NBestEntry(number, words, features, 0.0, (), line_number, line)


def read_sockeye_nbest(path: StrPath) -> Iterator[NBestEntry]:
    """Yield the hypotheses with Score0, minus sockeye's score, so that more is better; see `read_json_nbest`.

    The score of an empty translation, which sockeye gives an empty sentence, is 0 instead of infinite.
    """
    return read_json_nbest(path, _sockeye_sentence, OF_SOCKEYE)


def _sockeye_sentence(line: Any) -> dict[str, Any]:
    texts = line.get("translations", [line.get("translation")])
    scores = line.get("scores", [line.get("score")])
    added = line.get("features", [{}] * len(texts))
    rows = (score if isinstance(score, list) else [score] for score in scores)
    hypotheses = [
        {"text": text, "features": {f"Score{n}": -v if text else 0.0 for n, v in enumerate(row)} | own}
        for text, row, own in zip(texts, rows, added, strict=True)
    ]  # fmt: skip
    return {"hypotheses": hypotheses}


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


def _read_plain_nbest(path: StrPath, size: int) -> Iterator[NBestEntry]:
    """Yield the lines of a text as entries without features; InputError if the last sentence has fewer."""
    line_number = 0
    for line_number, line in enumerate(read_text_lines(path), start=1):
        words = escape_bars(line.strip(b" "))
        yield NBestEntry((line_number - 1) // size, words, b"", 0.0, (), line_number, line)
    if line_number % size:
        found = f"{line_number} lines"
        raise InputError(path, None, found, f"{size} for each sentence, as list_size says")


READERS: dict[ListFormat, Callable[[StrPath], Iterator[NBestEntry]]] = {
    "moses": read_nbest,
    "marian": read_marian_nbest,
    "fairseq": read_fairseq_nbest,
    "jsonl": read_json_nbest,
    "joshua": read_joshua_nbest,
    "sockeye": read_sockeye_nbest,
}


def read_list(path: StrPath, form: ListFormat, size: int = 0) -> Iterator[NBestEntry]:
    """Read a list; `size` is the number of hypotheses of each sentence in the format "plain", else 0.

    Raises:
        ConfigError: the size is missing, or the format has none.
        InputError: a line is malformed.
    """
    if (form == "plain") != (size > 0):
        raise ConfigError(
            f"found the list format {form} and the list size {size}, expected a size above 0 for plain alone"
        )
    return _read_plain_nbest(path, size) if form == "plain" else READERS[form](path)


def with_features(
    form: ListFormat,
    entries: Iterable[tuple[NBestEntry, Mapping[str, float] | None]],
    path: StrPath,
) -> Iterator[bytes]:
    """The lines of a list with features added to its entries, given as values by name; all else stays.

    An entry with None is left out. Lists of fairseq and plain ones, which have no place for a feature, become
    lists of Moses. InputError if a JSON line has a number that is not finite (NaN, 1e400), even in an ignored
    key: JSON has none to write.
    """
    place = -2 if form == "marian" else FEATURES_FIELD
    for _, group in groupby(entries, lambda each: each[0].line_number):
        own = list(group)
        entry, added = own[0]
        if form in ("jsonl", "sockeye"):
            try:
                yield _json_line(entry.line, [each for _, each in own])
            except ValueError as error:
                found, hint = "a number that is not finite", "Leave out its key"
                raise InputError(path, entry.line_number, found, "JSON", hint) from error
        elif added is not None:
            line = format_entry(entry) if form in ("fairseq", "plain") else entry.line
            for name, value in added.items():
                line = with_feature(line, name, value, place)
            yield line


def _json_line(line: bytes, added: Sequence[Mapping[str, float] | None]) -> bytes:
    """A line with features of its hypotheses, without those that have None."""
    sentence, keys = json.loads(line), ["hypotheses"]
    if "hypotheses" in sentence:
        features = [each.setdefault("features", {}) for each in sentence["hypotheses"]]
    else:
        features = sentence.setdefault("features", [{} for _ in added])
        keys = [key for key in OF_HYPOTHESES if key in sentence]
    for known, each in zip(features, added, strict=True):
        known.update(each or {})
    for key in keys:
        sentence[key] = [*compress(sentence[key], (each is not None for each in added))]
    return json.dumps(sentence, ensure_ascii=False, allow_nan=False).encode()
