"""How text reaches a pretrained model."""

from __future__ import annotations

from dataclasses import dataclass

from rescorer.contract.choices import TextCase


@dataclass(frozen=True)
class PretrainedSettings:
    """Settings of pretrained models.

    Attributes:
        source_language: code of the source language, as the tokenizer of the model writes it (eng_Latn, en); ""
            for the one the tokenizer names.
        target_language: the same for the target.
        detokenize: join Moses's tokens into running text; otherwise blanks stay between them. Moses's escapes
            are undone in either case.
        case: "as-is" leaves letters alone, "sentence" raises the first one of each text, "lower" lowers all.
        source_prefix: text in front of each source, such as the task of a T5 model.
        download: take a model that is no directory from the Hugging Face hub.
    """

    source_language: str = ""
    target_language: str = ""
    detokenize: bool = True
    case: TextCase = "as-is"
    source_prefix: str = ""
    download: bool = False
