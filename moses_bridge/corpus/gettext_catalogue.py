"""Translated messages of programs: gettext's catalogues, as text (.po) or compiled (.mo)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polib

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_bytes
from moses_bridge.corpus.sentence_split import sentence_pairs
from moses_bridge.corpus.text_pair import tidy

FAULT = re.compile(r"Syntax error in po file.*\(line (\d+)\)(?:: (.*))?", re.DOTALL)
MO_MAGIC = (b"\xde\x12\x04\x95", b"\x95\x04\x12\xde")


def catalogue_pairs(path: Path, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield the translated messages, sentence by sentence where both sides have as many.

    Fuzzy and obsolete messages are left out. Of a plural, the singular goes with the first form, the
    plural with the last. The header's "Language" says which side the translations are; without it,
    they are the target.

    Args:
        path: the catalogue; its suffix, before one of compression, distinguishes .po from .mo.
        source: source language code.
        target: target language code.

    Raises:
        InputError: it is malformed, not in the encoding it names, or in neither language.
    """
    catalogue = _parse(path)
    is_reversed = _is_source(path, catalogue.metadata.get("Language", ""), source, target)
    for message, translation in _texts(catalogue):
        left, right = tidy(message), tidy(translation)
        if is_reversed:
            left, right = right, left
        for pair in sentence_pairs(None, left, right, source, target):
            yield pair.source, pair.target


def _parse(path: Path) -> Any:
    """The catalogue polib reads from a file's bytes; polib never gets a text it could take for a file name."""
    data, is_compiled = read_bytes(path), ".mo" in path.suffixes[-2:]
    if is_compiled and (data[:4] not in MO_MAGIC or b"\0" not in data):
        raise InputError(path, None, "no catalogue's first bytes", "a compiled catalogue (.mo)")
    data += b"\n"
    encoding = polib.detect_encoding(data, binary_mode=True)
    try:
        if is_compiled:
            return polib.mofile(data, encoding=encoding)
        return polib.pofile(data.decode(encoding), encoding=encoding)
    except UnicodeDecodeError as error:
        line = None if is_compiled else data.count(b"\n", 0, error.start) + 1
        found = f"bytes that are {error.reason}"
        raise InputError(path, line, found, f"text in {encoding}, as the header says") from error
    except (OSError, struct.error, ValueError, IndexError) as error:
        match = FAULT.search(str(error))
        line, reason = (int(match[1]), match[2]) if match else (None, str(error))
        found = f"a malformed catalogue ({reason or 'syntax error'})"
        raise InputError(path, line, found, "a catalogue of gettext") from error


def _is_source(path: Path, language: str, source: str, target: str) -> bool:
    """Whether the translations are in the source language."""
    name = language.strip()
    if not name or _fits(name, target):
        return False
    if _fits(name, source):
        return True
    raise InputError(path, None, f'"Language: {name}"', f"translations into {target} or {source}")


def _fits(name: str, language: str) -> bool:
    """Whether a language is the requested one, or a region of it: "fr_CA" and "fr"."""
    plain = re.split(r"[.@]", name)[0].replace("-", "_").casefold()
    return plain == language.casefold() or plain.startswith(language.casefold() + "_")


def _texts(catalogue: Any) -> Iterator[tuple[str, str]]:
    """Message and translation."""
    for entry in catalogue.translated_entries():
        if entry.msgid_plural:
            forms = [entry.msgstr_plural[number] for number in sorted(entry.msgstr_plural)]
            if len(forms) > 1:
                yield entry.msgid, forms[0]
            yield entry.msgid_plural, forms[-1]
        else:
            yield entry.msgid, entry.msgstr
