"""Conversion of moses.ini of version 1 (before 2013) to version 2, as Moses does when reading it.

Version 1 has a section for each kind of weight, and no names of features (moses/Parameter.cpp,
ConvertWeightArgs).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.formats.words import to_number

V1_SECTIONS = ("ttable-file", "weight-t", "lmodel-file", "weight-l", "weight-d")
CONVERTED = (
    *V1_SECTIONS,
    *("ttable-limit", "distortion-file", "generation-file", "weight-generation"),
    *("weight-w", "weight-u", "weight-p", "lmodel-oov-feature"),
)
TABLE_KINDS = {
    "0": "PhraseDictionaryMemory",
    "1": "PhraseDictionaryBinary",
    "2": "PhraseDictionaryOnDisk",
    "6": "PhraseDictionaryMemory",
    "12": "PhraseDictionaryCompact",
}
LM_KINDS = {"0": "SRILM", "1": "IRSTLM", "8": "KENLM", "9": "KENLM"}
Entry = tuple[int, str]  # line number from 1, and text
Sections = Sequence[tuple[str, str]]  # the section and the text of each line


def is_version_1(sections: Sections) -> bool:
    """Whether the lines of an ini have sections of version 1, and none of version 2."""
    names = {section for section, _ in sections}
    return not names.isdisjoint(V1_SECTIONS) and names.isdisjoint(("feature", "weight"))


def as_version_2(lines: Sequence[bytes], sections: Sections, path: Path) -> tuple[bytes, ...]:
    """Convert the lines of an ini of version 1 to version 2.

    Lines of other sections keep their numbers: converted lines become empty, and [feature] and [weight] are
    appended. `sections` has the section and the text of each line.

    Raises:
        InputError: a table or language model is of an unknown kind, there are not as many weights as scores,
            or a weight is not a finite number.
    """
    conversion = _Conversion(sections, path)
    kept = [
        b"" if section in CONVERTED else line
        for line, (section, _) in zip(lines, sections, strict=True)
    ]
    added = ["[feature]", *conversion.features, "", "[weight]", *conversion.weights]
    return (*kept, *(line.encode("utf-8", "surrogateescape") for line in added))


class _Conversion:
    """Converts an ini section by section into `features`, lines of [feature], and `weights`, of [weight]."""

    def __init__(self, sections: Sections, path: Path) -> None:
        self._path = path
        self._entries = defaultdict[str, list[Entry]](list)
        for number, (section, text) in enumerate(sections, start=1):
            if text:
                self._entries[section].append((number, text))
        self.features: list[str] = []
        self.weights: list[str] = []
        self._weigh_one("WordPenalty", "weight-w")
        self._models("lmodel-file", "weight-l")
        self._weigh_one("UnknownWordPenalty", "weight-u")
        self._models("generation-file", "weight-generation")
        self.features += self._weigh_one("Distortion", "weight-d")
        self._models("distortion-file", "weight-d")
        self.features += self._weigh_one("PhrasePenalty", "weight-p")
        self.features += ["WordPenalty", "UnknownWordPenalty"]
        self._models("ttable-file", "weight-t")
        for section in ("weight-l", "weight-generation", "weight-d", "weight-t"):
            for number, text in self._entries[section]:
                raise self._fault(number, f"one more weight, {text}", "as many as scores")

    def _fault(self, number: int | None, found: str, expected: str) -> InputError:
        return InputError(self._path, number, found, expected)

    def _weigh_one(self, kind: str, section: str) -> list[str]:
        """Weigh a feature with one score; return its line, none without a weight."""
        if not self._entries[section]:
            return []
        self._weigh(f"{kind}0", section, 1)
        return [kind]

    def _models(self, section: str, weight_section: str) -> None:
        """Convert the models of a section; each takes the next weights."""
        n_of_kind = Counter[str]()
        for index, (number, text) in enumerate(self._entries[section]):
            fields = text.split()
            if len(fields) < 4 + (section == "ttable-file"):
                raise self._fault(number, repr(text), "kind, factors, scores and path")
            feature, n_scores = self._feature(section, index, number, fields)
            kind = feature.split()[0]
            self.features.append(feature)
            self._weigh(f"{kind}{n_of_kind[kind]}", weight_section, n_scores, number)
            n_of_kind[kind] += 1

    def _feature(
        self, section: str, index: int, number: int, fields: Sequence[str]
    ) -> tuple[str, int]:
        if section == "lmodel-file":
            line = f"{self._kind(LM_KINDS, fields[0], number)} factor={fields[1]} order={fields[2]}"
            oov = self._entries["lmodel-oov-feature"][index : index + 1]
            if oov and oov[0][1] != "0":
                return f"{line} path={fields[3]} num-features=2 oov-feature=1", 2
            return f"{line} path={fields[3]} num-features=1", 1
        limit = ""
        if section == "ttable-file":
            kind = self._kind(TABLE_KINDS, fields[0], number)
            _, source, target, n_scores, path = fields[:5]
            limit = self._table_limit(index)
        elif section == "generation-file":
            kind = "Generation"
            source, target, n_scores, path = fields[:4]
        else:
            kind = f"LexicalReordering type={fields[1]}"
            source, _, target = fields[0].partition("-")
            n_scores, path = fields[2:4]
        if not (n_scores.isascii() and n_scores.isdigit()):
            raise self._fault(number, f"{n_scores!r} scores", "a whole number")
        line = f"{kind} input-factor={source} output-factor={target} num-features={n_scores}"
        return f"{line} path={path}{limit}", int(n_scores)

    def _table_limit(self, index: int) -> str:
        """The limit of a table; a single one applies to all."""
        limits = self._entries["ttable-limit"]
        if not limits:
            return ""
        if index >= len(limits) > 1:
            raise self._fault(limits[-1][0], f"{len(limits)} limits", "one for each table")
        return f" table-limit={limits[index if len(limits) > 1 else 0][1]}"

    def _kind(self, kinds: dict[str, str], kind: str, number: int) -> str:
        if kind not in kinds:
            raise self._fault(number, f"the kind {kind}", f"one of {', '.join(kinds)}")
        return kinds[kind]

    def _weigh(self, name: str, section: str, n_weights: int, number: int | None = None) -> None:
        """Give a feature the next weights of a section."""
        entries = self._entries[section]
        if len(entries) < n_weights:
            found = f"{len(entries)} weights left in [{section}]"
            raise self._fault(number, found, f"{n_weights}, one for each score")
        taken, self._entries[section] = entries[:n_weights], entries[n_weights:]
        for line_number, text in taken:
            finite_weight(text, self._path, line_number)
        self.weights.append(f"{name}= {' '.join(text for _, text in taken)}")


def finite_weight(text: str, path: Path, line_number: int) -> float:
    """Parse a weight; InputError if it is not a finite number."""
    value = to_number(text.encode("utf-8", "surrogateescape"))
    if not math.isfinite(value):
        raise InputError(path, line_number, f"the weight {text!r}", "a finite number")
    return value
