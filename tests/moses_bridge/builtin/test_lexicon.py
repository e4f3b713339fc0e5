"""Dictionaries and shortlists of a small text, whose links are counted by hand."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import sentencepiece

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.builtin.extraction.aligned_corpus import read_aligned_corpus
from moses_bridge.builtin.extraction.lexical import lexical_table, write_lexical_tables
from moses_bridge.builtin.lexicon import Coverage, write_lexicon
from moses_bridge.builtin.lexicon_choice import LexiconChoice

LINKS = "aligned.grow-diag-final-and.gz"
# "house" is linked to "maison" three times, to "la" once; "old" to "vieille" twice; "the" to "la" three times,
# and once to nothing; "odd\x0cword" to "&apos;" once.
PAIRS = [
    (b"the house", b"la maison", b"0-0 1-1"),
    (b"the old house", b"la vieille maison", b"0-0 1-1 2-2"),
    (b"the house", b"la maison", b"0-0 1-0 1-1"),
    (b"the old", b"vieille", b"1-0"),
    (b"odd\x0cword", b"&apos;", b"0-0"),
]
HEAD = b"word\ttranslation\tp(translation|word)\tp(word|translation)\tlinks"
Texts = tuple[Path, Path]


@pytest.fixture
def texts(tmp_path: Path) -> Texts:
    """The texts, and a model directory with their links and lexical tables."""
    model = tmp_path / "model"
    model.mkdir()
    paths = tmp_path / "train.en", tmp_path / "train.fr"
    for path, lines in zip((*paths, model / LINKS), zip(*PAIRS, strict=True), strict=True):
        write_lines(path, list(lines))
    corpus = read_aligned_corpus(*paths, model / LINKS, tmp_path)
    write_lexical_tables(corpus, lexical_table(corpus), model / "lex.e2f", model / "lex.f2e")
    return paths


def written(
    texts: Texts, choice: LexiconChoice, counts: bool = True, pieces: tuple[Path, ...] = ()
) -> list[bytes]:
    folder = texts[0].parent
    out = folder / "lexicon.gz"
    n_pairs, _ = write_lexicon(folder / "model", out, choice, texts if counts else None, pieces)
    lines = list(read_lines(out))
    assert len(lines) == n_pairs + (choice.form == "tsv")
    return lines


def test_a_table_has_both_probabilities_and_the_links(texts: Texts) -> None:
    assert written(texts, LexiconChoice()) == [
        HEAD,
        b"house\tmaison\t0.7500000\t1.0000000\t3",
        b"house\tla\t0.2500000\t0.2500000\t1",
        b"odd\x0cword\t&apos;\t1.0000000\t1.0000000\t1",
        b"old\tvieille\t1.0000000\t1.0000000\t2",
        b"the\tla\t0.7500000\t0.7500000\t3",
    ]


def test_the_lexical_tables_have_the_same_pairs_without_links(texts: Texts) -> None:
    counted = written(texts, LexiconChoice())
    expected = [HEAD, *(line.rpartition(b"\t")[0] + b"\t" for line in counted[1:])]
    assert written(texts, LexiconChoice(), counts=False) == expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (LexiconChoice(best=1), {(b"house", b"maison"), (b"old", b"vieille"), (b"the", b"la")}),
        (LexiconChoice(min_prob=0.8), {(b"old", b"vieille")}),
        (LexiconChoice(min_back_prob=0.8), {(b"house", b"maison"), (b"old", b"vieille")}),
        (LexiconChoice(min_count=3), {(b"house", b"maison"), (b"the", b"la")}),
        (
            LexiconChoice(best=1, inverse=True),
            {(b"maison", b"house"), (b"vieille", b"old"), (b"la", b"the")},
        ),
        # The limits of the inverse are those of its own words: p(la | house) is 0.25, p(house | la) too.
        (
            LexiconChoice(min_prob=0.7, min_count=3, inverse=True),
            {(b"maison", b"house"), (b"la", b"the")},
        ),
    ],
)
def test_limits(texts: Texts, choice: LexiconChoice, expected: set[tuple[bytes, bytes]]) -> None:
    rows = [tuple(line.split(b"\t")[:2]) for line in written(texts, choice)[1:]]
    assert {row for row in rows if b"&apos;" not in row} == expected
    assert len(set(rows)) == len(rows)


def test_the_shortlist_of_marian_as_its_reader_takes_it(texts: Texts) -> None:
    """Marian reads target, source and probability by C++'s >>: all that is between any blanks."""
    lines = written(texts, LexiconChoice(form="marian"), counts=False)
    assert lines == [
        b"maison house 0.7500000",
        b"la house 0.2500000",
        b"vieille old 1.0000000",
        b"la the 0.7500000",
    ]
    assert len(b"\n".join(lines).split()) == 3 * len(lines)


def test_the_dictionary_of_bicleaner_has_words_alone(texts: Texts) -> None:
    lines = written(texts, LexiconChoice(form="bicleaner", best=1))
    assert lines == [b"maison house 0.7500000", b"vieille old 1.0000000", b"la the 0.7500000"]


