"""The target language and the tokenizer of BLEU, as sacreBLEU's own command chooses it."""

from __future__ import annotations

from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from moses_bridge.base.errors import ConfigError
from tuning.compare.target_text import CODES, TargetText, TokenizerName, target_text


@pytest.mark.parametrize(
    ("names", "language"),
    [
        (["test.fr"], "fr"),
        (["corpus.de/test.raw.pt_BR.gz"], "pt_BR"),
        (["test.zh-TW.zst", "test.zh-TW", "second"], "zh-TW"),
    ],
)
def test_the_language_is_that_of_the_suffix(names: list[str], language: str) -> None:
    assert target_text([*map(Path, names)]) == TargetText(language)
    assert target_text([*map(Path, names)], "de", "intl") == TargetText("de", "intl")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["reference.txt"], r"no language in the names of the references \(reference.txt\)"),
        (["fr"], "no language"),
        (["test.fr.tok"], "no language"),
        (["test.en", "test.fr"], r"the languages en and fr in .* \(test.en, test.fr\)"),
    ],
)
def test_a_language_that_no_suffix_names_is_required(names: list[str], found: str) -> None:
    message = f"found {found}.*Give its code of ISO 639-1 with --target-language, such as fr"
    with pytest.raises(ConfigError, match=message):
        target_text([*map(Path, names)])


@pytest.mark.parametrize(
    ("code", "nearest"),
    [("fra", "fr, "), ("xx", "xh"), ("french", "fr, "), ("FR", "fr, de, pt_BR")],
)
def test_an_unknown_code_is_refused_with_the_nearest(code: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"found '{code}', expected .*; the nearest: .*{nearest}"):
        target_text([Path("test.fr")], code)


@pytest.mark.parametrize("code", ["zh", "ja", "ko", "fr", "th"])
def test_the_tokenizer_is_that_of_sacrebleus_command(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        expected = BLEU(trg_lang=code).tokenizer_signature
    except RuntimeError:  # a package of it is missing
        expected = "char"
    assert TargetText(code).bleu.tokenizer_signature == expected
    said = capsys.readouterr().err
    assert ("is counted by characters (tok:char)" in said) == (expected == "char")
    assert code in CODES


def test_cantonese_is_split_as_the_chinese_that_it_is_written_in() -> None:
    assert TargetText("yue", "char").bleu.tokenizer_signature == "char"  # as chosen
    for language in ("yue", "zh_Hant"):
        assert TargetText(language).bleu.tokenizer_signature == "zh"
        assert TargetText(language).ter.tokenizer("係呢度") == "係 呢 度"


def test_a_chosen_tokenizer_that_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ko_mecab.MeCab", None)
    message = (
        r"--tokenize: the tokenizer ko-mecab .* cannot be loaded: .* pip install sacrebleu\[ko\]"
    )
    with pytest.raises(ConfigError, match=message):
        TargetText("ko", "ko-mecab").bleu.corpus_score(["x"], [["x"]])


@pytest.mark.parametrize(
    ("language", "words", "text"),
    [
        ("zh", "我 用 Microsoft Word 写 “ 信 ” ， 好 吗 ？", "我用Microsoft Word写“信”，好吗？"),
        ("zh_TW", "我 用 Word 。", "我用Word。"),
        ("fr_CA", "l&apos; eau", "l'eau"),
        ("ja", "これ は GPU 3 枚 です 。", "これはGPU 3枚です。"),
        ("ko", "나는 학교에 간다 .", "나는 학교에 간다."),
        ("fr", "l&apos; eau , non ?", "l'eau, non ?"),
    ],
)
def test_detokenised_text(language: str, words: str, text: str) -> None:
    assert TargetText(language).detokenise(words.split()) == text


def test_tokenizers_are_sacrebleus() -> None:
    assert {*TokenizerName.__args__} <= {*BLEU.TOKENIZERS}  # type: ignore[attr-defined]
