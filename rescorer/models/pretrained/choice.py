"""The scorer of a pretrained model by its name, from a directory found or downloaded."""

from __future__ import annotations

import os
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from moses_bridge.base.errors import ConfigError, InputError, MissingExtraError, UserError
from moses_bridge.base.provenance import file_digest
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer, SubwordScorer
from rescorer.models.pretrained.settings import KINDS, PretrainedName, PretrainedSettings


def scorer_of_pretrained(
    name: PretrainedName, settings: PretrainedSettings, compute: Compute
) -> NamedScorer:
    """The scorer of a pretrained model: natural log p(target | source), or p(target).

    A model of CTranslate2 keeps the precision of its conversion, unless compute's is bfloat16.

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
    if kind.package == "ctranslate2":
        from rescorer.models.pretrained.ctranslate2_values import load_ctranslate2

        scorer: SubwordScorer = load_ctranslate2(directory, settings, compute, kind.has_source)
    elif name.kind == "hf-mlm":
        from rescorer.models.pretrained.hugging_face import load_masked

        scorer = load_masked(directory, settings, compute)
    else:
        from rescorer.models.pretrained.hugging_face import load_hugging_face

        scorer = load_hugging_face(directory, settings, compute, kind.has_source)
    return NamedScorer(
        f"{name} ({scorer.note}; {_text_note(settings)})",
        scorer,
        f"{name.kind} {digest_of(directory)} {settings} {compute}",
    )


def _text_note(settings: PretrainedSettings) -> str:
    languages = "-".join(filter(None, [settings.source_language, settings.target_language]))
    prefix = f"prefix {settings.source_prefix!r}" if settings.source_prefix else ""
    case = "" if settings.case == "as-is" else f"{settings.case} case"
    text = "detokenized text" if settings.detokenize else "tokens"
    if settings.detokenize and not languages:
        text += " by English rules, unless the tokenizer names languages"
    return ", ".join(filter(None, [text, case, languages, prefix]))


# Weights in formats that are not read here.
NOT_READ = ["*.h5", "*.msgpack", "*.ot", "*.onnx", "onnx/*", "*.tflite"]


def local_directory(name: str, download: bool) -> Path:
    """The directory of a model, from its path or, if download is set, its name in the hub.

    Raises:
        InputError: there is no such directory, and nothing may be downloaded.
        UserError: the download fails.
    """
    if Path(name).is_dir():
        return Path(name)
    if not download:
        raise InputError(
            name, None, "no directory", "that of a model", "--download takes it from the hub"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, ignore_patterns=NOT_READ))
    except Exception as error:  # of the network, of the hub, of the name
        told = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise UserError(f"{name} could not be downloaded: {told}") from error


def digest_of(directory: Path) -> str:
    """A digest of the names and contents of all files directly in a directory."""
    digest = blake2b(digest_size=16)
    for path in sorted(directory.iterdir()):
        if path.is_file():
            digest.update(os.fsencode(path.name) + b"\0" + bytes.fromhex(file_digest(path)))
    return digest.hexdigest()
