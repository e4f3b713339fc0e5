"""Sections of a moses.ini in the decoder: honoured, ignored since they change nothing, or refused.

The sections are those of moses/Parameter.cpp:40-330, the defaults those of moses/parameters/ and
moses/TypeDef.h. Unknown sections are refused too: Moses ignores them, but they may be misspelt.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.formats.moses_ini import MosesIni, first_line, limit_of, with_sections
from moses_bridge.formats.words import to_number

# Read by the model, its limits, and `IniValues`.
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
# These bound the stack search (search-algorithm 0) alone; Moses's cube pruning ignores them too.
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
# These would change translations in an unsupported way.
REFUSED = frozenset(
    (
        *("alternate-weight-setting", "feature-add", "feature-name-overwrite", "feature-overwrite"),
        *("placeholder-factor", "spe-aln", "spe-src", "spe-trg", "weight-add"),
        "weight-overwrite",
    )
)
# Names known to Moses's command line alone; in an ini Moses ignores them.
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
    "mbr": "minimum-bayes-risk",
    "lmbr": "lminimum-bayes-risk",
}
KNOWN = HONOURED | REPLACED | IDLE | OF_STACK_SEARCH | ONLY_OFF | REFUSED | ONLY_AS.keys()
WITHOUT_EFFECT = REPLACED | IDLE | OF_STACK_SEARCH
ON, OFF = ("true", "yes", "y", "1"), ("false", "no", "n", "0")  # Scan<bool> of moses/Util.cpp
BEAM_THRESHOLD = "0.00001"  # moses/TypeDef.h
XML_INPUTS = ("pass-through", "ignore", "inclusive", "exclusive", "constraint")


def check_settings(ini: MosesIni) -> None:
    """Refuse unsupported settings that would change the translations.

    Raises:
        ConfigError: a section is unknown or has an unsupported value.
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
                f"{ini.path}: the built-in decoder does not know [{section}]{_suggestion(section)}"
            )
        elif [text.lower() for text in found] not in [[word] for word in OFF]:
            raise ConfigError(
                f"{ini.path}: the built-in decoder has no [{section}]; remove it, or set it to false"
            )


def _suggestion(section: str) -> str:
    """A question naming the section most like an unknown one; empty if none is."""
    near = difflib.get_close_matches(section.lower(), sorted(KNOWN), 1)
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


@dataclass(frozen=True)
class IniValues:
    """Sections of a moses.ini that change the result of a search.

    Attributes:
        stack_size: [stack], None if missing; 0 for any number of hypotheses.
        pop_limit: [cube-pruning-pop-limit], None if missing.
        beam: natural logarithm of [beam-threshold]; -inf prunes nothing.
        early_distortion: whether jumps are paid for early (Moore and Quirk 2007).
        drop_unknown: whether unknown words without a digit are left out.
        unknown_marks: the text before and after an unknown word.
        n_input_factors: number of factors of each source word; the first one is translated.
        factor_delimiter: the text between the factors.
        xml_input: the treatment of XML tags in the source: one of XML_INPUTS.
    """

    stack_size: int | None = None
    pop_limit: int | None = None
    beam: float = math.log(float(BEAM_THRESHOLD))
    early_distortion: bool = False
    drop_unknown: bool = False
    unknown_marks: tuple[bytes, bytes] = (b"", b"")
    n_input_factors: int = 1
    factor_delimiter: bytes = b"|"
    xml_input: str = "pass-through"

    @property
    def takes_given(self) -> bool:
        """Whether sentences may give translations themselves."""
        return self.xml_input not in ("pass-through", "ignore")


def read_values(ini: MosesIni) -> IniValues:
    """Read the sections of an ini accepted by `check_settings`.

    Raises:
        InputError: a value is malformed, or the first input factor is not factor 0.
    """
    marks = (b"", b"")
    if _switch(ini, "mark-unknown"):
        marks = (_bytes(ini, "unknown-word-prefix", "UNK"), _bytes(ini, "unknown-word-suffix", ""))
    return IniValues(
        stack_size=limit_of(ini, "stack"),
        pop_limit=limit_of(ini, "cube-pruning-pop-limit"),
        beam=_beam(ini),
        early_distortion=_switch(ini, "early-distortion-cost"),
        drop_unknown=_switch(ini, "drop-unknown"),
        unknown_marks=marks,
        n_input_factors=_n_input_factors(ini),
        factor_delimiter=_bytes(ini, "factor-delimiter", "|"),
        xml_input=_xml_input(ini),
    )


def _text(ini: MosesIni, section: str, default: str) -> tuple[int, str]:
    """The number and text of a section's first line; 0 and the default without one."""
    return first_line(ini, section) or (0, default)


def _bytes(ini: MosesIni, section: str, default: str) -> bytes:
    return _text(ini, section, default)[1].encode("utf-8", "surrogateescape")


def _switch(ini: MosesIni, section: str) -> bool:
    """Read a switch; an empty section is on (Parameter::SetParameter<bool>)."""
    lines = with_sections(ini.lines)
    default = "true" if any(found == section for found, _ in lines) else "false"
    line_number, text = _text(ini, section, default)
    found = to_switch(text)
    if found is None:
        raise InputError(ini.path, line_number, f"{section}: {text!r}", "true or false")
    return found


def to_switch(text: str) -> bool | None:
    """Whether a text switches something on or off in Moses; None for neither."""
    return text.lower() in ON if text.lower() in ON + OFF else None


def _beam(ini: MosesIni) -> float:
    """The natural logarithm of the threshold; as in Moses, 0 means no pruning (TransformScore)."""
    line_number, text = _text(ini, "beam-threshold", BEAM_THRESHOLD)
    threshold = to_number(text.encode("utf-8", "surrogateescape"))
    if not 0 <= threshold <= 1:  # also true of NaN
        raise InputError(ini.path, line_number, f"beam-threshold: {text!r}", "a number from 0 to 1")
    return math.log(threshold) if threshold > 0 else -math.inf


def _n_input_factors(ini: MosesIni) -> int:
    factors = ini.settings.get("input-factors", ("0",))
    if list(factors) != [str(number) for number in range(len(factors))]:
        line_number, _ = _text(ini, "input-factors", "")
        found = f"input-factors: {', '.join(factors)}"
        raise InputError(ini.path, line_number, found, "0, 1 and so on, one a line")
    return len(factors)


def _xml_input(ini: MosesIni) -> str:
    line_number, text = _text(ini, "xml-input", XML_INPUTS[0])
    if text not in XML_INPUTS:
        raise InputError(ini.path, line_number, f"xml-input: {text!r}", ", ".join(XML_INPUTS))
    return text
