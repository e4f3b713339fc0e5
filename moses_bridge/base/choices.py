"""The values of settings and options with a choice of names.

They are here, and not beside the code they select, so that a command can list them without loading that code.
"""

from __future__ import annotations

from typing import Literal

Origin = Literal["debian", "debian+libreoffice", "libreoffice", "files"]
Aligner = Literal["hmm", "fast-align", "eflomal"]
Smoothing = Literal["good-turing", "none"]
ListFormat = Literal["moses", "marian", "fairseq", "jsonl"]
DecoderKind = Literal["auto", "moses", "builtin"]
Combination = Literal["counts", "mixture", "fill-up", "first-found", "back-off"]
UnknownPhrases = Literal["renormalise", "zero"]
