from __future__ import annotations

import gzip
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from moses_bridge.corpus.debian_archive import DebianArchive
from moses_bridge.corpus.libreoffice_help import help_package, help_pairs, read_help
from moses_bridge.corpus.package_descriptions import description_pairs, read_descriptions
from moses_bridge.corpus.sentence_split import split_sentences
from moses_bridge.corpus.text_pair import TextPair
from moses_bridge.corpus.tokenization import UNSPACED_WORD, tokenize
from moses_bridge.errors import ToolError, UserError
from moses_bridge.textio import read_parallel

ENGLISH = """\
Package: viewer
Description-md5: aa
Description-en: image viewer
 This is a viewer. It reads e.g. PNG
 files.
 .
 Features:
  * zoom, with
    the mouse
  * rotation
 .
 It has a long
 history.

Package: only-english
Description-md5: bb
Description-en: not translated

Package: table
Description-md5: cc
Description-en: a table
 One paragraph.
 .
  - left
  - right
"""
FRENCH = """\
Package: table
Description-md5: cc
Description-fr: une table
 Un paragraphe.
 .
  - gauche

Package: viewer
Description-md5: aa
Description-fr: visionneuse d'images\u22c5!
 C'est une visionneuse. Elle lit p. ex. les
 fichiers PNG.
 .
 Fonctionnalit\u00c3\u00a9s :
 - zoom, avec
 la souris ;
 - rotation.
 .
 Son histoire
  est longue.
"""


def index(folder: Path, language: str, text: str) -> Path:
    path = folder / f"Translation-{language}.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_descriptions_are_joined_by_sum_and_aligned_by_paragraph(tmp_path: Path) -> None:
    dropped: Counter[str] = Counter()
    pairs = list(
        description_pairs(
            index(tmp_path, "en", ENGLISH), index(tmp_path, "fr", FRENCH), "en", "fr", dropped
        )
    )
    assert pairs == [
        TextPair("table", "a table", "une table"),
        TextPair("table", "One paragraph.", "Un paragraphe."),
        TextPair("viewer", "image viewer", "visionneuse d'images !"),
        TextPair("viewer", "This is a viewer.", "C'est une visionneuse."),
        TextPair("viewer", "It reads e.g. PNG files.", "Elle lit p. ex. les fichiers PNG."),
        TextPair("viewer", "Features:", "Fonctionnalités :"),
        TextPair("viewer", "zoom, with the mouse", "zoom, avec la souris ;"),
        TextPair("viewer", "rotation", "rotation."),
        TextPair("viewer", "It has a long history.", "Son histoire est longue."),
    ]
    assert dropped == {"not aligned": 2}


def test_a_description_with_another_number_of_paragraphs_gives_its_title(tmp_path: Path) -> None:
    fewer = FRENCH.replace(" .\n Son histoire\n  est longue.\n", "")
    pairs = description_pairs(
        index(tmp_path, "en", ENGLISH), index(tmp_path, "fr", fewer), "en", "fr", Counter()
    )
    assert [pair.source for pair in pairs if pair.group == "viewer"] == ["image viewer"]


def test_of_equal_sums_the_first_package_stays(tmp_path: Path) -> None:
    twice = ENGLISH + "\n" + ENGLISH.replace("Package: viewer", "Package: other")
    descriptions = read_descriptions(index(tmp_path, "en", twice), "en")
    assert {md5: entry.package for md5, entry in descriptions.items()} == {
        "aa": "viewer",
        "bb": "only-english",
        "cc": "table",
    }


@pytest.mark.parametrize(
    ("text", "language", "n_sentences"),
    [
        ('It works. It is fast! Really? (Yes.) "Good." 2 files.', "en", 6),
        ("See e.g. Foo and Dr. Who, i.e. Bar vs. Baz.", "en", 1),
        ("The U.S. Army uses version 2.0. It likes No. 5. It does.", "en", 3),
        ("No. That is wrong.", "en", 2),
        ("No upper case. but still one", "en", 1),
        ("C’est « bien. » Il dort ! Et « toi » ?", "fr", 3),
        ("Der z. B. hier. Das ist der 3. Oktober.", "de", 2),
        ("これはテストです。次の文。", "ja", 2),
        ("यह वाक्य है। दूसरा वाक्य।", "hi", 2),
        ("", "en", 0),
    ],
)
def test_sentences_end_where_a_reader_sees_it(text: str, language: str, n_sentences: int) -> None:
    sentences = split_sentences(text, language)
    assert len(sentences) == n_sentences
    assert "".join("".join(sentences).split()) == "".join(text.split())


def test_chinese_and_japanese_are_cut_into_letters() -> None:
    assert tokenize("Debianのパッケージです。", "ja") == "debian の パッケージ で す 。"
    assert tokenize("这是Debian包。", "zh_CN") == "这 是 debian 包 。"


def tokenizer_texts(golden: Path, language: str) -> tuple[Path, Path]:
    """Raw text, and what tokenizer.perl and lowercase.perl of Moses made of it."""
    if (small := golden / "tokenizer").is_dir():
        return small / f"raw.{language}", small / f"tokenized.{language}"
    corpus = golden.parent / "data/debian-en-fr"
    return corpus / f"dev.raw.{language}.gz", corpus / f"dev.{language}.gz"


@pytest.mark.parametrize("language", ["en", "fr"])
def test_tokens_are_those_of_the_moses_tokenizer(golden: Path, language: str) -> None:
    raw, tokenized = tokenizer_texts(golden, language)
    if not raw.exists():
        pytest.skip("no corpus that the tokenizer of Moses has seen")
    pairs = list(read_parallel(raw, tokenized))
    rows = [(line.decode(), expected.decode()) for line, expected in pairs]
    # sacremoses parts Chinese letters in every language, tokenizer.perl in none
    rows = [row for row in rows if not UNSPACED_WORD.search(row[0])]
    assert len(rows) >= 0.999 * len(pairs)
    assert [tokenize(line, language) for line, _ in rows] == [expected for _, expected in rows]


