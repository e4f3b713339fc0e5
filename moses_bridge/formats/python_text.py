"""Conversion between the str or bytes of Python code and this package's bytes of UTF-8.

A byte outside UTF-8 becomes a lone surrogate in a str (PEP 383) and the same byte again on the way back.
"""

from __future__ import annotations

from collections.abc import Iterable

from moses_bridge.base.errors import UserError, shown

Texts = Iterable[str | bytes]  # a list, an array or a pandas Series, one phrase or sentence each
BAR = b"|||"  # separates the columns of Moses's files


def decoded(text: bytes) -> str:
    """Decode bytes of a file without loss."""
    return text.decode("utf-8", "surrogateescape")


def encoded(text: object, where: str) -> bytes:
    """Encode a phrase or a sentence, named `where` in errors.

    Raises:
        UserError: it is not str or bytes, cannot be written as UTF-8, or contains "|||" or a line end.
    """
    if isinstance(text, str):
        try:
            text = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise UserError(f"{where}: found {text!r:.120}, expected text: {error}") from error
    if not isinstance(text, bytes):
        raise UserError(f"{where}: found {type(text).__name__} {text!r:.60}, expected str or bytes")
    for found, name in ((BAR, '"|||"'), (b"\n", "the end of a line")):
        if found in text:
            raise UserError(
                f"{where}: found {name} in {shown(text)}, expected one phrase or sentence. "
                "Split it, or take that out"
            )
    return text


def encoded_all(texts: Texts, name: str) -> list[bytes]:
    """Encode phrases or sentences, named `name` in errors.

    Raises:
        UserError: it is one text instead of a list, or a text is invalid; see `encoded`.
    """
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise UserError(f"{name}: found {texts!r:.120}, expected a list of phrases or sentences")
    return [encoded(text, f"{name}[{place}]") for place, text in enumerate(texts)]
