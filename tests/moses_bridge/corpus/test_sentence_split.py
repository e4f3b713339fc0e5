from __future__ import annotations

import pytest

from moses_bridge.corpus.sentence_split import split_sentences


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
