from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.textio import read_parallel
from moses_bridge.corpus.tokenization import UNSPACED_WORD, tokenize


def test_chinese_and_japanese_are_cut_into_letters() -> None:
    assert tokenize("Debianのパッケージです。", "ja") == "debian の パッケージ で す 。"
    assert tokenize("这是Debian包。", "zh_CN") == "这 是 debian 包 。"


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
    assert [tokenize(line, language) for line, _ in rows] == [expected for _, expected in rows]
