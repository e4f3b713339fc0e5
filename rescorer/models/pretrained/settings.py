"""How text reaches a pretrained model."""

from __future__ import annotations

from dataclasses import dataclass

from rescorer.contract.choices import TextCase


@dataclass(frozen=True)
class PretrainedSettings:
    """Settings of pretrained models.

    Attributes:
        source_language: Code of the source language, as the tokenizer of a pretrained model writes it:
            eng_Latn, en. Without it, the one the tokenizer names is used.
        target_language: Code of the target language, as the tokenizer of a pretrained model writes it.
        detokenize: Join Moses's tokens into running text for a pretrained model. Moses's escapes are undone in
            either case.
        case: Letters given to a pretrained model: sentence raises the first one of each text, lower lowers
            all.
        source_prefix: Text put before each source for a pretrained model, such as the task of a T5 model.
        download: Take a pretrained model that is no directory here from the Hugging Face hub.
    """

    source_language: str = ""
    target_language: str = ""
    detokenize: bool = True
    case: TextCase = "as-is"
    source_prefix: str = ""
    download: bool = False
