"""Directories of pretrained models: found or downloaded, and digested."""

from __future__ import annotations

from hashlib import blake2b, file_digest
from pathlib import Path

from moses_bridge.base.errors import InputError, UserError

# Weights in formats that are not read here.
NOT_READ = ["*.h5", "*.msgpack", "*.ot", "*.onnx", "onnx/*", "*.tflite"]


def local_directory(name: str, download: bool) -> Path:
    """The directory of a model.

    Args:
        name: a directory, or the name of a model of the Hugging Face hub.
        download: whether a name of the hub may be taken from there.

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
            with path.open("rb") as stream:
                digest.update(path.name.encode() + b"\0" + file_digest(stream, "sha256").digest())
    return digest.hexdigest()