PAGE = """<html><body><p>no id</p><h1 id="hd_id1" dir="auto">{}</h1>
<p id="par_id2" class="paragraph">{}</p><p id="par_id3" class="code">Print 1</p>
<p id="par_id{}">only here</p></body></html>"""


def help_deb(folder: Path, language: str, page: str) -> Path:
    tree = folder / language
    path = tree / f"usr/share/libreoffice/help/{language}/text/shared/main.html"
    path.parent.mkdir(parents=True)
    path.write_text(page, encoding="utf-8")
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(
        f"Package: help-{language}\nVersion: 1\nArchitecture: all\n"
        "Maintainer: A <a@example.org>\nDescription: help\n"
    )
    deb = folder / f"{language}.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree, deb],
        check=True,
        capture_output=True,
    )
    return deb


@pytest.mark.skipif(not os.path.exists("/usr/bin/dpkg-deb"), reason="no dpkg-deb here")
def test_help_paragraphs_are_joined_by_page_and_id(tmp_path: Path) -> None:
    keys = (
        '<span class="switchinline"><span hidden="true" id="M" class="MAC">Command</span>'
        '<span hidden="true" id="d">Ctrl</span></span> + F'
    )
    english = PAGE.format("Find &amp; Replace", f"Press {keys} now.<br>Then <b>wait</b>.", 4)
    french = PAGE.format(
        "Rechercher &amp; remplacer", f"Appuyez sur {keys} maintenant. Puis attendez.", 5
    )
    debs = help_deb(tmp_path, "en-US", english), help_deb(tmp_path, "fr", french)
    assert set(read_help(debs[0])) == {
        ("text/shared/main.html", name) for name in ("hd_id1", "par_id2", "par_id4")
    }
    assert list(help_pairs(*debs, "en", "fr")) == [
        TextPair(None, "Find & Replace", "Rechercher & remplacer"),
        TextPair(None, "Press Ctrl + F now.", "Appuyez sur Ctrl + F maintenant."),
        TextPair(None, "Then wait.", "Puis attendez."),
    ]


@pytest.mark.skipif(not os.path.exists("/usr/bin/dpkg-deb"), reason="no dpkg-deb here")
def test_a_broken_package_is_an_error(tmp_path: Path) -> None:
    deb = tmp_path / "broken.deb"
    deb.write_bytes(b"!<arch>\nnothing")
    with pytest.raises(ToolError, match="dpkg-deb"):
        read_help(deb)


@pytest.mark.parametrize(
    ("language", "package"),
    [("en", "en-us"), ("en_GB", "en-gb"), ("fr", "fr"), ("pt_BR", "pt-br"), ("zh_CN", "zh-cn")],
)
def test_help_packages_have_debians_names(language: str, package: str) -> None:
    assert help_package(language) == f"libreoffice-help-{package}"


# A stand-in for apt: `update` writes what the case wants, `indextargets` lists it.
FAKE_APT = """#!/bin/sh
lists="{folder}/apt/state/lists"
case "$*" in
*update*) {update} ;;
*indextargets*) for f in $lists/*Translation-fr; do echo "Translations|fr|$f"; done ;;
*download*) {download} ;;
esac
"""


def fake_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: str = ":", download: str = ":"
) -> DebianArchive:
    folder, programs = tmp_path / "download", tmp_path / "bin"
    programs.mkdir()
    script = FAKE_APT.format(folder=folder, update=update, download=download)
    for name, text in (("apt-get", script), ("apt-config", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return DebianArchive(folder, ["fr", "xx"])


def test_without_apt_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"no apt-config on this machine.*files of your own"):
        DebianArchive(tmp_path / "download", ["en", "fr"]).descriptions("en")


def test_a_language_without_index_is_told_with_those_that_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = r"printf ' 0f 12 main/i18n/Translation-ja.xz\n 0f 9 main/i18n/Translation-de.bz2\n'"
    archive = fake_apt(tmp_path, monkeypatch, f"{release} > $lists/x_InRelease")
    with pytest.raises(UserError, match=r"no package descriptions in 'fr'; it has de, ja$"):
        archive.descriptions("fr")


def test_a_failed_network_is_told_in_apts_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = "echo 'W: Failed to fetch http://example.org/InRelease'"
    with pytest.raises(UserError, match=r"apt fetched no indexes: W: Failed to fetch http://exam"):
        fake_apt(tmp_path, monkeypatch, update).descriptions("fr")


def test_a_failing_apt_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update = "echo 'E: The list of sources could not be read.' >&2; exit 100"
    with pytest.raises(ToolError, match=r"status 100: E: The list of sources could not be read"):
        fake_apt(tmp_path, monkeypatch, update).descriptions("fr")


def test_a_package_is_fetched_once_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = fake_apt(tmp_path, monkeypatch, download="echo deb > help-fr_1_all.deb")
    assert [path.name for path in archive.packages(["help-fr"])] == ["help-fr_1_all.deb"]
    monkeypatch.setenv("PATH", "/nonexistent")
    assert archive.packages(["help-fr"])[0].read_bytes() == b"deb\n"


def test_a_broken_download_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    download = "echo half > help-fr_1_all.deb; echo 'E: no such file' >&2; exit 100"
    archive = fake_apt(tmp_path, monkeypatch, download=download)
    with pytest.raises(ToolError, match="E: no such file"):
        archive.packages(["help-fr"])
    assert [path.name for path in archive.folder.iterdir()] == ["apt"]
