from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.text_lines import read_parallel
from moses_bridge.formats.tokenization import UNSPACED_WORD, detokenize, split_sentences, tokenize


def test_chinese_and_japanese_are_cut_into_letters() -> None:
    assert (
        tokenize("Debianのパッケージです。", "ja", "characters") == "Debian の パッケージ で す 。"
    )
    assert tokenize("这是Debian包。", "zh_CN", "characters") == "这 是 Debian 包 。"


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
    assert [tokenize(line, language).lower() for line, _ in rows] == [
        expected for _, expected in rows
    ]


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


def test_words_have_no_escapes_to_take_off() -> None:
    assert detokenize(["&amp;", "in", "&lt;", "b", ",", "c"], "en") == "&amp; in &lt; b, c"
