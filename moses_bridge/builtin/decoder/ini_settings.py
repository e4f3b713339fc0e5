"""Sections of a moses.ini in the built-in decoder: each is used, ignored as irrelevant, or refused by name.

The sections are those of moses/Parameter.cpp:40-330, the defaults those of moses/parameters/ and
moses/TypeDef.h. An unknown section is refused too: it may be misspelt.
"""

from __future__ import annotations

import math

from moses_bridge.base.errors import ConfigError
from moses_bridge.formats.moses_ini import MosesIni, with_sections
from moses_bridge.formats.phrase_table import to_number

# Used where they are needed.
HEEDED = frozenset(
    (
        *("feature", "weight", "distortion-limit", "max-phrase-length"),
        *("mapping", "decoding-graph-backoff"),
    )
)
# Replaced by settings of the decoder, which replace them for Moses too.
REPLACED = frozenset(
    (
        *("stack", "cube-pruning-pop-limit", "search-algorithm", "input-file", "threads"),
        *("n-best-list", "n-best-list-file", "n-best-list-size", "n-best-factor"),
        *("include-segmentation-in-n-best", "print-alignment-info-in-n-best"),
    )
)
# Without effect on translations: reports, caches, servers, and parameters of refused features.
IDLE = frozenset(
    (
        *("config", "description", "references", "show-weights", "verbose", "version", "no-cache"),
        *("alignment-output-file", "output-search-graph", "output-search-graph-extended"),
        *("output-search-graph-hypergraph", "output-search-graph-pb", "output-search-graph-slf"),
        *("output-unknowns", "output-word-graph", "print-all-derivations", "sort-word-alignment"),
        *("translation-details", "translation-all-details", "tree-translation-details"),
        *("unpruned-search-graph", "clean-lm-cache", "minlexr-memory", "minphr-memory"),
        *("persistent-cache-size", "use-persistent-cache", "link-param-count"),
        *("daemon", "serial", "server", "server-log", "server-port"),
        *("cube-pruning-deterministic-search", "mbr-scale", "mbr-size", "lmbr-map-weight"),
        *("lmbr-p", "lmbr-pruning-factor", "lmbr-r", "lmbr-thetas", "lattice-hypo-set"),
        *("unknown-word-prefix", "unknown-word-suffix", "xml-brackets"),
        *("max-chart-span", "non-terminals", "rule-limit", "source-label-overlap", "unknown-lhs"),
    )
)
# Allowed only with the values given here; the first is Moses's default.
ONLY_AS = {
    "input-factors": ("0",),
    "output-factors": ("0",),
    "inputtype": ("0",),
    "factor-delimiter": ("|",),
    "xml-input": ("pass-through",),
    "beam-threshold": ("0.00001",),
    "early-discarding-threshold": ("0",),
    "translation-option-threshold": ("0",),
    "stack-diversity": ("0",),
    "cube-pruning-diversity": ("0",),
    "max-partial-trans-opt": ("10000",),
    "max-trans-opt-per-coverage": ("5000",),
    "time-out": ("0", "-1"),
    "segment-time-out": ("0", "-1"),
    "start-translation-id": ("0",),
    "labeled-n-best-list": ("true", "yes", "y", "1"),
}
# Allowed only if switched off. A section without a value is switched on (Parameter::SetParameter<bool>).
ONLY_OFF = frozenset(
    (
        *("always-create-direct-transopt", "consensus-decoding", "continue-partial-translation"),
        *("cube-pruning-lazy-scoring", "disable-discarding", "drop-unknown"),
        *("early-distortion-cost", "lminimum-bayes-risk", "lmodel-oov-feature", "mark-unknown"),
        *("minimum-bayes-risk", "mira", "monotone-at-punctuation", "output-hypo-score"),
        *("phrase-drop-allowed", "print-alignment-info", "print-id", "print-passthrough"),
        *("print-passthrough-in-n-best", "recover-input-path", "report-all-factors"),
        *("report-all-factors-in-n-best", "report-segmentation", "report-segmentation-enriched"),
    )
)
OFF = ("false", "no", "n", "0")  # Scan<bool> of moses/Util.cpp


def check_settings(ini: MosesIni) -> None:
    """Refuse unsupported settings that would change the translations.

    Raises:
        ConfigError: a section is unknown, or has a value not supported by the built-in decoder.
    """
    for section, found in _sections(ini).items():
        if section in HEEDED | REPLACED | IDLE:
            continue
        if section in ONLY_AS:
            _check_values(ini, section, found, ONLY_AS[section])
        elif section not in ONLY_OFF:
            raise ConfigError(f"{ini.path}: the built-in decoder does not know [{section}]")
        elif [text.lower() for text in found] not in [[word] for word in OFF]:
            raise ConfigError(
                f"{ini.path}: the built-in decoder has no [{section}]; remove it, or set it to false"
            )


def _sections(ini: MosesIni) -> dict[str, list[str]]:
    """The lines of each section of an ini; none for an empty section."""
    sections: dict[str, list[str]] = {}
    for section, text in with_sections(ini.lines):
        lines = sections.setdefault(section, []) if section else []
        if text:
            lines.append(text)
    return sections


def _check_values(ini: MosesIni, section: str, found: list[str], known: tuple[str, ...]) -> None:
    if found and not (len(found) == 1 and any(_is_same(found[0], value) for value in known)):
        raise ConfigError(
            f"{ini.path}: [{section}] is {', '.join(found)}; "
            f"the built-in decoder knows {known[0]} only"
        )


def _is_same(text: str, value: str) -> bool:
    """Whether two texts are equal, or the same number: 0.00001 and 1e-5."""
    numbers = to_number(text.encode("utf-8", "surrogateescape")), to_number(value.encode())
    return text.lower() == value.lower() or (
        not math.isnan(numbers[0]) and numbers[0] == numbers[1]
    )
