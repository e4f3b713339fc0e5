"""Plain text to words and back: case, placeholders, terms, and words set as in the source."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.formats.plain_text import (
    PlainText,
    TextForm,
    casing_path,
    copy_form,
    in_case,
    learn_casing,
    read_form,
    read_glossary,
)

CASED = ["le nom de Debian", "un nom , de GNOME", "Le GNOME et le nom"]


@pytest.fixture
def lower(tmp_path: Path) -> PlainText:
    learn_casing(CASED, casing_path(tmp_path, "fr"))
    return PlainText(TextForm("en", "fr"), tmp_path)


def copy(plain: PlainText, text: str) -> str:
    """A text decoded by copying each word."""
    line = plain.line(text)
    return plain.text(line, line.words, [(i, i) for i in range(len(line.words))])


def test_words_are_those_of_the_corpus_and_placeholders_are_whole(lower: PlainText) -> None:
    line = lower.line("The %s of {Name} at http://A.org/b?c=1&d, 10:30 & %(n)d/2 in /etc/A.b.")
    assert line.words == [
        *("the", "%s", "of", "{name}", "at", "http://a.org/b?c=1&amp;d", ",", "10:30", "&amp;"),
        *("%(n)d", "/", "2", "in", "/etc/a.b", "."),
    ]


@pytest.mark.parametrize(
    ("source", "target", "words", "text"),
    [("zh", "en", "这 是 包 .", "x ."), ("en", "zh", "这是 包.", "x.")],
)
def test_text_is_cut_as_the_source_is_and_joined_as_the_target(
    source: str, target: str, words: str, text: str, tmp_path: Path
) -> None:
    """Chinese by letters; English at blanks alone, which leaves a full stop where it is."""
    form = TextForm(source, target, "keep", {"zh": "characters", "en": "none"})
    plain = PlainText(form, tmp_path)
    line = plain.line("这是 包.")
    assert line.words == words.split()
    assert plain.text(line, ["x", "."], []) == text


def test_a_blank_written_as_an_entity_is_a_blank(lower: PlainText) -> None:
    """As a word it would be put anywhere among the words of the translation."""
    assert lower.line("10&nbsp;MB of&#160;it").words == ["10", "mb", "of", "it"]
    assert copy(lower, "10&nbsp;MB") == "10 MB"


@pytest.mark.parametrize(
    "text",
    [
        "The “quoted” file's “end”.",
        "See <b>/etc/apt/sources.list</b> or <file> at 10:30, $HOME/x and a@b.org (%s, %d).",
        "%S %.*f {Name} &lt; AT&T, 1,000.5 C++/Java <br/>",
        "“A” and “B” said: it’s 50% off!",
    ],
)
def test_what_is_copied_is_written_as_it_was(tmp_path: Path, text: str) -> None:
    english = PlainText(TextForm("en", "en", "keep"), tmp_path)
    assert copy(english, text) == text


def test_no_letter_of_what_is_copied_is_lost(tmp_path: Path) -> None:
    plain = PlainText(TextForm("en", "en", "keep"), tmp_path)
    letters = [*"ab Z1 .,:;!?'\"“”‘’«»()[]{}<>/|&%$#@-_\té漢か😀=*+~`^\\İ", "<b>", "</b>", "<br/>"]
    letters += ["%s", "{x}", "&lt;", "http://a.b/c", "...", "__term0__", "\u200b", "\u00a0"]
    rng = random.Random(1)
    for _ in range(1000):
        text = "".join(rng.choices(letters, k=rng.randint(0, 14)))
        assert sorted("".join(copy(plain, text).split())) == sorted("".join(text.split()))


def test_marks_behind_what_is_copied_are_set_as_the_target_sets_them(tmp_path: Path) -> None:
    """French has a blank before a colon and an exclamation mark, English has none."""
    plain = PlainText(TextForm("en", "fr", "keep"), tmp_path)
    assert copy(plain, "see a/b: c (d/e)!") == "see a/b : c (d/e) !"


def test_names_and_beginnings_have_capitals(lower: PlainText) -> None:
    links = [(0, 0), (1, 1), (2, 2)]
    line = lower.line("The name Foo: x. y")
    assert lower.text(line, ("le", "nom", "gnome", ".", "un"), links) == "Le nom GNOME. Un"
    assert lower.text(lower.line("the name"), ("le", "debian"), links) == "le Debian"
    # Unknown to the model of case, and copied: as in the source.
    assert lower.text(line, ("le", "nom", "foo"), links) == "Le nom Foo"
    # A copied word that began the source: its capital may be due to that.
    assert lower.text(lower.line("Nom x"), ("un", "nom"), [(0, 1)]) == "Un nom"
    # A placeholder at the beginning stays as it is.
    assert lower.text(lower.line("%s Is"), ("%s", "est"), [(0, 0)]) == "%s est"


def test_true_case_lowers_the_beginning_alone(tmp_path: Path) -> None:
    model = learn_casing(
        ["a The name", "the name Debian is the name of the day"], tmp_path / "model"
    )
    assert in_case("The name Debian", "true", model) == "the name Debian"
    assert in_case("Debian The name", "true", model) == "Debian The name"
    assert in_case("Debian The", "lower", model) == "debian the"
    assert in_case("Debian The", "keep", model) == "Debian The"


def test_terms_of_a_glossary(tmp_path: Path) -> None:
    path = tmp_path / "terms"
    path.write_text("File System\tsystème de Fichiers\nfile\tFICHIER\nC++\tC plus\n")
    plain = PlainText(TextForm("en", "fr"), tmp_path, glossary=read_glossary(path))
    line = plain.line('Each <b id="file">file system</b> of a FILE in C++, profile')
    assert line.words == [
        "each",
        "__term0__",
        "of",
        "a",
        "__term1__",
        "in",
        "__term2__",
        ",",
        "profile",
    ]
    words = ("chaque", "__term0__", "d&apos;", "un", "__term1__", "en", "__term2__")
    text = plain.text(line, words, [(i, i) for i in range(7)])
    assert text == 'Chaque <b id="file">système de Fichiers</b> d\'un FICHIER en C plus'


def test_words_that_look_like_hidden_terms_stay(tmp_path: Path) -> None:
    path = tmp_path / "terms"
    path.write_text("cafe\u0301\tcoffee\n")
    plain = PlainText(TextForm("en", "fr", "keep"), tmp_path, glossary=read_glossary(path))
    text = "__term0__ café __term7__ __term007__"
    assert copy(plain, text) == "__term0__ coffee __term7__ __term007__"


def test_characters_that_the_tokenizer_leaves_out_shift_no_word(lower: PlainText) -> None:
    assert lower.line("\ufeffThe").words == ["the"]
    assert copy(lower, "a\x00b \x1b[ http://a.org/B") == "ab [http://a.org/B"


@pytest.mark.parametrize("line", ["file", "file\t", "\tfichier", "a\tb\tc"])
def test_a_malformed_glossary(tmp_path: Path, line: str) -> None:
    path = tmp_path / "terms"
    path.write_text(f"good\tbon\n{line}\n")
    with pytest.raises(InputError, match=r"terms:2: .*expected a term, a tab, and its translation"):
        read_glossary(path)


def test_a_term_has_one_translation(tmp_path: Path) -> None:
    path = tmp_path / "terms"
    path.write_text("file\tfichier\nFile\tfichier\n")
    assert read_glossary(path) == {"file": "fichier"}
    path.write_text("file\tfichier\nFile\tclasseur\n")
    with pytest.raises(InputError, match=r"terms:2: .*expected 'fichier' again, or no line of 'F"):
        read_glossary(path)


def test_the_form_of_the_corpus_is_beside_the_model(tmp_path: Path) -> None:
    corpus, model = tmp_path / "corpus", tmp_path / "model"
    for folder in (corpus, model):
        folder.mkdir()
    with pytest.raises(InputError, match=r"no corpus.json.*--corpus"):
        read_form([model], model / "moses.ini")
    (corpus / "corpus.json").write_text(json.dumps({"source": "en", "target": "fr", "pairs": {}}))
    casing_path(corpus, "fr").write_text("a (1/1)\n")
    copy_form(corpus, model, ("en", "fr"))
    assert read_form([tmp_path, model], model / "moses.ini") == (TextForm("en", "fr"), model)
    assert casing_path(model, "fr").exists() and not casing_path(model, "en").exists()


def test_a_malformed_model_of_case(tmp_path: Path) -> None:
    casing_path(tmp_path, "fr").write_text("a (1/1) A\n")
    plain = PlainText(TextForm("en", "fr"), tmp_path)
    with pytest.raises(InputError, match=r"truecase.fr: .*train-truecaser.perl"):
        plain.text(plain.line("a"), ("a",), ())
