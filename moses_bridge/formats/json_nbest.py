"""N-best lists as JSON lines: one sentence a line, with its hypotheses and their features.

    {"hypotheses": [{"text": "the house", "features": {"LogProb0": -1.5}}, ...]}

"id" numbers a sentence from 0; without it the first line is sentence 0, the second one sentence 1, and so on.
Other keys, such as "source", are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.json_files import open_record_of, parse_json
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.formats.nbest import NBestEntry, check_feature_name, escape_bars

SENTENCE = 'a sentence: {"hypotheses": [{"text": "...", "features": {"NAME": number}}]}'


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
            that is not a finite number or whose name Moses's lists cannot have.
    """
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
            features = _features(hypothesis.features, path, line_number)
            words = escape_bars(hypothesis.text.encode("utf-8", "replace").strip(b" "))
            yield NBestEntry(number, words, features, 0.0, (), line_number)


def _features(features: dict[str, float], path: StrPath, line_number: int) -> bytes:
    for name, value in features.items():
        try:
            check_feature_name(name)
        except ConfigError as error:
            expected = "a name of letters and digits, a letter first"
            raise InputError(path, line_number, f"the feature {name!r}", expected) from error
        if not math.isfinite(value):
            raise InputError(path, line_number, f"{value} as {name}", "a finite number")
    return " ".join(f"{name}= {float(value)!r}" for name, value in features.items()).encode()
