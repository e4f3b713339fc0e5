from __future__ import annotations

import pytest

from moses_bridge.corpus.message_text import message_pairs, without_context


@pytest.mark.parametrize(
    ("left", "right", "plain"),
    [
        ("_Open", "_Ouvrir", ("Open", "Ouvrir")),
        ("&Open file", "Ou&vrir le fichier", ("Open file", "Ouvrir le fichier")),
        ("_Open", "\u958b\u304f(_O)", ("Open", "\u958b\u304f")),
        ("Find & Replace", "Chercher & remplacer", ("Find & Replace", "Chercher & remplacer")),
        ("set my_name", "r\u00e8gle my_name", ("set my_name", "r\u00e8gle my_name")),
        ("The R&D team", "L'\u00e9quipe R&D", ("The R&D team", "L'\u00e9quipe R&D")),
        ("a_b and _c", "a_b et _d", ("a_b and _c", "a_b et _d")),
    ],
)
def test_accelerators_go_and_names_stay(left: str, right: str, plain: tuple[str, str]) -> None:
    assert message_pairs(left, right) == [plain]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("%s: %d of %-10.2f", "X: X of X"),
        ("%1$s in %2$*3$d, %zu, %llx", "X in X, X, X"),
        ("%(name)s has {count} of {0:.2f} in %1 or %L2", "X has X of X in X or X"),
        ("100%% of ${HOME}, 50% done", "100% of X, 50% done"),
        ("<b>Note</b> a &lt; b<br/>next", "Note a < b next"),
        ("--size=<size> if a < b", "--size=<size> if a < b"),
        ("one\nline\tonly", "one line only"),
    ],
)
def test_directives_become_a_word_and_markup_goes(text: str, plain: str) -> None:
    """The directives are examples of gettext's manual, "C Format Strings" and "Python Format Strings"."""
    assert message_pairs(text, text) == [(plain, plain)]


def test_paragraphs_are_split_where_both_sides_have_as_many() -> None:
    assert message_pairs("a\n\nb c", "d\n \ne f") == [("a", "d"), ("b c", "e f")]
    assert message_pairs("a\n\nb c", "d e f") == [("a b c", "d e f")]


def test_hints_to_translators_go() -> None:
    assert without_context("verb|Open", "Ouvrir") == ("Open", "Ouvrir")
    assert without_context("_: a verb\nOpen", "Ouvrir") == ("Open", "Ouvrir")
    assert without_context("Open", "Ouvrir|/|$[x]") == ("Open", "Ouvrir")
    assert without_context("yes|no", "oui|non") == ("yes|no", "oui|non")
    assert without_context("a b|c", "d") == ("a b|c", "d")
