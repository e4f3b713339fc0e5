"""The decoding paths of a moses.ini: phrase tables offering alternative translations.

[mapping] has a line "0 T 1" for each path: its number, T for a phrase table, and the number of the table among
those of [feature] (StaticData::LoadDecodeGraphsOld of Moses); a group of tables counts as one more.
[decoding-graph-backoff] has a number for each path. With any other than 0, Moses uses the path's table only for
otherwise unknown single words: it looks up no phrases with more words than the number
(PhraseDictionary::SatisfyBackoff), and takes no translations of others
(TranslationOptionCollection::CreateTranslationOptions) unless a single word has none.

On a path of several tables, each translation has the scores of all tables of a PhraseDictionaryGroup, or the
mixed scores of those of a PhraseDictionaryMultiModel, as in the two files of moses/TranslationModel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.builtin.decoder.ini_settings import to_switch
from moses_bridge.formats.moses_ini import (
    MIXTURE_KIND,
    OF_TABLES,
    TABLE_KIND,
    Feature,
    MosesIni,
    line_of,
    member_names,
    tokens,
)
from moses_bridge.formats.words import to_number

MOST_MEMBERS = 16  # with model-bitmap-counts a group has a score for each set of its tables
SWITCHES = (
    *("restrict", "default-average-others"),
    *("phrase-counts", "word-counts", "model-bitmap-counts"),
)
COMMON = ("num-features", "input-factor", "output-factor", "table-limit", "tuneable")
ARGUMENTS = ("members", "default-scores", *SWITCHES, *COMMON)
MIXTURE_ARGUMENTS = ("components", "mode", "lambda", *COMMON)
MAPPING, BACKOFF = "mapping", "decoding-graph-backoff"
DEFAULT_MAPPING = ("0 T 0",)
NUMBER = re.compile("[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True)
class TableGroup:
    """The tables of a group.

    Attributes:
        members: its tables; a translation has the scores of each in turn, then the counts.
        restrict: whether only translations of the first table are used.
        average: whether a table lacking the translation gets the mean scores of the others.
        phrase_counts: whether there is a score for each table, 1 if it has the translation.
        word_counts: the same with the number of target words instead of 1.
        set_counts: whether there is a score for each set of tables, 1 for the set with the translation.
        defaults: scores of a translation missing in all tables.
        shares: of a mixture, the share of each table for each score in turn, summing to 1; empty otherwise.
    """

    members: tuple[Feature, ...]
    restrict: bool = False
    average: bool = False
    phrase_counts: bool = False
    word_counts: bool = False
    set_counts: bool = False
    defaults: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()

    @property
    def n_table_scores(self) -> int:
        """Number of scores of all its tables."""
        return sum(member.n_scores for member in self.members)

    @property
    def n_scores(self) -> int:
        """Number of its scores."""
        if self.shares:
            return self.members[0].n_scores
        n_counts = (self.phrase_counts + self.word_counts) * len(self.members)
        n_sets = (1 << len(self.members)) - 1
        return self.n_table_scores + n_counts + self.set_counts * n_sets


def table_group(ini: MosesIni, feature: Feature) -> TableGroup:
    """Read the tables and settings of a group or mixture.

    Raises:
        InputError: an argument is unknown, or has a value not accepted by Moses or this decoder.
    """
    known = MIXTURE_ARGUMENTS if feature.kind == MIXTURE_KIND else ARGUMENTS
    for key in feature.arguments:
        if key not in known:
            raise _fault(ini, feature, f"the argument {key}", f"one of {', '.join(known)}")
    if feature.kind == MIXTURE_KIND:
        return _mixture(ini, feature)
    on = {key: _switch(ini, feature, key) for key in SWITCHES}
    group = TableGroup(
        _members(ini, feature),
        restrict=on["restrict"],
        average=on["default-average-others"],
        phrase_counts=on["phrase-counts"],
        word_counts=on["word-counts"],
        set_counts=on["model-bitmap-counts"],
    )
    if group.average and len({member.n_scores for member in group.members}) > 1:
        found = "default-average-others with tables of different numbers of scores"
        raise _fault(ini, feature, found, "tables with equally many")
    if feature.n_scores != group.n_scores:
        found = f"num-features={feature.n_scores}"
        what = "the scores of its tables and its counts"
        raise _fault(ini, feature, found, f"num-features={group.n_scores}, {what}")
    return replace(group, defaults=_defaults(ini, feature, group.n_scores))


def _mixture(ini: MosesIni, feature: Feature) -> TableGroup:
    mode = feature.arguments.get("mode", "")
    if mode != "interpolate":
        raise _fault(ini, feature, f"mode={mode}", "mode=interpolate, or a PhraseDictionaryGroup")
    members = _members(ini, feature)
    for table in (*members, feature):
        if table.n_scores != members[0].n_scores:
            found = f"{members[0].n_scores} and {table.n_scores} scores"
            raise _fault(ini, feature, found, "equally many for it and each of its tables")
    n_tables, n_scores = len(members), feature.n_scores
    given = _numbers(feature.arguments.get("lambda", ""))
    lambdas = given * n_scores if len(given) == n_tables else given
    if len(lambdas) != n_tables * n_scores or not _are_finite(lambdas) or min(lambdas) < 0:
        expected = f"a number from 0 on for each of {n_tables} tables, or for each score and table"
        raise _fault(ini, feature, f"lambda={feature.arguments.get('lambda', '')}", expected)
    parts = [lambdas[i : i + n_tables] for i in range(0, len(lambdas), n_tables)]
    if not all(map(sum, parts)):
        raise _fault(ini, feature, "only shares of 0 for a score", "one above 0")
    return TableGroup(members, shares=tuple(x / sum(part) for part in parts for x in part))


def _members(ini: MosesIni, feature: Feature) -> tuple[Feature, ...]:
    tables = {table.name: table for table in ini.of_kind(TABLE_KIND)}
    names = member_names(feature)
    for name in names:
        if name not in tables:
            found = f"{name!r} among the members"
            raise _fault(ini, feature, found, f"names of {TABLE_KIND}: {', '.join(tables)}")
    if not 1 <= len(names) <= MOST_MEMBERS:
        found = f"the names of {len(names)} tables"
        raise _fault(ini, feature, found, f"1 to {MOST_MEMBERS} names of {TABLE_KIND}")
    return tuple(tables[name] for name in names)


def _switch(ini: MosesIni, feature: Feature, key: str) -> bool:
    text = feature.arguments.get(key, "false")
    found = to_switch(text)
    if found is None:
        raise _fault(ini, feature, f"{key}={text}", "true or false")
    return found


def _defaults(ini: MosesIni, feature: Feature, n_scores: int) -> tuple[float, ...]:
    text = feature.arguments.get("default-scores")
    if text is None:
        return (0.0,) * n_scores
    numbers = _numbers(text)
    if len(numbers) != n_scores or not _are_finite(numbers):
        raise _fault(ini, feature, f"default-scores={text}", f"{n_scores} numbers between commas")
    return tuple(numbers)


def _numbers(text: str) -> list[float]:
    return [to_number(part.encode("utf-8", "surrogateescape")) for part in text.split(",")]


def _are_finite(numbers: Sequence[float]) -> bool:
    return all(abs(number) < float("inf") for number in numbers)


def _fault(ini: MosesIni, feature: Feature, found: str, expected: str) -> InputError:
    return InputError(ini.path, line_of(ini, feature), f"{feature.name} with {found}", expected)


@dataclass(frozen=True)
class DecodingPath:
    """A decoding path of one phrase table, or of a group of tables (None for a single one).

    If `for_unknown`, its translations are used only for single words without a translation on any other kind of
    path or on an earlier path of this kind.
    """

    feature: Feature
    for_unknown: bool
    group: TableGroup | None = None

    @property
    def tables(self) -> tuple[Feature, ...]:
        """Its phrase tables."""
        return self.group.members if self.group else (self.feature,)


def decoding_paths(ini: MosesIni) -> tuple[DecodingPath, ...]:
    """Read the paths of an ini, in order.

    Raises:
        ConfigError: there is no phrase table, a path is not one table or group, or a table is on no path.
        InputError: a group has an unsupported argument; see `table_group`.
    """
    tables = [each for each in ini.features if each.kind in (TABLE_KIND, *OF_TABLES)]
    if not ini.of_kind(TABLE_KIND):
        raise ConfigError(f"{ini.path}: no {TABLE_KIND}; the built-in decoder needs one")
    found = [
        _table_of(ini, line, path, tables)
        for path, line in enumerate(ini.settings.get(MAPPING, DEFAULT_MAPPING))
    ]
    groups = [table_group(ini, each) if each.kind in OF_TABLES else None for each in found]
    members = [member for group in groups if group for member in group.members]
    for table in tables:
        if [*found, *members].count(table) != 1:
            _refuse_places(ini, table, found.count(table), members.count(table))
    backoffs = [_number(ini, BACKOFF, line) for line in ini.settings.get(BACKOFF, ())]
    if backoffs and backoffs[0]:
        raise ConfigError(
            f"{ini.path}: [{BACKOFF}] begins with {backoffs[0]}; in the built-in decoder the first path has 0"
        )
    backoffs += [0] * len(found)
    for group, feature, backoff in zip(groups, found, backoffs, strict=False):
        if group and backoff:
            raise ConfigError(
                f"{ini.path}: [{BACKOFF}] has {backoff} for {feature.name}; "
                f"in the built-in decoder a {feature.kind} has 0"
            )
    return tuple(
        DecodingPath(feature, backoff > 0, group)
        for feature, backoff, group in zip(found, backoffs, groups, strict=False)
    )


def _refuse_places(ini: MosesIni, table: Feature, n_lines: int, n_groups: int) -> NoReturn:
    in_groups = f" and {n_groups} times in a group of tables" if n_groups else ""
    raise ConfigError(
        f"{ini.path}: {table.name} is in {n_lines} lines of [{MAPPING}]{in_groups}; "
        "the built-in decoder needs each phrase table in one"
    )


def _table_of(ini: MosesIni, line: str, path: int, tables: Sequence[Feature]) -> Feature:
    words = tokens(line)
    if len(words) == 2 and path == 0:
        words = ["0", *words]
    if len(words) != 3 or words[:2] != [str(path), "T"]:
        raise ConfigError(
            f"{ini.path}: [{MAPPING}] has the line {line!r}; the built-in decoder has one phrase table "
            f"on each path: {path} T and the number of the table"
        )
    number = _number(ini, MAPPING, words[2])
    if number >= len(tables):
        raise ConfigError(
            f"{ini.path}: [{MAPPING}] has the line {line!r}, but there are {len(tables)} phrase tables"
        )
    return tables[number]


def _number(ini: MosesIni, section: str, text: str) -> int:
    if not NUMBER.fullmatch(text):
        raise ConfigError(f"{ini.path}: [{section}] has {text!r} in the place of a whole number")
    return int(text)
