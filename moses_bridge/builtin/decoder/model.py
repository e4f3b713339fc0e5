"""The model of a moses.ini in memory: tables, language models, and the position of each feature."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.lexicon import Lexicon, words_of
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.progress import Progress
from moses_bridge.builtin.decoder import feature_slots as slots
from moses_bridge.builtin.decoder.decoding_paths import DecodingPath, decoding_paths
from moses_bridge.builtin.decoder.feature_slices import (
    FeatureSlice,
    check_arguments,
    check_features,
    feature_slices,
)
from moses_bridge.builtin.decoder.further_models import FurtherModels, join_models
from moses_bridge.builtin.decoder.ini_settings import IniValues, check_settings, read_values
from moses_bridge.builtin.decoder.loaded_table import LoadedTable, TableFile, load_tables
from moses_bridge.builtin.decoder.reordering_table import N_SCORES, read_reordering
from moses_bridge.builtin.decoder.source_trie import longest_phrase
from moses_bridge.builtin.decoder.sparse_model import (
    SparseModel,
    check_names,
    refuse_sparse,
    sparse_model,
)
from moses_bridge.builtin.decoder.table_members import Members, make_members
from moses_bridge.builtin.language_model.arpa import Arpa, NGrams
from moses_bridge.builtin.language_model.lm_index import LmIndex
from moses_bridge.formats.moses_ini import (
    LM_KIND,
    OF_TABLES,
    REORDERING_KIND,
    TABLE_KIND,
    Feature,
    MosesIni,
    limit_of,
    read_ini,
    table_limit_of,
)

REORDERING_TYPE = re.compile(r"(wbe-|phrase-)?msd-bidirectional-fe(-allff)?")
DEFAULT_TABLE_LIMIT = 20  # moses/TranslationModel/PhraseDictionary.cpp
DEFAULT_DISTORTION_LIMIT = -1  # no limit, as in Moses (moses/parameters/ReorderingOptions.cpp)
DEFAULT_MAX_PHRASE_WORDS = 20  # moses/TypeDef.h
MAX_WINDOW = 60  # the search has 64 bits for the coverage after the first gap


@dataclass(frozen=True)
class Model:
    """Everything needed for decoding except the values of the weights.

    Attributes:
        ini: the moses.ini.
        values: its settings of search, unknown words and input.
        features: all features, in the order of Moses's n-best lists (stateful ones first).
        table: the phrase tables.
        members: the tables of each decoding path.
        reordering: (n_rows, 6) natural logarithms.
        lm: the first language model.
        further: all other language models.
        target_words: bytes of each target word; those of the first language model come first.
        source_ids: number of each source word of the tables.
        target_ids: number of each target word.
        sparse: the sparse features, None if there are none.
        table_limits: number of translations of a source phrase kept on each path; 0 for all.
        distortion_limit: longest jump in words; negative for any.
        max_phrase_words: length of the longest source phrase, in words.
    """

    ini: MosesIni
    values: IniValues
    features: tuple[FeatureSlice, ...]
    table: LoadedTable
    members: Members
    reordering: NDArray[np.float32]
    lm: LmIndex
    further: FurtherModels
    target_words: list[bytes]
    source_ids: dict[bytes, int]
    target_ids: dict[bytes, int]
    sparse: SparseModel | None
    table_limits: tuple[int, ...]
    distortion_limit: int
    max_phrase_words: int

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        n_models = max(1, len(self.ini.of_kind(LM_KIND)))
        n_scores = sum(feature.n_scores for feature in _table_features(self.ini))
        return slots.PHRASE_TABLE + n_scores + int(self.sparse is not None) + n_models - 1

    def weight_vector(self, overwrite: Mapping[str, Sequence[float]] | None) -> slots.Vector:
        """The weight vector, *Shape:* (n_features,).

        `overwrite` has weights by feature, replacing the ini's. A feature in neither has 1 for each score.

        Raises:
            ConfigError: a name is not a feature of the ini, a feature has another number of scores, or a
                weight is not finite.
        """
        given = dict(self.ini.weights) | dict(overwrite or {})
        vector = np.zeros(self.n_features)
        for feature in self.features:
            values = given.pop(feature.name, (1.0,) * feature.size)
            if len(values) != feature.size:
                raise ConfigError(
                    f"{self.ini.path}: {len(values)} weights of {feature.name}, "
                    f"which has {feature.size} scores"
                )
            vector[feature.first : feature.first + feature.size] = values
        if not np.isfinite(vector).all():
            raise ConfigError(f"{self.ini.path}: a weight is not a finite number")
        if self.sparse is not None:
            vector[self.sparse.place] = 1.0
        check_names(self.ini, given)
        return vector

    def sparse_weights(self, overwrite: Mapping[str, Sequence[float]] | None) -> dict[str, float]:
        """The weights of sparse values by name; those in `overwrite` replace those of the ini.

        Raises:
            ConfigError: `overwrite` has several weights for a value, or some for an unsupported one.
        """
        names = {feature.name for feature in self.features}
        given = {name: row for name, row in (overwrite or {}).items() if name not in names}
        for name, row in given.items():
            if len(row) != 1:
                raise ConfigError(
                    f"{self.ini.path}: {len(row)} weights of {name}, which has 1 score"
                )
        if given:
            refuse_sparse(self.ini, self.values.takes_given)
        if self.sparse is None:
            return {}
        return {**self.sparse.weights, **{name: row[0] for name, row in given.items()}}


def load_model(ini_path: Path, table_limit: int | None, distortion_limit: int | None) -> Model:
    """Read an ini and its tables; None as a limit is the ini's.

    table_limit is that of each path; tables in groups keep their limits, which change the scores.

    Raises:
        ConfigError: the ini has an unsupported feature or setting.
        InputError: a file is missing or malformed, or a limit in the ini is not a whole number or too small.
    """
    ini = read_ini(ini_path)
    check_settings(ini)
    values = read_values(ini)
    check_features(ini)
    check_arguments(ini)
    paths = decoding_paths(ini)
    n_models = max(len(_table_features(ini)), len(ini.of_kind(LM_KIND)))
    if values.takes_given and n_models > 1:
        raise ConfigError(
            f"{ini.path}: [xml-input] is {values.xml_input} beside several tables or language models; "
            "the built-in decoder needs one of each"
        )
    table_limits = [_first(table_limit, _table_limit(ini, path.feature)) for path in paths]
    distortion = _first(limit_of(ini, "distortion-limit"), DEFAULT_DISTORTION_LIMIT)
    max_words = _first(limit_of(ini, "max-phrase-length"), DEFAULT_MAX_PHRASE_WORDS)
    files = _table_files(ini, paths)
    (lm, *others), target_words, table, reordering = _read_files(ini, files)
    source_words = words_of(table.source_words)
    sparse = sparse_model(ini, paths, table, target_words, values.takes_given)
    features = feature_slices(ini, _in_order_of_slots(paths), int(sparse is not None))
    return Model(
        ini=ini,
        values=values,
        features=features,
        table=table,
        members=make_members(
            paths,
            _member_limits(ini, paths),
            {feature.name: feature.first for feature in features},
            table.rows.scores,
        ),
        reordering=reordering,
        lm=lm,
        further=join_models(others, target_words),
        target_words=target_words,
        source_ids={word: number for number, word in enumerate(source_words)},
        target_ids={word: number for number, word in enumerate(target_words)},
        sparse=sparse,
        table_limits=tuple(table_limits),
        distortion_limit=_first(distortion_limit, distortion),
        max_phrase_words=_max_phrase_words(table, values, max_words),
    )


def _read_files(
    ini: MosesIni, files: Sequence[TableFile]
) -> tuple[list[LmIndex], list[bytes], LoadedTable, NDArray[np.float32]]:
    sizes = _file_sizes(ini)
    with Progress("load the model", sum(sizes.values()), "kB") as progress:
        lms = _read_language_models(ini)
        progress.update(sizes[LM_KIND])
        words = Lexicon(list(dict.fromkeys(chain.from_iterable(lm.vocabulary for lm in lms))))
        table = load_tables(files, words)
        progress.update(sizes[TABLE_KIND])
        reordering = _read_reordering(ini, table, words)
        progress.update(sizes[REORDERING_KIND])
    return lms, words.words(), table, reordering


def _table_features(ini: MosesIni) -> list[Feature]:
    return [feature for feature in ini.features if feature.kind in (TABLE_KIND, *OF_TABLES)]


def _in_order_of_slots(paths: Sequence[DecodingPath]) -> list[Feature]:
    in_groups = [path.group.members for path in paths if path.group]
    return [*(path.feature for path in paths), *chain.from_iterable(in_groups)]


def _table_files(ini: MosesIni, paths: Sequence[DecodingPath]) -> list[TableFile]:
    files: list[TableFile] = []
    for path in paths:
        first = len(files) if path.group and path.group.restrict else None
        files += [
            TableFile(_file(ini, table), table.n_scores, path.for_unknown, first)
            for table in path.tables
        ]
    return files


def _max_phrase_words(table: LoadedTable, values: IniValues, limit: int) -> int:
    """Length of the longest source phrase; a given translation may be of longer ones than the table's."""
    in_table = limit if values.takes_given else longest_phrase(table.trie)
    return max(1, min(in_table, limit, MAX_WINDOW))


