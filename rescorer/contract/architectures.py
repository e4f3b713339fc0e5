"""What an architecture brings along, and the architectures by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Side
from rescorer.contract.object_reference import ObjectReference
from rescorer.contract.scorer import Scorer
from rescorer.contract.trained_model import Network, TrainedModel
from rescorer.contract.vocabulary import Shortlists

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from moses_bridge.formats.ngram_scorer import NgramScorer
    from rescorer.contract.compute import Compute
    from rescorer.contract.target_generation import TargetGenerator
    from rescorer.contract.training import Data, DataKind, Prepared, TrainingSettings

# From phrase pairs to their values under the network's weights of that moment, *Shape:* (n,), with gradients.
PhraseValues = Callable[["Batch"], "Tensor"]

# From phrases to what the network makes of each, *Shape:* (n, d), float32.
Summaries = Callable[[Sequence[bytes]], NDArray[np.float32]]

# The column_note of language models: in a translation a phrase is between others.
AS_A_SENTENCE = "an approximation: each target phrase as a sentence of its own"

Settings = TypeVar("Settings", bound="TrainingSettings")


@dataclass(frozen=True, kw_only=True)
class Architecture(Generic[Settings, Network]):
    """What the file or folder of a scorer ends with.

    Attributes:
        data: what it is trained on.
        settings: the dataclass that `rescorer train --config` reads.
        prepare: reads the data and makes the network, from data, settings and seed; its shortlists are those
            given with the data, if any.
        network: the network, its weights still to be loaded.
        scorer: of phrase pairs and sentence pairs.
        ngrams: of n-grams, where the search may ask the model.
        generator: of targets of what the network reads, where it goes word by word.
        column_note: what a column of its values must be called besides, where it is an approximation.
        embeddings: the vectors of the words of each side the network reads, row by id in the shortlist,
            *Shape:* (n_words, r); where words have vectors.
        summaries: of phrases of the language read by the network, where it makes one vector of a phrase.
        phrase_values: from the network and the type of its large products to the values of phrase pairs,
            through which gradients flow into it, where it can be trained on whole translations.
    """

    data: DataKind
    settings: type[Settings]
    prepare: Callable[[Data, Settings, int], Prepared]
    network: Callable[[Settings, Shortlists], Network]
    scorer: Callable[[TrainedModel[Network], Compute], Scorer]
    ngrams: Callable[[TrainedModel[Network], Compute], NgramScorer] | None = None
    generator: Callable[[TrainedModel[Network], Compute], TargetGenerator] | None = None
    column_note: str = ""
    embeddings: Callable[[TrainedModel[Network]], Mapping[Side, NDArray[np.float32]]] | None = None
    summaries: Callable[[TrainedModel[Network], Compute], Summaries] | None = None
    phrase_values: Callable[[TrainedModel[Network], torch.dtype], PhraseValues] | None = None


# Where each is: package.module, or package.module:NAME. A name is in the model directories that it made: an
# entry may be added or moved to another module, but not renamed.
ARCHITECTURES = {
    "encdec": "rescorer.scorers.encdec",
    "cslm": "rescorer.scorers.cslm",
    "nnjm": "rescorer.scorers.nnjm",
    "rnn_lm": "rescorer.scorers.rnn_lm",
    "rnnsearch": "rescorer.scorers.rnnsearch",
    "seq2seq": "rescorer.scorers.zoo.seq2seq",
    "cstm": "rescorer.scorers.zoo.cstm",
    "bae": "rescorer.scorers.zoo.bae",
    "cptm": "rescorer.scorers.zoo.cptm",
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
