"""What a moses.ini asks of search, unknown words and input, beside its features and their limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from moses_bridge.base.errors import InputError
from moses_bridge.builtin.decoder.ini_settings import OFF
from moses_bridge.formats.moses_ini import MosesIni, limit_of, with_sections
from moses_bridge.formats.phrase_table import to_number

ON = ("true", "yes", "y", "1")  # Scan<bool> of moses/Util.cpp
BEAM_THRESHOLD = "0.00001"  # moses/TypeDef.h
XML_INPUTS = ("pass-through", "ignore", "inclusive", "exclusive", "constraint")


@dataclass(frozen=True)
class IniValues:
    """Sections of a moses.ini that change what a search results in.

    Attributes:
        stack_size: [stack], None if it is not there; 0 for any number of hypotheses.
        pop_limit: [cube-pruning-pop-limit], None if it is not there.
        beam: natural logarithm of [beam-threshold]; -inf prunes nothing.
        early_distortion: whether jumps are paid for early (Moore and Quirk 2007).
        drop_unknown: whether unknown words without a digit are left out.
        unknown_marks: what to write before and after an unknown word.
        n_input_factors: number of factors of each source word; the first one is translated.
        factor_delimiter: what is between the factors.
        xml_input: what becomes of XML tags in the source: one of XML_INPUTS.
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
        InputError: a value is not of its kind, or the first input factor is not factor 0.
    """
    marks = (b"", b"")
    if _switch(ini, "mark-unknown"):
        marks = (
            _bytes(ini, "unknown-word-prefix", "UNK"),
            _bytes(ini, "unknown-word-suffix", ""),
        )
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
    """The first line of a section, and its line number; the default and 0 where it has no line."""
    for line_number, (found, text) in enumerate(with_sections(ini.lines), start=1):
        if found == section and text:
            return line_number, text
    return 0, default


def _bytes(ini: MosesIni, section: str, default: str) -> bytes:
    """The first line of a section as the bytes of the file."""
    return _text(ini, section, default)[1].encode("utf-8", "surrogateescape")


def _switch(ini: MosesIni, section: str) -> bool:
    """A switch; an empty section is on (Parameter::SetParameter<bool>)."""
    lines = with_sections(ini.lines)
    default = "true" if any(found == section for found, _ in lines) else "false"
    line_number, text = _text(ini, section, default)
    found = to_switch(text)
    if found is None:
        raise InputError(ini.path, line_number, f"{section}: {text!r}", "true or false")
    return found


def to_switch(text: str) -> bool | None:
    """Whether a text means on or off to Moses; None for neither."""
    return text.lower() in ON if text.lower() in ON + OFF else None


def _beam(ini: MosesIni) -> float:
    """The natural logarithm of the threshold; Moses takes one of 0 for no pruning (TransformScore)."""
    line_number, text = _text(ini, "beam-threshold", BEAM_THRESHOLD)
    threshold = to_number(text.encode("utf-8", "surrogateescape"))
    if not 0 <= threshold <= 1:  # no number is NaN
        raise InputError(ini.path, line_number, f"beam-threshold: {text!r}", "a number from 0 to 1")
    return math.log(threshold) if threshold > 0 else -math.inf


def _n_input_factors(ini: MosesIni) -> int:
    factors = ini.settings.get("input-factors", ("0",))
    if list(factors) != [str(number) for number in range(len(factors))]:
        line_number, _ = _text(ini, "input-factors", "")
        raise InputError(
            ini.path,
            line_number,
            f"input-factors: {', '.join(factors)}",
            "0, 1 and so on, one a line",
        )
    return len(factors)


def _xml_input(ini: MosesIni) -> str:
    line_number, text = _text(ini, "xml-input", XML_INPUTS[0])
    if text not in XML_INPUTS:
        raise InputError(ini.path, line_number, f"xml-input: {text!r}", ", ".join(XML_INPUTS))
    return text
