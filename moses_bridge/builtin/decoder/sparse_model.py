"""The sparse features of a moses.ini, counted in phrase pairs, and the sparse values of phrase tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.builtin.decoder.decoding_paths import DecodingPath
from moses_bridge.builtin.decoder.feature_slices import is_listed
from moses_bridge.builtin.decoder.feature_slots import PHRASE_TABLE
from moses_bridge.builtin.decoder.loaded_table import LoadedTable
from moses_bridge.builtin.decoder.sparse_features import (
    PhrasePair,
    SparseFeature,
    SparseReordering,
    sparse_arguments,
    sparse_feature,
    sparse_reordering,
)
from moses_bridge.formats.alignment import parse_links
from moses_bridge.formats.moses_ini import (
    OF_TABLES,
    REORDERING_KIND,
    SPARSE_KINDS,
    TABLE_KIND,
    MosesIni,
    sparse_beginnings,
)
from moses_bridge.formats.weights import sparse_weights
from moses_bridge.formats.words import split_words, to_number

MOST_SHOWN = 5  # names in an error


@dataclass(frozen=True)
class SparseModel:
    """The sparse features of an ini: those of phrase pairs, and of the reordering table if it has any."""

    features: tuple[SparseFeature, ...]
    reordering: SparseReordering | None
    tables: tuple[str, ...]  # names of the phrase tables, with which those of their values begin
    listed: tuple[str, ...]  # beginnings of the names in n-best lists
    table: LoadedTable
    target_words: Sequence[bytes]
    weights: Mapping[str, float]  # of the values with a weight in the ini

    @property
    def place(self) -> int:
        """The index of the weighted sum of all values in the decoder's vectors, after the tables' scores."""
        return PHRASE_TABLE + int(self.table.rows.scores.shape[1])

    def pair(self, row: int, source: Sequence[bytes]) -> PhrasePair:
        """The phrase pair of a row.

        Raises:
            InputError: its links are malformed or out of range.
        """
        rows = self.table.rows
        words = rows.words[rows.word_starts[row] : rows.word_starts[row + 1]].tolist()
        text = rows.links[rows.link_starts[row] : rows.link_starts[row + 1]].tobytes()
        links = parse_links(text, "phrase table", row + 1)
        if any(place[0] >= len(source) or place[1] >= len(words) for place in links):
            found = f"the links {shown(text)} of {len(source)} and {len(words)} words"
            raise InputError("phrase table", row + 1, found, "links within the phrases")
        return PhrasePair(source, [self.target_words[word] for word in words], links)

    def of_table(self, row: int) -> dict[str, float]:
        """The values of a row in the table, of equal names the last one.

        As in Moses (ScoreComponentCollection::Assign), a malformed number is 0, and nothing after it is read.
        """
        rows = self.table.rows
        if not len(rows.sparse_starts):
            return {}
        text = rows.sparse[rows.sparse_starts[row] : rows.sparse_starts[row + 1]].tobytes()
        tokens = split_words(text)
        owner = self.tables[int(np.searchsorted(self.table.first_rows, row, "right")) - 1]
        values = {}
        for end, value in zip(tokens[::2], tokens[1::2], strict=False):
            number = to_number(value)
            values[value_name(owner, end)] = 0.0 if math.isnan(number) else number
            if math.isnan(number):
                break
        return values


def sparse_model(
    ini: MosesIni, paths: Sequence[DecodingPath], table: LoadedTable, target_words: Sequence[bytes],
    takes_given: bool,
) -> SparseModel | None:  # fmt: skip
    """Read the sparse features of an ini; None if neither a feature nor a row of its tables has any.

    Sparse scores of tables in groups are left out. takes_given says whether sentences may give translations.

    Raises:
        ConfigError: there are sparse features together with a group of tables or given translations, one
            depends on more than a phrase pair, or a weight in [weight] belongs to no feature. (Such weights in
            a file are ignored.)
        InputError: a file of weights or words cannot be read.
    """
    features = [each for each in ini.features if each.kind in SPARSE_KINDS]
    reordering = sparse_reordering(ini)
    weights = sparse_weights(ini)
    check_names(ini, [name for name in ini.weights if name in weights])
    if features or reordering or weights:
        refuse_sparse(ini, takes_given)
    if _excluding_sparse(ini, takes_given) or not (
        features or reordering or len(table.rows.sparse)
    ):
        return None
    tables = [path.feature for path in paths]
    owners = (*features, *ini.of_kind(REORDERING_KIND), *tables)
    return SparseModel(
        tuple(sparse_feature(ini, each) for each in features),
        reordering,
        tuple(each.name for each in tables),
        sparse_beginnings(filter(is_listed, owners)),
        table,
        target_words,
        weights,
    )


def _excluding_sparse(ini: MosesIni, takes_given: bool) -> str:
    """The part of the ini excluding sparse features; "" for none."""
    if takes_given:
        return "given translations ([xml-input])"
    has_group = any(feature.kind in OF_TABLES for feature in ini.features)
    return "a group of phrase tables" if has_group else ""


def refuse_sparse(ini: MosesIni, takes_given: bool) -> None:
    """Refuse sparse features or weights: ConfigError beside a group of tables or given translations."""
    excluding = _excluding_sparse(ini, takes_given)
    if excluding:
        raise ConfigError(
            f"{ini.path}: the built-in decoder has no sparse features beside {excluding}"
        )


def value_name(owner: str, end: bytes) -> str:
    """The name of a sparse value."""
    return f"{owner}_{end.decode('utf-8', 'surrogateescape')}"


def check_names(ini: MosesIni, names: Iterable[str]) -> None:
    """Refuse weights of sparse values: ConfigError if one begins with no sparse feature or table and "_"."""
    kinds = (*SPARSE_KINDS, TABLE_KIND)
    begins = sparse_beginnings(
        each for each in ini.features if each.kind in kinds or sparse_arguments(each)
    )
    unknown = [name for name in names if not name.startswith(begins)]
    if unknown:
        shown = ", ".join(unknown[:MOST_SHOWN]) + (" ..." if len(unknown) > MOST_SHOWN else "")
        raise ConfigError(f"{ini.path}: weights of {shown}: no such feature")
