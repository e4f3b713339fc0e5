"""The language of translations: how they are detokenised, and split again as by sacreBLEU's command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.text_lines import say
from moses_bridge.base.textio import COMPRESSIONS

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.ter import TER

TokenizerName = Literal[
    "13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores101", "flores200", "none"
]
OPTION = "--target-language"
# ISO 639-1, then codes of ISO 639-3 for languages without one in common collections of texts.
_CODES = """
    aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
    dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia
    id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo
    lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl
    ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk
    tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
    ast awa bho ceb ckb crh dsb fil fur hne hsb ilo kab kea lij lmo ltg mag mai mni nds nso nus pag
    pap sat scn shn szl tdt tpi vec war yue
"""
CODES = tuple(_CODES.split())
UNSPACED = frozenset({"ja", "yue", "zh"})
# With a letter or mark of these scripts on one side, a blank is the tokenizer's.
UNSPACED_CHARACTERS = "\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003134f"
BLANK = re.compile(f"(?<=[{UNSPACED_CHARACTERS}]) | (?=[{UNSPACED_CHARACTERS}])")
SUBTAG = re.compile("[_@-]")


@dataclass(frozen=True)
class TargetText:
    """How translations are detokenised and scored.

    Attributes:
        language: code of ISO 639-1 (of ISO 639-3 where it has none), perhaps with a region: "fr", "pt_BR".
        tokenize: the tokenizer of BLEU; None for sacreBLEU's choice by language.

    Raises:
        ConfigError: the code is unknown.
    """

    language: str
    tokenize: TokenizerName | None = None

    def __post_init__(self) -> None:
        if not _is_code(self.language):
            near = get_close_matches(self.code, CODES, n=3, cutoff=0.4) or ["fr", "de", "pt_BR"]
            raise ConfigError(
                f"{OPTION}: found {self.language!r}, expected a code of ISO 639-1; "
                f"the nearest: {', '.join(near)}"
            )

    @property
    def code(self) -> str:
        """The language without region or script."""
        return SUBTAG.split(self.language)[0]

    @cached_property
    def bleu(self) -> BLEU:
        """SacreBLEU's BLEU with the tokenizer; ConfigError if a chosen one cannot be loaded.

        Japanese and Korean are by characters without their packages.
        """
        from sacrebleu.metrics.bleu import BLEU

        if self.tokenize is None and self.code == "yue":
            return BLEU(tokenize="zh")  # sacreBLEU knows this script under one language alone
        try:
            return BLEU(tokenize=self.tokenize, trg_lang="" if self.tokenize else self.code)
        except (RuntimeError, ImportError, OSError) as error:
            if self.tokenize is not None:
                what = f"the tokenizer {self.tokenize} of sacreBLEU cannot be loaded"
                raise ConfigError(f"--tokenize: {what}: {' '.join(str(error).split())}") from error
            say(
                f"note: BLEU of {self.language} is counted by characters (tok:char); for the tokenizer of "
                f"sacreBLEU's command install sacrebleu[{self.code}]"
            )
            return BLEU(tokenize="char")

    @cached_property
    def ter(self) -> TER:
        """SacreBLEU's TER, by characters in languages that separate no words by blanks."""
        from sacrebleu.metrics.ter import TER

        by_characters = self.code in UNSPACED
        return TER(normalized=by_characters, asian_support=by_characters)

    def detokenise(self, words: Sequence[str]) -> str:
        """The text of words as it reads, without Moses's escapes."""
        text: str = self._detokenizer.detokenize(words, unescape=True)
        return BLANK.sub("", text) if self.code in UNSPACED else text

    @cached_property
    def _detokenizer(self):  # type: ignore[no-untyped-def]  # sacremoses has no types
        from sacremoses import MosesDetokenizer

        return MosesDetokenizer(lang=self.code)


def target_text(
    references: Sequence[Path], language: str = "", tokenize: TokenizerName | None = None
) -> TargetText:
    """How translations are scored; "" is the language of the references' suffix, as in test.fr or test.fr.gz.

    Raises:
        ConfigError: no suffix or suffixes of two languages are codes, or as for `TargetText`.
    """
    if language:
        return TargetText(language, tokenize)
    suffixes = [_last_suffix(path) for path in references]
    named = dict.fromkeys(suffix for suffix in suffixes if _is_code(suffix))
    if len(named) != 1:
        found = f"the languages {' and '.join(named)}" if named else "no language"
        names = ", ".join(path.name for path in references)
        raise ConfigError(
            f"found {found} in the names of the references ({names}), expected one, as in test.fr or "
            f"test.fr.gz. Give its code of ISO 639-1 with {OPTION}, such as fr, de or pt_BR"
        )
    return TargetText(next(iter(named)), tokenize)


def _is_code(language: str) -> bool:
    return SUBTAG.split(language)[0] in CODES


def _last_suffix(path: Path) -> str:
    while path.suffix in COMPRESSIONS:
        path = path.with_suffix("")
    return path.suffix.removeprefix(".")
