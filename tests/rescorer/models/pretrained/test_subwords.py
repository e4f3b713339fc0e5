"""Moses's tokens as running text; the sentences are those of Moses's detokenizer, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescorer.contract.choices import TextCase
from rescorer.models.pretrained.settings import PretrainedSettings
from rescorer.models.pretrained.subwords import PlainText, Subwords


@pytest.mark.parametrize(
    ("language", "detokenize", "case", "tokens", "expected"),
    [
        ("en", True, "as-is", "it &apos;s a &quot; test &quot; .", 'it\'s a "test".'),
        ("fra_Latn", True, "as-is", "l&apos; heure &amp; l&apos; an", "l'heure & l'an"),
        ("", True, "sentence", "« the end »", "« The end »"),
        ("en", False, "as-is", "a &#124; b  , c &#91; 1 &#93;", "a | b , c [ 1 ]"),
        ("fr", False, "lower", "Été ÎLE", "été île"),
        ("fr", False, "sentence", "", ""),
        ("en", True, "as-is", "“ See ! ” she said . “ John ’s ”", "“See!” she said. “John’s”"),
        ("zho_Hans", True, "as-is", "你 好 ， 世界 。", "你好，世界。"),
    ],
)
def test_text_of_tokens(
    language: str, detokenize: bool, case: TextCase, tokens: str, expected: str
) -> None:
    assert PlainText(language, detokenize, case).of(tokens.encode()) == expected


def test_each_side_is_joined_by_the_rules_of_its_language(marian: Path) -> None:
    settings = PretrainedSettings(source_language="fra", target_language="eng")
    subwords, words = Subwords(marian, settings), b"l' eau , non ?"
    assert subwords._source_text.of(words) == "l'eau, non ?"
    assert subwords._target_text.of(words) == "l' eau, non?"


def test_bytes_outside_utf8_are_replaced() -> None:
    assert PlainText("en", False, "as-is").of(b"caf\xe9") == "caf\ufffd"
