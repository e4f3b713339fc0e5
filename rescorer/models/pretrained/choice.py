"""Pretrained models by name: hf:DIRECTORY, hf-lm:DIRECTORY, ct2:DIRECTORY."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import NamedTuple, Protocol

from moses_bridge.base.errors import ConfigError, Extra, MissingExtraError
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer, Scorer
from rescorer.models.pretrained.directory import digest_of, local_directory
from rescorer.models.pretrained.settings import PretrainedSettings


class Kind(NamedTuple):
    """A kind of pretrained models.

    Attributes:
        package: that runs it.
        extra: of this package, which installs it.
        has_source: whether it reads source text.
    """

    package: str
    extra: Extra
    has_source: bool


KINDS: dict[str, Kind] = {
    "hf": Kind("transformers", "hf", True),
    "hf-lm": Kind("transformers", "hf", False),
    "ct2": Kind("ctranslate2", "ct2", True),
}


class PretrainedScorer(Scorer, Protocol):
    """A scorer that says what its values are."""

    @property
    def note(self) -> str:
        """What a log-probability is of, for records."""


class PretrainedName(NamedTuple):
    """What a user writes.

    Attributes:
        kind: one of `KINDS`.
        place: a directory, or a name of the hub.
    """

    kind: str
    place: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.place}"


def parse_name(path: str | os.PathLike[str]) -> PretrainedName | None:
    """The parts of KIND:PLACE; None for anything else, such as a directory of `rescorer train`."""
    kind, colon, place = os.fspath(path).partition(":")
    return PretrainedName(kind, place) if colon and kind in KINDS and place else None


def scorer_of_pretrained(
    name: PretrainedName, settings: PretrainedSettings, compute: Compute
) -> NamedScorer:
    """The scorer of a pretrained model: natural log p(target | source), or p(target) of a language model.

    Args:
        name: the model.
        settings: of its text.
        compute: on what and how precisely; a model of CTranslate2 keeps the precision that it was converted to,
            unless it is bfloat16.

    Raises:
        MissingExtraError: a package is not installed.
        ConfigError: a language code is unknown, or the device is.
        InputError: the directory is not that of such a model with its tokenizer.
        UserError: it could not be downloaded.
    """
    kind = KINDS[name.kind]
    for package in (kind.package, "transformers"):
        if find_spec(package) is None:
            raise MissingExtraError(package, kind.extra)
    if compute.unnormalized:
        raise ConfigError(
            f"{name} is a pretrained model and needs the denominator: leave --unnormalized out"
        )
    directory = local_directory(name.place, settings.download)
    if name.kind == "ct2":
        from rescorer.models.pretrained.ctranslate2_values import load_ctranslate2

        scorer: PretrainedScorer = load_ctranslate2(directory, settings, compute)
    else:
        from rescorer.models.pretrained.hugging_face import load_hugging_face

        scorer = load_hugging_face(directory, settings, compute, kind.has_source)
    return NamedScorer(
        f"{name} ({scorer.note}; {_of_text(settings)})",
        scorer,
        f"{name.kind} {digest_of(directory)} {settings} {compute}",
    )


def _of_text(settings: PretrainedSettings) -> str:
    """How the text was made, for records."""
    languages = "-".join(filter(None, [settings.source_language, settings.target_language]))
    prefix = f"prefix {settings.source_prefix!r}" if settings.source_prefix else ""
    case = "" if settings.case == "as-is" else f"{settings.case} case"
    text = "detokenized text" if settings.detokenize else "tokens"
    return ", ".join(filter(None, [text, case, languages, prefix]))
