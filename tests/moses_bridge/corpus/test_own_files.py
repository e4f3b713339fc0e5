from __future__ import annotations

import gzip
import struct
from collections import Counter
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import read_lines
from moses_bridge.corpus.corpus_config import CorpusConfig
from moses_bridge.corpus.own_files import bilingual_pairs, catalogue_pairs, column_pairs, format_of
from moses_bridge.corpus.parallel_corpus import prepare_corpus

TMX = (
    '<tmx><body><tu><tuv xml:lang="en"><seg>A\n big   house.</seg></tuv>'
    '<tuv xml:lang="fr"><seg>Une grande maison.</seg></tuv></tu></body></tmx>'
)
PO = 'msgid "Open it"\nmsgstr "Ouvrez-le"\n'
TSV = "One house\tUne maison\t0.9\nA big house.\tUne grosse maison.\n"


def files(folder: Path) -> list[Path]:
    paths = [folder / name for name in ("x.tmx", "x.po", "x.tsv")]
    for path, text in zip(paths, (TMX, PO, TSV), strict=True):
        path.write_text(text)
    return paths


def test_all_formats_go_through_the_same_cleaning(tmp_path: Path) -> None:
    sides = [tmp_path / "own.en", tmp_path / "own.fr"]
    sides[0].write_text("Plain text\n")
    sides[1].write_text("Du texte brut\n")
    config = CorpusConfig(origin="files", n_dev=0, n_test=0, jobs=1)
    report = prepare_corpus("en", "fr", tmp_path / "out", config, *sides, files(tmp_path))
    found = [list(read_lines(tmp_path / "out" / f"train.{side}")) for side in ("en", "fr")]
    assert found == [
        [b"plain text", b"a big house .", b"open it", b"one house"],
        [b"du texte brut", b"une grande maison .", b"ouvrez-le", b"une maison"],
    ]
    assert report.dropped == {"repeated source": 1}
    alone = prepare_corpus("en", "fr", tmp_path / "alone", config, files=files(tmp_path)[:1])
    assert alone.pairs["train"] == 1


def test_a_table_of_another_editor_has_the_same_texts(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(b"\xef\xbb\xbfa b\tx y\r\nc\tz\r\n")
    assert list(column_pairs(path, (1, 2))) == [("a b", "x y"), ("c", "z")]


def test_groups_are_neighbours_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("".join(f"a{i}\tb{i}\n" for i in range(25)))
    pairs = list(bilingual_pairs([path, path], "en", "fr", (1, 2), Counter()))
    groups = Counter(pair.group for pair in pairs)
    assert sorted(groups.values()) == [5, 5, 10, 10, 10, 10]


def test_columns_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text('1\t"Haus\t2\thouse"\n')
    assert list(column_pairs(path, (4, 2))) == [('house"', '"Haus')]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\tb\nonly\n", r"x\.tsv:2: found 1 columns, expected texts in the columns 1 and 2"),
        (b"a\tb\n\na\tb\n", r"x\.tsv:2: found 1 columns"),
        (b"a\tb\nc\t\xe9\n", r"x\.tsv:2: .*expected UTF-8"),
    ],
)
def test_faulty_tables(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        list(column_pairs(path, (1, 2)))


def test_formats_by_suffix() -> None:
    names = ["a.b.TMX", "a.po.xz", "a.mo", "a.tsv.zst"]
    assert [format_of(Path(name)) for name in names] == [".tmx", ".po", ".mo", ".tsv"]
    for name in ("a.txt", "tmx", "a.gz"):
        with pytest.raises(ConfigError, match=r"expected a file in \.tmx, \.po, \.mo, \.tsv"):
            format_of(Path(name))


def test_files_need_their_origin(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the origin is 'debian'"):
        prepare_corpus("en", "fr", tmp_path / "out", CorpusConfig(), files=files(tmp_path))
    with pytest.raises(ConfigError, match="or files with both"):
        prepare_corpus("en", "fr", tmp_path / "out", CorpusConfig(origin="files"))
    with pytest.raises(ConfigError, match=r"columns is 0; the smallest value is 1"):
        CorpusConfig(columns=(0, 1))
    with pytest.raises(InputError, match="the end of the file"):
        sides = tmp_path / "a", tmp_path / "b"
        sides[0].write_text("a\n")
        sides[1].write_text("")
        prepare_corpus("en", "fr", tmp_path / "out", CorpusConfig(origin="files"), *sides)


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
    for name in ("", " fr.UTF-8", "FR@euro "):
        assert list(catalogue_pairs(catalogue(path, name), "en", "fr")) == PAIRS
    for name in ("de", "frp"):
        with pytest.raises(InputError, match=f'found "Language: {name}", expected translations in'):
            list(catalogue_pairs(catalogue(path, name), "en", "fr"))


def test_a_language_of_one_plural_form_has_it_for_plurals(tmp_path: Path) -> None:
    (tmp_path / "x.po").write_text('msgid "a file"\nmsgid_plural "files"\nmsgstr[0] "ファイル"\n')
    assert list(catalogue_pairs(tmp_path / "x.po", "en", "ja")) == [("files", "ファイル")]


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
