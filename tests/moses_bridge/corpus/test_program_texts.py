from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.corpus.program_texts import program_packages, program_pairs
from moses_bridge.corpus.text_pair import TextPair
from tests.moses_bridge.corpus.packages import make_deb
from tests.moses_bridge.corpus.test_gettext_catalogue import compiled

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb here")
HEADER = {"": "Content-Type: text/plain; charset=UTF-8\n"}
FRENCH = {
    "_Open": "_Ouvrir",
    "menu\4Close": "Fermer",
    "%d file\0%d files": "%d fichier\0%d fichiers",
    "translator-credits": "Nous",
}
GERMAN = {"_Open": "\u00d6_ffnen", "menu\4Close": "Schlie\u00dfen", "Close": "Zu"}


def catalogue(language: str, name: str) -> str:
    return f"usr/share/locale/{language}/LC_MESSAGES/{name}.mo"


@pytest.fixture
def debs(tmp_path: Path) -> list[Path]:
    files = {
        catalogue("fr", "gedit"): compiled(HEADER | FRENCH),
        catalogue("de", "gedit"): compiled(HEADER | GERMAN),
        catalogue("fr", "alone"): compiled(HEADER | {"Only here.": "Ici seul."}),
    }
    return [make_deb(tmp_path, "gedit-common", files)]


@needs_dpkg
def test_messages_are_the_english_side(debs: list[Path]) -> None:
    expected = [
        TextPair("alone", "Only here.", "Ici seul."),
        TextPair("gedit", "X file", "X fichier"),
        TextPair("gedit", "X files", "X fichiers"),
        TextPair("gedit", "Open", "Ouvrir"),
        TextPair("gedit", "Close", "Fermer"),
    ]
    assert list(program_pairs(debs, "en", "fr", Counter())) == expected
    turned = [TextPair(pair.group, pair.target, pair.source) for pair in expected]
    assert list(program_pairs(debs, "fr", "en", Counter())) == turned


@needs_dpkg
def test_two_translations_are_joined_by_context_and_message(debs: list[Path]) -> None:
    assert list(program_pairs(debs, "de", "fr", Counter())) == [
        TextPair("gedit", "\u00d6ffnen", "Ouvrir"),
        TextPair("gedit", "Schlie\u00dfen", "Fermer"),
    ]


@needs_dpkg
def test_of_a_large_catalogue_some_messages_are_drawn(
    debs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moses_bridge.corpus.program_texts.MOST_MESSAGES", 3)
    dropped: Counter[str] = Counter()
    found = list(program_pairs(debs, "en", "fr", dropped))
    assert Counter(pair.group for pair in found) == {"alone": 1, "gedit": 3}
    assert dropped == {"over 3 of a catalogue": 1}


@needs_dpkg
def test_a_malformed_catalogue_is_named_with_its_package(tmp_path: Path) -> None:
    deb = make_deb(tmp_path, "x", {catalogue("fr", "bad"): b"no catalogue"})
    with pytest.raises(InputError, match=r"x\.deb/usr/.*/bad\.mo: .* expected a compiled cat"):
        list(program_pairs([deb], "en", "fr", Counter()))


def test_packages_are_those_that_the_archive_offers() -> None:
    assert program_packages({"zim", "gedit-common", "unknown"}) == ["gedit-common", "zim"]