@pytest.fixture
def letters(texts: Texts) -> Path:
    """A SentencePiece model whose pieces are letters."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the house old la maison vieille '"] * 3),
        model_writer=model,
        model_type="char",
        vocab_size=24,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path = texts[0].parent / "letters.spm"
    path.write_bytes(model.getvalue())
    return path


def test_pieces_have_the_links_of_their_words(texts: Texts, letters: Path) -> None:
    rows = {
        tuple(line.split(b"\t")[:2]): line.split(b"\t")[2:]
        for line in written(texts, LexiconChoice(), pieces=(letters,))[1:]
    }
    # "u" is in "house" alone, with 4 links: 3 to "maison", 1 to "la"; "n" in "maison" alone.
    assert rows[b"u", b"n"] == [b"0.7500000", b"1.0000000", b"3"]
    assert rows[b"u", b"a"] == [b"1.0000000", b"0.5714286", b"4"]  # of 7 to words with "a"
    # "h" is in "the" and "house": 7 links, of them 4 to "la" and 3 to "maison".
    assert rows[b"h", b"m"] == [b"0.4285714", b"1.0000000", b"3"]
    assert rows[b"h", b"l"] == [
        b"0.5714286",
        b"0.6666667",
        b"4",
    ]  # "l" has the links of "la" and "vieille"
    # The escape is one letter.
    assert (b"w", b"'") in rows and (b"w", b"&") not in rows


def test_coverage_by_hand(texts: Texts, letters: Path) -> None:
    folder = texts[0].parent
    write_lines(folder / "dev.en", [b"the house", b"new", b""])
    write_lines(folder / "dev.fr", [b"la vieille maison", b"la", b"la la"])
    cover = folder / "dev.en", folder / "dev.fr"
    out = folder / "out"

    def coverage(choice: LexiconChoice, counts: bool = True) -> Coverage | None:
        return write_lexicon(folder / "model", out, choice, texts if counts else None, (), cover)[1]

    # The lists are {la, maison}, {} and {}.
    assert coverage(LexiconChoice(), counts=False) == Coverage(3, 6, 2, 2)
    # "la", the word with most links, is in each list.
    assert coverage(LexiconChoice(first=1)) == Coverage(3, 6, 5, 4)
    # The other way round: {the, house, old}, {the, house} and {the, house}.
    assert coverage(LexiconChoice(inverse=True)) == Coverage(3, 3, 2, 7)
    _, found = write_lexicon(folder / "model", out, LexiconChoice(), texts, (letters,), cover)
    assert found is not None and found.n_words > 20


def test_the_first_words_have_most_links_not_most_pairs(tmp_path: Path) -> None:
    contents = {"en": b"aaabc", "fr": b"xxxyy", "dev.en": b"n", "dev.fr": b"x"}
    for name, letters in contents.items():
        write_lines(tmp_path / name, [b"%c" % letter for letter in letters])
    write_lines(tmp_path / "links", [b"0-0"] * 5)
    texts, cover = [(tmp_path / f"{part}en", tmp_path / f"{part}fr") for part in ("", "dev.")]
    given = tmp_path / "links", tmp_path / "out", LexiconChoice(first=1)
    assert write_lexicon(*given, texts, (), cover)[1] == Coverage(1, 1, 1, 1)


@pytest.mark.parametrize("choice", [LexiconChoice(min_count=2), LexiconChoice(first=10)])
def test_links_cannot_be_counted_without_texts(texts: Texts, choice: LexiconChoice) -> None:
    message = r"^--(min-count|first) needs numbers of links, .*: give --texts"
    with pytest.raises(ConfigError, match=message):
        written(texts, choice, counts=False)
    assert not (texts[0].parent / "lexicon.gz").exists()


def test_pieces_need_texts_and_a_sentencepiece_model(texts: Texts) -> None:
    with pytest.raises(ConfigError, match="--sentencepiece needs numbers of links"):
        written(texts, LexiconChoice(), counts=False, pieces=(texts[0],))
    with pytest.raises(ConfigError, match="--sentencepiece is given once for both"):
        written(texts, LexiconChoice(), pieces=(texts[0],) * 3)
    with pytest.raises(InputError, match=r"train.en: found .*, expected a SentencePiece model"):
        written(texts, LexiconChoice(), pieces=(texts[0],))


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("lex.f2e", b"maison house", "lex.f2e:7: found 'maison house', expected two words"),
        ("lex.f2e", b"maison house 1.5", "lex.f2e:7: found 'maison house 1.5'"),
        ("lex.e2f", b"new nouveau 1.0", "lex.e2f: found other pairs of words, expected those of"),
    ],
)
def test_faulty_tables_are_told(texts: Texts, name: str, line: bytes, message: str) -> None:
    path = texts[0].parent / "model" / name
    lines = list(read_lines(path))
    write_lines(path, [*lines[:6], line])
    with pytest.raises(InputError, match=message):
        written(texts, LexiconChoice(), counts=False)


def test_bicleaner_reads_gzip_alone(texts: Texts, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"from a file named \.gz"):
        write_lexicon(tmp_path / "model", tmp_path / "out", LexiconChoice(form="bicleaner"))


def test_links_may_be_a_file_of_their_own(texts: Texts, tmp_path: Path) -> None:
    links = tmp_path / "model" / LINKS
    n_pairs, _ = write_lexicon(links, tmp_path / "out", LexiconChoice(), texts)
    assert n_pairs == 5
    with pytest.raises(
        ConfigError, match=r"diag-final-and.gz: found a file of links: give --texts"
    ):
        write_lexicon(links, tmp_path / "out", LexiconChoice())
