"""Faults of texts that change a number and stop nothing: each is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.formats.text_notes import say_notes, text_notes


def write(folder: Path, name: str, *lines: str) -> Path:
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / name


def test_sound_texts_have_no_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path, "en", "it &apos;s here .", "", "x")
    reference = write(tmp_path, "fr", "c&apos; est ici .", "", "x")
    output = write(tmp_path, "out", "c&apos; est là .", "", "")
    assert text_notes(source, [reference], [output]) == []
    assert text_notes(source, [reference, reference], [output, output]) == []
    say_notes(source, [reference], [output])
    assert capsys.readouterr().err == ""


def test_blanks_that_separate_no_words(tmp_path: Path) -> None:
    one = write(tmp_path, "one", "a b", "c\u00a0? d\u00a0! e\u202f;", "\u200bf")
    other = write(tmp_path, "other", "a\tb", "c", "f")
    (note,) = text_notes(None, [other], [one])
    assert note == (
        f"{other}:1: a blank that separates no words; in the text U+0009 1 times (1 more files likewise)"
    )
    (note,) = text_notes(one, [])
    assert note.startswith(
        f"{one}:2: a blank that separates no words; in the text U+00A0 2 times, "
    )


def test_lines_without_a_reference(tmp_path: Path) -> None:
    source = write(tmp_path, "en", "a", "b", "")
    first = write(tmp_path, "fr0", "a", "", "")
    second = write(tmp_path, "fr1", "", "", "")
    none = (
        "2: the first of 1 of 3 sentences that have no reference: all words of their translations "
        "count as wrong"
    )
    assert text_notes(source, [first]) == [f"{first}:{none}"]
    empty, without = text_notes(source, [first, second])
    assert without == f"{first}, {second}:{none}"
    assert empty == (
        f"{second}:1: an empty reference; 1 of 3 sentences have one reference less for this"
    )
    output = write(tmp_path, "out", "a", "", "")
    assert text_notes(None, [first], [output]) == []
    longer = write(tmp_path, "longer", "a", "b", "")
    assert text_notes(None, [first], [output, longer]) == [f"{first}:{none}"]
    assert text_notes(None, [write(tmp_path, "full", "a", "b"), write(tmp_path, "cut", "a")]) == []
    blank = write(tmp_path, "fr2", "  ", "b", "")  # no words either
    (note,) = text_notes(source, [first, blank])
    assert note.startswith(
        f"{first}:2: an empty reference; 1 of 3 sentences have one reference less"
    )
    assert note.endswith(" (1 more files likewise)")


def test_escapes_and_capitals_on_one_side(tmp_path: Path) -> None:
    escaped = write(tmp_path, "escaped", "it &apos;s a &quot; b &quot;")
    plain = write(tmp_path, "plain", 'it \'s a " b "')
    (note,) = text_notes(None, [plain], [escaped])
    assert note == (
        f"{escaped} has 3 of 3 characters such as ' escaped (&apos;), {plain} 0 of 3: "
        "they are other words to BLEU"
    )
    mixed = write(tmp_path, "mixed", "it &apos;s a &quot; b 'c'")
    assert text_notes(None, [escaped], [mixed]) != [] == text_notes(None, [mixed], [mixed])
    third = write(tmp_path, "third", 'it &apos;s a &quot; b " c')
    assert text_notes(None, [escaped], [third]) == []  # an odd one may be a word that was copied
    cased = write(tmp_path, "cased", "It &apos;s a &quot; B &quot;")
    (note,) = text_notes(None, [escaped], [cased])
    assert note == (
        f"{cased} has capitals in 2 of 6 words, {escaped} in 0 of 6: they are other words to BLEU"
    )
    assert text_notes(None, [cased], [cased]) == []


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none: found No such file"):
        text_notes(tmp_path / "none", [])
