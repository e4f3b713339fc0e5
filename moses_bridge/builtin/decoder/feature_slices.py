"""The features of a moses.ini in the decoder: kinds, arguments, and the position of their values.

Unsupported arguments that would change scores are refused, such as default-scores of LexicalReordering or
sparse of Distortion, and so are arguments unknown to Moses (FeatureFunction::SetParameter).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moses_bridge.base.config import nearest
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.builtin.decoder import feature_slots as slots
from moses_bridge.builtin.decoder.ini_settings import to_switch
from moses_bridge.builtin.decoder.sparse_features import known_arguments
from moses_bridge.formats.moses_ini import (
    LM_KIND,
    OF_TABLES,
    REORDERING_KIND,
    SPARSE_KINDS,
    TABLE_KIND,
    WORD_DELETION,
    WORD_INSERTION,
    WORD_TRANSLATION,
    Feature,
    MosesIni,
    line_of,
)

ONLY_SLOT = {
    REORDERING_KIND: slots.REORDERING,
    "Distortion": slots.DISTORTION,
    "WordPenalty": slots.WORD_PENALTY,
    "PhrasePenalty": slots.PHRASE_PENALTY,
    "UnknownWordPenalty": slots.UNKNOWN_WORD,
}
KINDS = (*ONLY_SLOT, LM_KIND, TABLE_KIND, *OF_TABLES, *SPARSE_KINDS)
OF_MANY_SCORES = (TABLE_KIND, *OF_TABLES, REORDERING_KIND)
_ARPA = ". If its file is ARPA, KENLM reads it, with other scores of unknown words"
_MIXTURE = ". moses-bridge combine makes one table of several"
HINTS = {"IRSTLM": _ARPA, "SRILM": _ARPA, "PhraseDictionaryMultiModelCounts": _MIXTURE}
BINARY_TABLES = (
    *("PhraseDictionaryBinary", "PhraseDictionaryCompact", "PhraseDictionaryOnDisk", "ProbingPT"),
)
STATEFUL = (REORDERING_KIND, "Distortion", LM_KIND)
OF_ALL = (
    *("num-features", "tuneable", "verbosity", "filterable"),
    "require-sorting-after-source-context",
)
FACTORS = ("input-factor", "output-factor")
WORDS = ("factor", "path")
OF_KINDS = {
    LM_KIND: ("factor", "path", "order", "lazyken", "load", "oov-feature"),
    TABLE_KIND: (*FACTORS, "path", "table-limit", "cache-size"),
    REORDERING_KIND: (*FACTORS, "path", "type"),
    WORD_DELETION: WORDS,
    WORD_INSERTION: WORDS,
    WORD_TRANSLATION: (
        *(*FACTORS, "simple", "ignore-punctuation", "source-path", "target-path"),
        *("source-context", "target-context", "domain-trigger", "texttype"),
    ),
}


@dataclass(frozen=True)
class FeatureSlice:
    """The position of a feature's values in the decoder's vectors: index of the first one, and number."""

    name: str
    first: int
    size: int
    listed: bool  # in n-best lists; Moses leaves out untuneable features and those without scores


def feature_slices(
    ini: MosesIni, tables: Sequence[Feature], n_sparse_sums: int
) -> tuple[FeatureSlice, ...]:
    """Arrange the features of an ini in the order of Moses's n-best lists: stateful, then stateless.

    `tables` are in the order of `feature_slots`; n_sparse_sums is 1 with sparse features, else 0.
    """
    first_slots = _first_slots(ini, tables, n_sparse_sums)
    ordered = sorted(ini.features, key=lambda feature: feature.kind not in STATEFUL)
    return tuple(
        FeatureSlice(
            feature.name,
            first_slots[feature.name],
            _size(feature),
            _size(feature) > 0 and is_listed(feature),
        )
        for feature in ordered
    )


def _first_slots(ini: MosesIni, tables: Sequence[Feature], n_sparse_sums: int) -> dict[str, int]:
    found = {each.name: ONLY_SLOT.get(each.kind, 0) for each in ini.features}
    place = slots.PHRASE_TABLE
    for table in tables:
        found[table.name] = place
        place += table.n_scores
    place += n_sparse_sums
    for number, model in enumerate(ini.of_kind(LM_KIND)):
        found[model.name] = place + number - 1 if number else slots.LANGUAGE_MODEL
    return found


def _size(feature: Feature) -> int:
    return slots.N_REORDERING if feature.kind == REORDERING_KIND else feature.n_scores


def is_listed(feature: Feature) -> bool:
    """Whether n-best lists have its values: as in Moses, untuneable features are left out."""
    default = "false" if feature.kind == "UnknownWordPenalty" else "true"
    return feature.arguments.get("tuneable", default) == "true"


def _n_scores(ini: MosesIni, feature: Feature) -> int:
    """The supported number of scores of a feature that is not of OF_MANY_SCORES."""
    if feature.kind in SPARSE_KINDS:
        return 0
    is_first = feature in ini.of_kind(LM_KIND)[:1]  # may count words unknown to it (oov-feature)
    return 2 if is_first and to_switch(feature.arguments.get("oov-feature", "0")) else 1


def _hint(ini: MosesIni, feature: Feature) -> str:
    """Advice on an unsupported kind of feature; "" if there is none."""
    if feature.kind not in BINARY_TABLES:
        return HINTS.get(feature.kind, "")
    # The names of binary tables append a suffix to the path, so their text is often next to them.
    text = ini.file(feature.arguments.get("path", "").removesuffix(".minphr"))
    path = text if text.is_file() else "the text table that it was made from"
    return f". It reads text tables: write {TABLE_KIND} there, with path={path}"


def check_features(ini: MosesIni) -> None:
    """Refuse unsupported features.

    Raises:
        ConfigError: a feature is of an unknown kind, there are two of a kind allowed once, a feature has an
            unexpected number of scores, or a factor is not 0.
    """
    for feature in ini.features:
        if feature.kind not in KINDS:
            raise ConfigError(
                f"{ini.path}: the built-in decoder has no feature {feature.kind}; "
                f"it has {', '.join(KINDS)}{_hint(ini, feature)}"
            )
        n_of_kind = len(ini.of_kind(feature.kind))
        if feature.kind in ONLY_SLOT and n_of_kind > 1:
            raise ConfigError(
                f"{ini.path}: {n_of_kind} features of kind {feature.kind}; "
                "the built-in decoder supports one (the decoder of Moses more)"
            )
        n_scores = _n_scores(ini, feature)
        if feature.kind not in OF_MANY_SCORES and feature.n_scores != n_scores:
            raise ConfigError(
                f"{ini.path}: {feature.name} has num-features={feature.n_scores}; "
                f"in the built-in decoder {feature.kind} has {n_scores}"
            )
        for key in ("input-factor", "output-factor", "factor"):
            if feature.arguments.get(key, "0") != "0":
                raise ConfigError(
                    f"{ini.path}: {feature.name} has {key}={feature.arguments[key]}; "
                    "the built-in decoder has factor 0 only"
                )


def check_arguments(ini: MosesIni) -> None:
    """Refuse unsupported arguments that change scores, and arguments unknown to Moses.

    Groups of tables have their own checks (`table_group`).

    Raises:
        InputError: a feature has such an argument; the message names the nearest known one.
    """
    for feature in ini.features:
        known = (*OF_ALL, *OF_KINDS.get(feature.kind, ()), *known_arguments(feature))
        for key in feature.arguments:
            if key not in known and feature.kind not in OF_TABLES:
                found = f"{feature.name} with {key}={feature.arguments[key]}"
                expected = f"the arguments of a {feature.kind} that the built-in decoder has"
                raise InputError(
                    ini.path, line_of(ini, feature), found, expected + nearest(key, known)
                )
