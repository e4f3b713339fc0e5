from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

from moses_bridge.corpus.package_descriptions import description_pairs, read_descriptions
from moses_bridge.corpus.text_pair import TextPair

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
 of it
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
        TextPair("viewer", "rotation of it", "rotation."),
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


def test_packages_of_one_source_are_one_group(tmp_path: Path) -> None:
    indexes = index(tmp_path, "en", ENGLISH), index(tmp_path, "fr", FRENCH)
    groups = {
        pair.source: pair.group
        for pair in description_pairs(*indexes, "en", "fr", Counter(), {"viewer": "graphics"})
    }
    assert (groups["a table"], groups["image viewer"]) == ("table", "graphics")
