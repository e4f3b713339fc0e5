"""The decoding paths of a moses.ini: phrase tables whose translations are alternatives to each other.

[mapping] has a line "0 T 1" for each path: its number, T for a phrase table, and the number of the table among
those of [feature] (StaticData::LoadDecodeGraphsOld of Moses). [decoding-graph-backoff] has a number for each
path. With any other than 0, Moses uses the path's table only for single words that are unknown otherwise: it
looks up no phrases of more words than the number (PhraseDictionary::SatisfyBackoff), and takes no translations
of others (TranslationOptionCollection::CreateTranslationOptions) unless a single word has none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from moses_bridge.base.errors import ConfigError
from moses_bridge.formats.moses_ini import Feature, MosesIni, tokens

TABLE_KIND = "PhraseDictionaryMemory"
MAPPING, BACKOFF = "mapping", "decoding-graph-backoff"
DEFAULT_MAPPING = ("0 T 0",)
NUMBER = re.compile("[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True)
class DecodingPath:
    """A decoding path of one phrase table.

    Attributes:
        table: the feature of its table.
        for_unknown: whether its translations are used only for single words without a translation on any
            path that is not so, or on an earlier one that is.
    """

    table: Feature
    for_unknown: bool


def decoding_paths(ini: MosesIni) -> tuple[DecodingPath, ...]:
    """The paths of an ini, in their order.

    Raises:
        ConfigError: there is no phrase table, a path has more or something else than one, or a table is on no
            path.
    """
    tables = ini.of_kind(TABLE_KIND)
    if not tables:
        raise ConfigError(f"{ini.path}: no {TABLE_KIND}; the built-in decoder needs one")
    found = [
        _table_of(ini, line, path, tables)
        for path, line in enumerate(ini.settings.get(MAPPING, DEFAULT_MAPPING))
    ]
    for table in tables:
        if found.count(table) != 1:
            raise ConfigError(
                f"{ini.path}: {table.name} is in {found.count(table)} lines of [{MAPPING}]; "
                "the built-in decoder needs each phrase table in one"
            )
    backoffs = [_number(ini, BACKOFF, line) for line in ini.settings.get(BACKOFF, ())]
    if backoffs and backoffs[0]:
        raise ConfigError(
            f"{ini.path}: [{BACKOFF}] begins with {backoffs[0]}; in the built-in decoder the first path has 0"
        )
    backoffs += [0] * len(found)
    return tuple(
        DecodingPath(table, backoff > 0) for table, backoff in zip(found, backoffs, strict=False)
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
