"""The arguments of features that the built-in decoder honours, or lets pass as they change no translation.

Moses refuses an argument that it does not know (FeatureFunction::SetParameter), and others change scores, as
default-scores of LexicalReordering does or sparse of Distortion.
"""

from __future__ import annotations

from moses_bridge.base.config import nearest
from moses_bridge.base.errors import InputError
from moses_bridge.builtin.decoder.feature_slices import LM_KIND, REORDERING_KIND
from moses_bridge.builtin.decoder.sparse_reordering import known_arguments
from moses_bridge.builtin.decoder.table_groups import TABLE_KIND
from moses_bridge.formats.moses_ini import (
    OF_TABLES,
    WORD_DELETION,
    WORD_INSERTION,
    WORD_TRANSLATION,
    MosesIni,
    line_of,
)

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


def check_arguments(ini: MosesIni) -> None:
    """Refuse arguments that change scores in a way that is not built in, and those that Moses does not know.

    Groups of tables have checks of their own (`table_groups`).

    Raises:
        InputError: a feature has such an argument; the message names the nearest one that it may have.
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