def _file(ini: MosesIni, feature: Feature) -> Path:
    argument = feature.arguments.get("path")
    if argument is None:
        raise ConfigError(f"{ini.path}: {feature.name} has no path=")
    path = ini.file(argument)
    if path.is_char_device():  # such as /dev/zero, which never ends
        raise InputError(path, None, "a device", f"the file of {feature.name}")
    return path


def _file_sizes(ini: MosesIni) -> Counter[str]:
    """Size in kilobytes of the existing files of each kind of feature."""
    sizes: Counter[str] = Counter()
    for feature in ini.features:
        if "path" in feature.arguments and (path := _file(ini, feature)).exists():
            sizes[feature.kind] += -(-path.stat().st_size // 1000)
    return sizes


def _read_language_models(ini: MosesIni) -> list[LmIndex]:
    """The models of an ini; without any, one that gives every word log10 probability 0, with the weight 0."""
    if found := [LmIndex.read(_file(ini, feature)) for feature in ini.of_kind(LM_KIND)]:
        return found
    words, zeros = [b"<unk>", b"<s>", b"</s>"], np.zeros(3, np.float32)
    unigrams = NGrams(np.arange(3, dtype=np.int32)[:, np.newaxis], zeros, zeros)
    return [LmIndex.of(Arpa(words, [unigrams]), "no language model")]


def _read_reordering(
    ini: MosesIni, table: LoadedTable, target_words: Lexicon
) -> NDArray[np.float32]:
    if not ini.of_kind(REORDERING_KIND):
        return np.zeros((len(table.rows.nodes), N_SCORES), np.float32)
    feature = ini.of_kind(REORDERING_KIND)[0]
    kind = feature.arguments.get("type", "")
    if not REORDERING_TYPE.fullmatch(kind):
        raise ConfigError(
            f"{ini.path}: {feature.name} has type={kind}; "
            "the built-in decoder has msd-bidirectional-fe only"
        )
    return read_reordering(_file(ini, feature), table, target_words.tables)


def _member_limits(ini: MosesIni, paths: Sequence[DecodingPath]) -> list[int]:
    """The number of translations passed by each table: all to a path, to a mixture at most its limit."""
    limits = []
    for path in paths:
        of_path = _table_limit(ini, path.feature)
        for table in path.tables:
            limit = _table_limit(ini, table) if path.group else 0
            is_mixed = path.group is not None and bool(path.group.shares)
            limits.append(min(limit or of_path, of_path or limit) if is_mixed else limit)
    return limits


def _table_limit(ini: MosesIni, table: Feature) -> int:
    return _first(table_limit_of(ini, table), DEFAULT_TABLE_LIMIT)


def _first(value: int | None, default: int) -> int:
    return default if value is None else value
