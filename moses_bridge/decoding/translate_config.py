"""Settings of `moses-bridge translate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from moses_bridge.base.choices import Tags
from moses_bridge.base.config import AtLeast, Limited
from moses_bridge.base.machine import n_processors


@dataclass(frozen=True, kw_only=True)
class TranslateConfig(Limited):
    """What is done beside decoding.

    Attributes:
        tags: Put XML tags around the translations of their words, or drop them.
        sentences: Split each line into sentences, and translate them one by one.
        glossary: Terms and their translations, separated by a tab, one per line.
        ini: moses.ini with whole tables, for a system tuned with filtered ones.
        corpus: Prefix of the training text, if no corpus.json is beside the model: corpus/train.
        run_commands: Run the commands named in the weights.json of the system.
        jobs: Number of processes. [default: one per processor]
    """

    tags: Tags = "keep"
    sentences: bool = False
    glossary: Path | None = None
    ini: Path | None = None
    corpus: Path | None = None
    run_commands: bool = False
    jobs: Annotated[int, AtLeast(1)] = n_processors()
