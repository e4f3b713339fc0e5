"""The parts of an architecture, and all architectures by name."""

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

# From phrase pairs to their values under the network's current weights, *Shape:* (n,), with gradients.
PhraseValues = Callable[["Batch"], "Tensor"]

# From phrases to their vectors, *Shape:* (n, d), float32.
Summaries = Callable[[Sequence[bytes]], NDArray[np.float32]]

# The column_note of language models: in a translation a phrase is between others.
AS_A_SENTENCE = "an approximation: each target phrase as a sentence of its own"

Settings = TypeVar("Settings", bound="TrainingSettings")


@dataclass(frozen=True, kw_only=True)
class Architecture(Generic[Settings, Network]):
    """The last definition in a scorer's file or folder.

    Attributes:
        data: what it is trained on.
        settings: the dataclass that `rescorer train --config` reads.
        prepare: reads the data and makes the network, from data, settings and seed; uses the data's
            shortlists, if any.
        network: makes the network before its weights are loaded.
        scorer: makes the scorer of phrase pairs and sentence pairs.
        ngrams: makes the scorer of n-grams used during search, if there is one.
        generator: makes the generator of targets, if the network predicts word by word.
        column_note: how a column of its values is described if they are an approximation.
        embeddings: word vectors of each side read by the network, row by id in the shortlist, *Shape:*
            (n_words, r); if words have vectors.
        summaries: vectors of phrases of the language read by the network; if a phrase has one vector.
        phrase_values: from the network and the type of its large products to differentiable values of
            phrase pairs; if it can be trained on whole translations.
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


# The name of an architecture in its module, unless the user gives one.
DEFAULT_NAME = "ARCHITECTURE"


def load(name: str) -> Architecture[Any, Any]:
    """Return the architecture of a name, importing its module and no other one.

    Importing a module runs it: check names from files with `is_foreign` first.

    Args:
        name: one of `ARCHITECTURES`, or `package.module:NAME` (`package.module:` for `ARCHITECTURE`).

    Raises:
        ConfigError: the name is unknown or does not name an `Architecture`.
        InputError: its module cannot be imported.
    """
    reference = _reference(name)
    found = reference.load()
    if not isinstance(found, Architecture):
        raise ConfigError(f"{reference} is a {type(found).__name__}, not an Architecture")
    return found


def is_foreign(name: str) -> bool:
    """Whether a name's architecture is code from outside this package; imports nothing.

    Raises:
        ConfigError: the name is unknown.
    """
    return name not in ARCHITECTURES and not _reference(name).is_own


def _reference(name: str) -> ObjectReference:
    """The place of an architecture; a name without a colon is a key of `ARCHITECTURES`."""
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
