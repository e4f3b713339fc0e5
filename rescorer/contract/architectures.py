"""The architectures by name: a short one of the table, or `package.module:NAME` of anybody's own."""

from __future__ import annotations

import difflib
from typing import Any

from moses_bridge.base.errors import ConfigError
from rescorer.contract.object_reference import ObjectReference
from rescorer.contract.scorer import Architecture

# Where each is: package.module, or package.module:NAME. A name is in the model directories that it made: an
# entry may be added or moved to another module, but not renamed.
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


# What a module that brings an architecture calls it, unless the user names it.
DEFAULT_NAME = "ARCHITECTURE"


def load(name: str) -> Architecture[Any, Any]:
    """The architecture of a name; its module is imported now, and no other one.

    Importing a module runs it: a name that comes from a file has to be trusted first, see `is_foreign`.

    Args:
        name: one of `ARCHITECTURES`, or `package.module:NAME` (`package.module:` for `ARCHITECTURE`) of a
            module that Python finds.

    Raises:
        ConfigError: there is none of this name, or what has the name is no `Architecture`.
        InputError: its module cannot be imported.
    """
    reference = _reference(name)
    found = reference.load()
    if not isinstance(found, Architecture):
        raise ConfigError(f"{reference} is a {type(found).__name__}, not an Architecture")
    return found


def is_foreign(name: str) -> bool:
    """Whether the architecture of a name is code from outside this package; nothing is imported.

    Raises:
        ConfigError: there is none of this name.
    """
    return name not in ARCHITECTURES and not _reference(name).is_own


def _reference(name: str) -> ObjectReference:
    """Where the architecture of a name is; a name without a colon is one of the table."""
    if ":" in name:
        return ObjectReference.parse(name, DEFAULT_NAME)
    if name not in ARCHITECTURES:
        near = difflib.get_close_matches(name, ARCHITECTURES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(ARCHITECTURES)}"
        raise ConfigError(
            f"no architecture {name!r}; {hint} (one of your own is package.module:NAME)"
        )
    place = ARCHITECTURES[name]
    return ObjectReference.parse(place if ":" in place else f"{place}:", DEFAULT_NAME)
