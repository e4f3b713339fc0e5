from __future__ import annotations

import gzip
import shutil
from collections import Counter
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.corpus.manual_pages import manual_packages, page_pairs
from moses_bridge.corpus.text_pair import TextPair
from tests.moses_bridge.corpus.packages import make_deb

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb here")
ENGLISH = """.SH NAME
ls \\- list
.SH OPTIONS
.TP
.B \\-a
List all. Sort them.
.SH BUGS
None.
"""
FRENCH = """.SH NOM
ls \\- lister
.SH OPTIONS
.TP
\\fB\\-a\\fP
Tout lister. Trier.
.SH BOGUES
.PP
Aucun. Ou peu.
.SH TRADUCTION
Par nous.
"""
PAIRS = [
    TextPair("man1/ls.1", "NAME", "NOM"),
    TextPair("man1/ls.1", "ls - list", "ls - lister"),
    TextPair("man1/ls.1", "OPTIONS", "OPTIONS"),
    TextPair("man1/ls.1", "-a", "-a"),
    TextPair("man1/ls.1", "List all.", "Tout lister."),
    TextPair("man1/ls.1", "Sort them.", "Trier."),
    TextPair("man1/ls.1", "BUGS", "BOGUES"),
    TextPair("man1/ls.1", "None.", "Aucun. Ou peu."),
]


def page(text: str) -> bytes:
    return gzip.compress(text.encode())


def packages(folder: Path, english: str, french: str) -> list[Path]:
    own = {"usr/share/man/man1/ls.1.gz": page(english), "usr/share/doc/ls/x": b"no page"}
    translated = {
        "usr/share/man/fr/man1/ls.1.gz": page(french),
        "usr/share/man/fr/man1/other.1": b".SH NOM\n",
        "usr/share/man/de/man1/ls.1.gz": page(french),
    }
    return [make_deb(folder, "coreutils", own), make_deb(folder, "manpages-fr", translated)]


@needs_dpkg
def test_paragraphs_of_a_page_are_joined_in_order_of_its_macros(tmp_path: Path) -> None:
    debs = packages(tmp_path, ENGLISH, FRENCH)
    dropped: Counter[str] = Counter()
    assert list(page_pairs(debs, "en", "fr", dropped)) == PAIRS
    assert not +dropped
    turned = [TextPair(pair.group, pair.target, pair.source) for pair in PAIRS]
    assert list(page_pairs(debs, "fr", "en", dropped)) == turned


@needs_dpkg
def test_sections_of_another_shape_and_unknown_markup_are_left_out(tmp_path: Path) -> None:
    french = FRENCH.replace("Aucun. ", "Aucun.\n.PP\n").replace("lister\n", "lister\\(zz\n")
    dropped: Counter[str] = Counter()
    found = list(page_pairs(packages(tmp_path, ENGLISH, french), "en", "fr", dropped))
    assert found == [PAIRS[0], *PAIRS[2:6]]
    assert dropped == {"not aligned": 2, "markup": 1}


@needs_dpkg
def test_pages_of_different_versions_are_left_out(tmp_path: Path) -> None:
    """Two sections of three differ, and two sections more are not those of translators."""
    one_more = FRENCH.replace(".SH OPTIONS", ".SH SYNOPSIS\n.SH OPTIONS")
    other = FRENCH.replace("Aucun. ", "Aucun.\n.PP\n").replace("Tout", ".PP\nTout\n.PP\n")
    for number, french in enumerate((one_more, other)):
        folder = tmp_path / str(number)
        assert list(page_pairs(packages(folder, ENGLISH, french), "en", "fr", Counter())) == []


@needs_dpkg
def test_a_page_that_is_not_gzip_is_named(tmp_path: Path) -> None:
    deb = make_deb(tmp_path, "ls", {"usr/share/man/man1/ls.1.gz": b"no gzip"})
    with pytest.raises(InputError, match=r"ls\.deb: found usr/share/man/man1/ls\.1\.gz .*gzip"):
        list(page_pairs([deb], "en", "fr", Counter()))


def test_packages_are_those_that_the_archive_offers() -> None:
    offered = {"coreutils", "manpages", "manpages-fr", "manpages-pt-br-dev", "gimp"}
    assert manual_packages(["en", "fr"], offered) == ["manpages", "coreutils", "manpages-fr"]
    assert manual_packages(["pt_BR", "en"], offered)[-1] == "manpages-pt-br-dev"
