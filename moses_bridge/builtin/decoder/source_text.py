"""The words of a line to translate, and the translations that it gives, as moses.ini has it."""

from __future__ import annotations

from collections.abc import Sequence

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath
from moses_bridge.builtin.decoder.ini_values import IniValues
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.formats.marked_text import MarkedText, Place, first_factors, parse_marked
from moses_bridge.formats.words import split_words

UNNAMED = Place("the source text", None)


def source_text(line: bytes, model: Model, place: Place = UNNAMED) -> MarkedText:
    """The words of a line.

    Raises:
        InputError: a tag is malformed, a given translation has too many source words, or a word has another
            number of factors than the ini.
    """
    values = model.values
    if is_plain(values):
        return MarkedText(tuple(split_words(line)))
    text = MarkedText(tuple(split_words(line)))
    if values.xml_input != "pass-through" and b"<" in line:
        text = parse_marked(line, place)
    if values.n_input_factors > 1:
        words = first_factors(text.words, values.n_input_factors, values.factor_delimiter, place)
        text = MarkedText(words, text.given)
    if values.xml_input == "ignore":
        return MarkedText(text.words)
    for each in text.given:
        if each.end - each.start > model.max_phrase_words:
            found = f"a translation of {each.end - each.start} source words"
            expected = f"at most {model.max_phrase_words}, the max-phrase-length"
            raise InputError(place.path, place.line, found, expected)
    return text


def check_source(lines: Sequence[bytes], model: Model, path: StrPath) -> None:
    """Read all lines before the first is translated; see `source_text`.

    Args:
        lines: the lines to translate.
        model: the model.
        path: their file, for errors.
    """
    if not is_plain(model.values):
        for number, line in enumerate(lines, start=1):
            source_text(line, model, Place(path, number))


def is_plain(values: IniValues) -> bool:
    """Whether lines have words alone: no tags, no factors."""
    return values.xml_input == "pass-through" and values.n_input_factors == 1
