"""The decoding paths of a moses.ini: phrase tables whose translations are alternatives to each other.

[mapping] has a line "0 T 1" for each path: its number, T for a phrase table, and the number of the table among
those of [feature] (StaticData::LoadDecodeGraphsOld of Moses), in which a group of tables counts as one more.
[decoding-graph-backoff] has a number for each
path. With any other than 0, Moses uses the path's table only for single words that are unknown otherwise: it
looks up no phrases of more words than the number (PhraseDictionary::SatisfyBackoff), and takes no translations
of others (TranslationOptionCollection::CreateTranslationOptions) unless a single word has none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from moses_bridge.base.errors import ConfigError
from moses_bridge.builtin.decoder.table_groups import TABLE_KIND, TableGroup, table_group
from moses_bridge.formats.moses_ini import OF_TABLES, Feature, MosesIni, tokens

MAPPING, BACKOFF = "mapping", "decoding-graph-backoff"
DEFAULT_MAPPING = ("0 T 0",)
NUMBER = re.compile("[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True)
class DecodingPath:
    """A decoding path of one phrase table, or of one group of tables.

    Attributes:
        feature: the feature with its scores.
        for_unknown: whether its translations are used only for single words without a translation on any
            path that is not so, or on an earlier one that is.
        group: the group, None for a single table.
    """

    feature: Feature
    for_unknown: bool
    group: TableGroup | None = None

    @property
    def tables(self) -> tuple[Feature, ...]:
        """Its phrase tables."""
        return self.group.members if self.group else (self.feature,)


def decoding_paths(ini: MosesIni) -> tuple[DecodingPath, ...]:
    """The paths of an ini, in their order.

    Raises:
        ConfigError: there is no phrase table, a path has more or something else than one, or a table is on no
            path.
        InputError: a group has an argument not supported by this decoder; see `table_group`.
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
