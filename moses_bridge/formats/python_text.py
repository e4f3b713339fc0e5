"""Texts as somebody who writes Python has them, str or bytes, and as this package reads them: bytes of UTF-8.

A byte outside UTF-8 becomes a lone surrogate in a str (PEP 383) and the same byte again on the way back.
"""

from __future__ import annotations

from collections.abc import Iterable

from moses_bridge.base.errors import UserError, shown

# A list, an array or a pandas Series of texts, one phrase or sentence each.
Texts = Iterable[str | bytes]

BAR = b"|||"  # what separates the columns of Moses's files


def decoded(text: bytes) -> str:
    """Bytes of a file as a str, none lost."""
    return text.decode("utf-8", "surrogateescape")


def encoded(text: object, where: str) -> bytes:
    """A phrase or a sentence as bytes.

    Args:
        text: a str or bytes.
        where: what the caller calls it, for errors.

    Raises:
        UserError: it is no text, cannot be written as UTF-8, or has a "|||" or the end of a line in it.
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
    """Phrases or sentences as bytes, in their order.

    Args:
        texts: of str or bytes, mixed or not.
        name: of the argument, for errors.

    Raises:
        UserError: it is one text and not a list of them, or as of `encoded` for one of them.
    """
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise UserError(f"{name}: found {texts!r:.120}, expected a list of phrases or sentences")
    return [encoded(text, f"{name}[{place}]") for place, text in enumerate(texts)]
