"""Names to choose from in settings and options, listed by commands without loading the selected code."""

from __future__ import annotations

from typing import Literal

Origin = Literal["debian", "debian+libreoffice", "libreoffice", "files"]
Aligner = Literal["hmm", "fast-align", "eflomal"]
LexiconForm = Literal["tsv", "marian", "bicleaner"]
Smoothing = Literal["good-turing", "none"]
Reordering = Literal["lexical", "none"]
ListFormat = Literal["moses", "marian", "fairseq", "jsonl", "joshua", "sockeye", "plain"]
DecoderKind = Literal["auto", "moses", "builtin"]
Combination = Literal["counts", "mixture", "fill-up", "first-found", "back-off"]
UnknownPhrases = Literal["renormalise", "zero"]
Case = Literal["lower", "true", "keep"]
Tags = Literal["keep", "drop"]
