"""Names of pretrained models, such as hf:DIRECTORY, and how text reaches them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

from moses_bridge.base.errors import Extra
from rescorer.contract.choices import PairReading, TextCase


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
        reading: How a pretrained model reads a pair: with reversed-sides it gives p(source | target), and the
            languages and the prefix are those of its own sides.
        source_prefix: Text put before each source for a pretrained model, such as the task of a T5 model.
        download: Take a pretrained model that is no directory here from the Hugging Face hub.
    """

    source_language: str = ""
    target_language: str = ""
    detokenize: bool = True
    case: TextCase = "as-is"
    reading: PairReading = "as-is"
    source_prefix: str = ""
    download: bool = False


class Kind(NamedTuple):
    """A kind of pretrained models: the package running it, its extra, whether it reads sources."""

    package: str
    extra: Extra
    has_source: bool


KINDS: dict[str, Kind] = {
    "hf": Kind("transformers", "hf", True),
    "hf-lm": Kind("transformers", "hf", False),
    "hf-mlm": Kind("transformers", "hf", False),
    "ct2": Kind("ctranslate2", "ct2", True),
    "ct2-lm": Kind("ctranslate2", "ct2", False),
}


class PretrainedName(NamedTuple):
    """KIND:PLACE as written by a user: a key of `KINDS`, and a directory or a name of the hub."""

    kind: str
    place: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.place}"


def parse_name(path: str | os.PathLike[str]) -> PretrainedName | None:
    """The parts of KIND:PLACE; None for anything else, such as a directory of `rescorer train`."""
    kind, colon, place = os.fspath(path).partition(":")
    return PretrainedName(kind, place) if colon and kind in KINDS and place else None
