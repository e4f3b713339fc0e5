"""From Moses's tokens to the text that a pretrained model was trained on."""

from __future__ import annotations

import re

from sacremoses import MosesDetokenizer

from rescorer.contract.choices import TextCase

# Languages for which Moses's detokenizer has rules of their own, by the codes of NLLB.
TWO_LETTERS = {
    "ces": "cs",
    "eng": "en",
    "fin": "fi",
    "fra": "fr",
    "gle": "ga",
    "ita": "it",
    "kor": "ko",
}
FIRST_LETTER = re.compile(r"[^\W\d_]")


class PlainText:
    """Makes running text of tokens.

    Args:
        language: code of the language: fr, fra, fra_Latn or fr_XX; "" is read as English.
        detokenize: whether tokens are joined.
        case: what becomes of letters.
    """

    def __init__(self, language: str, detokenize: bool, case: TextCase) -> None:
        code = language.split("_")[0] or "en"
        self._moses = MosesDetokenizer(lang=TWO_LETTERS.get(code, code))
        self._joins = detokenize
        self._case = case

    def of(self, tokens: bytes) -> str:
        """The text of a phrase or sentence; bytes outside UTF-8 become U+FFFD."""
        words = tokens.decode("utf-8", "replace").split()
        if self._joins:
            text = str(self._moses.detokenize(words, unescape=True))
        else:
            text = str(self._moses.unescape_xml(" ".join(words)))
        if self._case == "lower":
            return text.lower()
        if self._case == "sentence":
            return FIRST_LETTER.sub(lambda letter: letter[0].upper(), text, count=1)
        return text
