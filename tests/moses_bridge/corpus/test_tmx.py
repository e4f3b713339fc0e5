from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.corpus.own_files import tmx_pairs

HEAD = '<?xml version="1.0" encoding="{}"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
UNIT = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv>\n<tuv xml:lang="fr"><seg>{}</seg></tuv></tu>\n'


def memory(units: str, head: str = HEAD, encoding: str = "utf-8") -> bytes:
    text = f'{head.format(encoding)}<tmx version="1.4"><header/><body>\n{units}</body></tmx>'
    return text.encode(encoding)


def pairs(path: Path, data: bytes, source: str = "en", target: str = "fr") -> list[tuple[str, str]]:
    path.write_bytes(data)
    return list(tmx_pairs(path, source, target, Counter()))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_texts_in_any_encoding_with_entities_and_inline_tags(tmp_path: Path, encoding: str) -> None:
    units = UNIT.format(
        'a &lt;b&gt; &amp; <bpt i="1">&lt;i&gt;</bpt>bold<ept i="1">&lt;/i&gt;</ept>&#233;&nbsp;x',
        "une<ph>&lt;br/&gt;</ph>ligne <hi>mar<it>?</it>quée</hi>",
    )
    assert pairs(tmp_path / "x.tmx", memory(units, encoding=encoding)) == [
        ("a <b> & boldé\u00a0x", "une ligne marquée")
    ]


def test_languages_with_regions(tmp_path: Path) -> None:
    unit = "".join(
        f'<tuv xml:lang="{name}"><seg>{name}</seg></tuv>' for name in ("EN-us", "pt", "fr_CA", "fr")
    )
    data = memory(f'<tu>{unit}</tu><tu><tuv lang="pt-br"><seg>P</seg></tuv>{unit}</tu>')
    path = tmp_path / "x.tmx"
    assert pairs(path, data) == [("EN-us", "fr")] * 2
    assert pairs(path, data, "pt_BR", "en") == [("P", "EN-us")]
    assert pairs(path, data, "pt", "fr_CA") == [("pt", "fr_CA")] * 2


def test_units_stream_and_those_without_a_language_are_counted(tmp_path: Path) -> None:
    """Segments lie across the pieces that are read, and the file is larger than one."""
    units = "".join(UNIT.format(f"house {i}", f"maison {i}" + " x" * 40) for i in range(4000))
    path = tmp_path / "x.tmx.gz"
    path.write_bytes(
        gzip.compress(memory(units + '<tu><tuv xml:lang="en"><seg>a</seg></tuv></tu>'))
    )
    dropped: Counter[str] = Counter()
    reader = tmx_pairs(path, "en", "fr", dropped)
    assert next(reader)[0] == "house 0"
    assert [left for left, _ in reader] == [f"house {i}" for i in range(1, 4000)]
    assert dropped == {"other languages": 1}


BOMB = '<!DOCTYPE tmx [\n<!ENTITY a "ha">\n<!ENTITY b "&a;&a;">\n]>\n'
OUTER = '<!DOCTYPE tmx [\n<!ENTITY a SYSTEM "file:///etc/hostname">\n]>\n'
PARAMETER = '<!DOCTYPE tmx [\n<!ENTITY % a SYSTEM "file:///etc/hostname">\n%a;\n]>\n'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (memory(UNIT.format("&b;", "x"), BOMB), r":2: found a declaration of the entity a"),
        (memory(UNIT.format("&a;", "x"), OUTER), r":2: found a declaration of the entity a"),
        (memory(UNIT.format("a", "x"), PARAMETER), r":2: found a declaration of the entity a"),
        (memory(UNIT.format("&nosuch;", "x")), r":4: found the unknown entity &nosuch;"),
        (memory(UNIT.format("&b;", "x"), ""), r":2: found malformed XML \(undefined entity"),
        (memory("<tu>\n</tuv>"), r":5: found malformed XML \(mismatched tag\)"),
        (memory("")[:-6], r":4: found malformed XML"),
        (b"", r"malformed XML \(no element found\)"),
        (b"<html></html>", r":1: found <html>, expected <tmx>"),
        (memory("<tu><tuv><seg>a</seg></tuv></tu>"), r":4: found <tuv> without a language"),
        (memory(UNIT.replace('"fr"', '"de"').format("a", "b")), r"units in en, de, expected units"),
        (memory(""), r"found no <tu>, expected units in en and fr"),
        (
            memory('<tu><tuv xml:lang="en">a</tuv><tuv xml:lang="fr">b</tuv></tu>'),
            r"found no <seg> in any <tu>, expected units in en and fr",
        ),
    ],
)
def test_faulty_and_hostile_files_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pairs(tmp_path / "x.tmx", data)


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.tmx.gz"
    path.write_bytes(gzip.compress(memory(UNIT.format("a", "b")))[:-9])
    with pytest.raises(InputError, match="damaged data"):
        list(tmx_pairs(path, "en", "fr", Counter()))
