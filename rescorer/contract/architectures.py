"""The architectures by name; a new one is one line here."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any

from moses_bridge.base.errors import ConfigError
from rescorer.contract.scorer import Architecture

# A name stands in the model directories that it made: an entry may be added, but not renamed.
ARCHITECTURES = {
    "encdec": "rescorer.scorers.encdec",
    "cslm": "rescorer.scorers.cslm",
    "nnjm": "rescorer.scorers.nnjm",
    "rnn_lm": "rescorer.scorers.rnn_lm",
    "rnnsearch": "rescorer.scorers.rnnsearch",
    "seq2seq": "rescorer.zoo.seq2seq",
    "cstm": "rescorer.zoo.cstm",
    "bae": "rescorer.zoo.bae",
    "cptm": "rescorer.zoo.cptm",
    "word_pairs": "rescorer.scorers.word_pairs",
}


def load(name: str) -> Architecture[Any, Any]:
    """The architecture of a name; its module is imported now, and no other one.

    Raises:
        ConfigError: there is none of this name.
    """
    if name not in ARCHITECTURES:
        near = difflib.get_close_matches(name, ARCHITECTURES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(ARCHITECTURES)}"
        raise ConfigError(f"no architecture {name!r}; {hint}")
    architecture: Architecture[Any, Any] = import_module(ARCHITECTURES[name]).ARCHITECTURE
    return architecture
