from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.corpus.tokenization import UNSPACED_WORD, tokenize
from moses_bridge.textio import read_parallel


def test_chinese_and_japanese_are_cut_into_letters() -> None:
    assert tokenize("Debianのパッケージです。", "ja") == "debian の パッケージ で す 。"
    assert tokenize("这是Debian包。", "zh_CN") == "这 是 debian 包 。"


@pytest.mark.parametrize("language", ["en", "fr"])
def test_tokens_are_those_of_the_moses_tokenizer(golden: Path, language: str) -> None:
    prefix = golden.parent / "data/debian-en-fr/dev"
    if not prefix.with_name(f"dev.{language}.gz").exists():
        pytest.skip("no corpus that the tokenizer of Moses has seen")
    rows = [
        (raw.decode(), expected.decode())
        for raw, expected in read_parallel(f"{prefix}.raw.{language}.gz", f"{prefix}.{language}.gz")
    ]
    # sacremoses parts Chinese letters in every language, tokenizer.perl in none
    rows = [row for row in rows if not UNSPACED_WORD.search(row[0])]
    assert len(rows) == 1499
    assert [tokenize(raw, language) for raw, _ in rows] == [expected for _, expected in rows]
