"""Options shared by commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from moses_bridge.base.options import InputFile, option

REFERENCE_HELP = "Tokenised reference; may be given several times."
LANGUAGE_HELP = (
    "Code of the target language, as fr or pt_BR. [default: from the reference's suffix]"
)
TOKENIZE_HELP = "Tokenizer of sacreBLEU for BLEU of detokenised text. [default: by language]"
References = Annotated[tuple[InputFile, ...], option("--reference"), REFERENCE_HELP]


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """A text to translate, with its references.

    Attributes:
        source: Tokenised source text.
        references: Tokenised reference; may be given several times.
    """

    source: InputFile
    references: References
