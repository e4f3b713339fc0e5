"""Sections of a moses.ini in the built-in decoder: honoured, let pass as they change nothing, or refused.

The sections are those of moses/Parameter.cpp:40-330, the defaults those of moses/parameters/ and
moses/TypeDef.h. An unknown section is refused too: Moses ignores it, but it may be misspelt.
"""

from __future__ import annotations

import difflib
import math

from moses_bridge.base.errors import ConfigError
from moses_bridge.formats.moses_ini import MosesIni, with_sections
from moses_bridge.formats.phrase_table import to_number

# Used where they are needed: the model, its limits, and `IniValues`.
HONOURED = frozenset(
    (
        *("feature", "weight", "distortion-limit", "max-phrase-length"),
        *("mapping", "decoding-graph-backoff", "weight-file"),
        *("stack", "cube-pruning-pop-limit", "beam-threshold", "early-distortion-cost"),
        *("drop-unknown", "mark-unknown", "unknown-word-prefix", "unknown-word-suffix"),
        *("input-factors", "factor-delimiter", "xml-input"),
    )
)
# Replaced by options of the command, which replace them for Moses too.
REPLACED = frozenset(
    (
        *("input-file", "threads", "n-best-list", "n-best-list-file", "n-best-list-size"),
        *("n-best-factor", "include-segmentation-in-n-best", "print-alignment-info-in-n-best"),
    )
)
# Without effect on translations: reports, caches, servers, and parameters of refused features and inputs.
IDLE = frozenset(
    (
        *("config", "description", "references", "show-weights", "verbose", "version", "no-cache"),
        *("alignment-output-file", "output-search-graph", "output-search-graph-extended"),
        *("output-search-graph-hypergraph", "output-search-graph-pb", "output-search-graph-slf"),
        *("output-unknowns", "output-word-graph", "print-all-derivations", "sort-word-alignment"),
        *("translation-details", "translation-all-details", "tree-translation-details"),
        *("unpruned-search-graph", "clean-lm-cache", "minlexr-memory", "minphr-memory"),
        *("include-lhs-in-search-graph", "lattice-samples", "n-best-trees", "text-type"),
        *("persistent-cache-size", "use-persistent-cache", "link-param-count", "input-scores"),
        *("daemon", "serial", "server", "server-log", "server-port", "server-maxconn"),
        *("server-maxconn-backlog", "server-keepalive-maxconn", "server-keepalive-timeout"),
        *("server-timeout", "session-timeout", "session-cache-size"),
        *("cube-pruning-deterministic-search", "mbr-scale", "mbr-size", "lmbr-map-weight"),
        *("lmbr-p", "lmbr-pruning-factor", "lmbr-r", "lmbr-thetas", "lattice-hypo-set"),
        *("recover-input-path", "context-string", "context-weights", "context-window"),
        *("max-chart-span", "non-terminals", "rule-limit", "source-label-overlap", "unknown-lhs"),
        *("default-non-term-for-empty-range-only", "s2t-parsing-algorithm"),
    )
)
# They bound the stack search (search-algorithm 0) alone; Moses's cube pruning does not look at them either.
OF_STACK_SEARCH = frozenset(("early-discarding-threshold", "stack-diversity", "disable-discarding"))
# Allowed only with the values given here; the first is Moses's default.
ONLY_AS = {
    "search-algorithm": ("0", "1"),
    "output-factors": ("0",),
    "inputtype": ("0",),
    "xml-brackets": ("< >",),
    "translation-option-threshold": ("0",),
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
        *("cube-pruning-lazy-scoring", "lminimum-bayes-risk", "lmodel-oov-feature"),
        *("minimum-bayes-risk", "mira", "monotone-at-punctuation", "output-hypo-score"),
        *("phrase-drop-allowed", "print-alignment-info", "print-id", "print-passthrough"),
        *("print-passthrough-in-n-best", "report-all-factors", "report-all-factors-in-n-best"),
        *("report-segmentation", "report-segmentation-enriched"),
    )
)
# What Moses would do with them is not built in.
REFUSED = frozenset(
    (
        *("alternate-weight-setting", "feature-add", "feature-name-overwrite", "feature-overwrite"),
        *("placeholder-factor", "spe-aln", "spe-src", "spe-trg", "weight-add"),
        "weight-overwrite",
    )
)
# Names that Moses's command line alone has; in an ini Moses ignores them.
SHORT = {
    "v": "verbose",
    "f": "config",
    "i": "input-file",
    "th": "threads",
    "T": "translation-details",
    "b": "beam-threshold",
    "s": "stack",
    "dl": "distortion-limit",
    "cbp": "cube-pruning-pop-limit",
    "du": "drop-unknown",
    "mu": "mark-unknown",
    "xi": "xml-input",
    "mp": "monotone-at-punctuation",
}
KNOWN = HONOURED | REPLACED | IDLE | OF_STACK_SEARCH | ONLY_OFF | REFUSED | ONLY_AS.keys()
WITHOUT_EFFECT = REPLACED | IDLE | OF_STACK_SEARCH
OFF = ("false", "no", "n", "0")  # Scan<bool> of moses/Util.cpp


def check_settings(ini: MosesIni) -> None:
    """Refuse unsupported settings that would change the translations.

    Raises:
        ConfigError: a section is unknown, or has a value not supported by the built-in decoder.
    """
    for section, found in _sections(ini).items():
        if section in HONOURED | WITHOUT_EFFECT or SHORT.get(section) in WITHOUT_EFFECT:
            continue
        if section in ONLY_AS:
            _check_values(ini, section, found, ONLY_AS[section])
        elif section in REFUSED:
            raise ConfigError(f"{ini.path}: the built-in decoder has no [{section}]; remove it")
        elif section not in ONLY_OFF:
            raise ConfigError(
                f"{ini.path}: the built-in decoder does not know [{section}]{_meant(section)}"
            )
        elif [text.lower() for text in found] not in [[word] for word in OFF]:
            raise ConfigError(
                f"{ini.path}: the built-in decoder has no [{section}]; remove it, or set it to false"
            )


def _meant(section: str) -> str:
    """A question after the section most like an unknown one, empty if none is."""
    near = difflib.get_close_matches(section, sorted(KNOWN), 1)
    meant = SHORT.get(section) or (near[0] if near else "")
    return f"; did you mean [{meant}]?" if meant else ""


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
