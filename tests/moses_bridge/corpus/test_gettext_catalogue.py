from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.corpus.gettext_catalogue import catalogue_pairs

HEADER = (
    'msgid ""\nmsgstr ""\n"Language: {}\\n"\n"Content-Type: text/plain; charset={}\\n"\n'
    '"Plural-Forms: nplurals=2; plural=n>1;\\n"\n\n'
)
MESSAGES = """\
#: file.c:1
msgctxt "menu"
msgid "Open the file"
msgstr "Ouvrir le fichier é"

#, fuzzy
msgid "Close"
msgstr "Fermer ?"

msgid "not yet"
msgstr ""

msgid ""
"It is late.  \\n"
"Go home."
msgstr ""
"Il est tard.\\n"
"Rentrez."

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d fichier"
msgstr[1] "%d fichiers"

#~ msgid "old"
#~ msgstr "vieux"
"""
PAIRS = [
    ("Open the file", "Ouvrir le fichier é"),
    ("It is late.", "Il est tard."),
    ("Go home.", "Rentrez."),
    ("%d file", "%d fichier"),
    ("%d files", "%d fichiers"),
]


def catalogue(path: Path, language: str = "fr", charset: str = "UTF-8") -> Path:
    data = (HEADER.format(language, charset) + MESSAGES).encode(charset)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def compiled(messages: dict[str, str]) -> bytes:
    """A .mo file, from the description of the format in gettext's manual ("The Format of GNU MO Files")."""
    rows = sorted((key.encode(), value.encode()) for key, value in messages.items())
    start = 28 + 16 * len(rows)
    tables: list[bytes] = []
    texts = b""
    for column in (0, 1):
        table = b""
        for row in rows:
            table += struct.pack("<II", len(row[column]), start + len(texts))
            texts += row[column] + b"\0"
        tables.append(table)
    n = len(rows)
    head = struct.pack("<7I", 0x950412DE, 0, n, 28, 28 + 8 * n, 0, start)
    return head + tables[0] + tables[1] + texts


@pytest.mark.parametrize("name", ["x.po", "x.po.gz"])
@pytest.mark.parametrize("charset", ["UTF-8", "ISO-8859-1"])
def test_translated_messages_alone(tmp_path: Path, name: str, charset: str) -> None:
    path = catalogue(tmp_path / name, charset=charset)
    assert list(catalogue_pairs(path, "en", "fr")) == PAIRS


def test_the_header_tells_the_direction(tmp_path: Path) -> None:
    path = catalogue(tmp_path / "x.po", "fr_CA")
    turned = [(right, left) for left, right in PAIRS]
    assert list(catalogue_pairs(path, "fr", "en")) == turned
    assert list(catalogue_pairs(path, "en", "fr")) == PAIRS
    assert list(catalogue_pairs(catalogue(path, ""), "en", "fr")) == PAIRS
    with pytest.raises(InputError, match=r'found "Language: de", expected translations into fr'):
        list(catalogue_pairs(catalogue(path, "de"), "en", "fr"))


def test_compiled_catalogues(tmp_path: Path) -> None:
    messages = {
        "": "Content-Type: text/plain; charset=UTF-8\nLanguage: fr\n",
        "menu\4Open the file": "Ouvrir le fichier é",
        "%d file\0%d files": "%d fichier\0%d fichiers",
    }
    path = tmp_path / "x.mo"
    path.write_bytes(compiled(messages))
    assert sorted(catalogue_pairs(path, "en", "fr")) == sorted([PAIRS[0], *PAIRS[3:]])


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.po", b'msgid "a"\nmsgstr "b" c"\n', r"x\.po:2: found a malformed catalogue"),
        ("x.po", b'msgid "a"\nmsgstr "b"\nnonsense\n', r"x\.po:3: found a malformed catalogue"),
        ("x.po", b'msgid "a"\nmsgstr "\xe9"\n', r"x\.po:2: found bytes .* text in utf-8"),
        ("x.mo", b"/etc/hostname", r"expected a compiled catalogue"),
        ("x.mo", compiled({"a": "b"})[:30], r"found a malformed catalogue"),
        (
            "x.mo",
            compiled({"": "Language: fr\n", "a": "b"}).replace(b"b\0", b"\xe9\0"),
            "found bytes",
        ),
    ],
)
def test_faulty_catalogues(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        list(catalogue_pairs(path, "en", "fr"))


def test_a_catalogue_that_is_another_files_name_is_no_catalogue(tmp_path: Path) -> None:
    other = catalogue(tmp_path / "other.po")
    path = tmp_path / "x.po"
    path.write_bytes(str(other).encode())
    with pytest.raises(InputError, match="malformed catalogue"):
        list(catalogue_pairs(path, "en", "fr"))
