"""The names that settings and options of commands choose from.

They are here, and not beside what they choose, so that a command can list them without loading it.
"""

from __future__ import annotations

from typing import Literal

Origin = Literal["debian", "debian+libreoffice", "libreoffice", "libreoffice for debian", "files"]
Aligner = Literal["hmm", "fast-align", "eflomal"]
Smoothing = Literal["good-turing", "none"]
DecoderKind = Literal["auto", "moses", "builtin"]
