"""A feed-forward network as an n-gram scorer for the search; see `moses_bridge.formats.ngram_scorer`.

Values requested with N are exact: those of `rescorer nbest` with the same options. Estimates for the search
(E) are quick. For a network trained to have denominators of 1 they are the logit minus the mean of log Z on
held-out text, so that both have the same mean. For others they are the softmax with an estimated denominator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.errors import UserError
from moses_bridge.formats.ngram_scorer import n_places, row_width
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import SPECIALS, Vocabulary
from rescorer.layers.float_bits import widened
from rescorer.layers.output_layer import EstimatedOutputLayer, ExactOutputLayer, OutputLayer
from rescorer.layers.products import numpy_numbers
from rescorer.windows.feed_forward import FeedForward
from rescorer.windows.hidden_layers import HiddenLayers, History, bases_of

WindowNetwork = TypeVar("WindowNetwork", bound=FeedForward)
# From rows (source place, previous words, word), *Shape:* (n, w + 1), and bases, *Shape:* (n_places, d1), see
# `HiddenLayers`, to natural log p of the words or an estimate of it, *Shape:* (n,).
Values = Callable[[NDArray[np.int32], Tensor], NDArray[np.float32]]
Around = Callable[[Sequence[bytes]], NDArray[np.int32]]
NOTHING = np.zeros((1, 0), np.int32)
# Numbers of the first layer, 64 MB: a tuning comes back to the same sentences in each of its decodings.
MOST_KEPT = 2**24


class RawValues:
    """The words' logits less `log_z`, the mean of log Z or 0, for networks trained to have denominators of 1.

    Their precision is that of the hidden layers.
    """

    def __init__(self, hidden: HiddenLayers, output: nn.Linear, log_z: float = 0.0) -> None:
        self.hidden = hidden
        self.weight = output.weight.detach().to(hidden.dtype)
        self.bias = output.bias.detach() - log_z

    @torch.inference_mode()
    def __call__(self, rows: NDArray[np.int32], bases: Tensor) -> NDArray[np.float32]:
        """See `Values`."""
        hidden, which = self.hidden(rows, bases)
        words = rows[:, -1]
        if hidden.device.type == "cpu":
            result = np.empty(len(rows), np.float32)
            weight = numpy_numbers(self.weight)
            _logits(numpy_numbers(hidden), which, words, weight, self.bias.numpy(), result)
            return result
        chosen = torch.from_numpy(words.astype(np.int64)).to(hidden.device)
        rows_of = hidden[torch.from_numpy(which).to(hidden.device)].float()
        logits = (rows_of * self.weight[chosen].float()).sum(1) + self.bias[chosen]
        return np.asarray(logits.cpu().numpy())


@dataclass(frozen=True)
class NormalisedValues:
    """The words' log-probabilities by a softmax, exact or estimated."""

    hidden: HiddenLayers
    layer: OutputLayer

    @torch.inference_mode()
    def __call__(self, rows: NDArray[np.int32], bases: Tensor) -> NDArray[np.float32]:
        """See `Values`."""
        hidden, which = self.hidden(rows, bases)
        hidden = hidden.float()
        chosen = torch.from_numpy(which).to(hidden.device)
        words = torch.from_numpy(rows[:, -1].astype(np.int64)).to(hidden.device)
        log_z = self.layer.log_z(hidden)[chosen]
        return np.asarray(self.layer.log_probs(hidden[chosen], log_z, words).cpu().numpy())


@njit(nogil=True, fastmath=True, error_model="numpy")
def _logits(hidden: Any, which: Any, words: Any, weight: Any, bias: Any, out: Any) -> None:
    """The logit of a word (n,) for each row (n,): `which` of the hidden rows (n_distinct, d) is multiplied."""
    for i in range(len(words)):
        one, other = hidden[which[i]], weight[words[i]]
        total = np.float32(0)
        for k in range(len(one)):
            total += widened(one[k]) * widened(other[k])
        out[i] = total + bias[words[i]]


class WindowNgramScorer:
    """An `NgramScorer`: natural log p(word | previous words); words outside the shortlist are <unk>.

    The exact values are those requested with N, the quick ones estimates for the search. The last number of
    the history precedes the first word of a sentence. Around some sources it is told the numbers of the words
    around each place, *Shape:* (n_places, n_around); None for a network without a source.
    """

    def __init__(
        self,
        network: FeedForward,
        exact: Values,
        quick: Values,
        shortlist: Vocabulary,
        history: History,
        around: Around | None = None,
    ) -> None:
        self._exact, self._quick = exact, quick
        self.order = history.n_words + 1
        self.start_id = history.n_numbers - 1
        self.end_id = shortlist.end_id
        self.open_id = history.open_id
        self.reads_source = around is not None
        self._network, self._shortlist, self._around = network, shortlist, around
        self._bases = bases_of(network, NOTHING[: 0 if self.reads_source else 1])
        self._bases_of: dict[tuple[bytes, ...], Tensor] = {}

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """See `NgramScorer`."""
        return self._shortlist.encode_words(words)

    def read(self, sources: Sequence[bytes]) -> int:
        """See `NgramScorer`."""
        if self._around is None:
            return n_places(sources)
        text = tuple(sources)
        if text not in self._bases_of:
            bases = bases_of(self._network, self._around(sources))
            if sum(map(torch.numel, self._bases_of.values())) + bases.numel() > MOST_KEPT:
                self._bases_of.clear()
            self._bases_of[text] = bases
        self._bases = self._bases_of[text]
        return len(self._bases)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`; UserError if a source place, previous word or word does not exist."""
        return self._values(self._exact, ngrams)

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`, and `log_probs` for errors."""
        return self._values(self._quick, ngrams)

    def _values(self, way: Values, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        rows = np.ascontiguousarray(ngrams, np.int32)
        if not len(rows):
            return np.zeros(0, np.float32)
        row, column = _first_outside(rows, self._n_allowed())
        if row >= 0:
            raise self._no_such(int(column), int(rows[row, column]))
        return way(rows, self._bases)

    def _n_allowed(self) -> NDArray[np.int64]:
        places = [len(self._bases)] if self.reads_source else []
        words = [self.open_id + 1] * (self.order - 1)
        return np.array([*places, *words, len(self._shortlist)])

    def _no_such(self, column: int, found: int) -> UserError:
        what, hint = "previous word", "the model's numbers come from W"
        if column == 0 and self.reads_source:
            what, hint = "source place", "ask for S before N and E"
        elif column == row_width(self) - 1:
            what = "word"
        last = self._n_allowed()[column] - 1
        return UserError(f"found the {what} {found}, expected 0 to {last}: {hint}")


def window_ngram_scorer(
    model: TrainedModel[WindowNetwork],
    compute: Compute,
    n_history: int,
    around: Around | None = None,
) -> WindowNgramScorer:
    """Make the n-gram scorer of a network over windows that begin with n_history previous words.

    Their numbers are those of the shortlist, followed by <s>. With `unnormalized`, logits are the exact values.
    For `around` see `WindowNgramScorer`.
    """
    network, shortlist = model.network.to(compute.place), model.shortlists.target
    history = History(n_history, len(shortlist) + 1, zipf(len(shortlist) + 1))
    ways = _ways(model, network, history, compute)
    return WindowNgramScorer(network, *ways, shortlist, history, around)


def zipf(n_numbers: int) -> NDArray[np.float64]:
    """Assumed frequencies of previous words, *Shape:* (n_numbers,): 1 / rank (Zipf), since a model keeps no
    counts.

    Shortlists are sorted by falling frequency; <unk> ranks after their last word. </s> and <s> have frequency
    0.
    """
    result = np.zeros(n_numbers)
    shares = 1 / np.arange(1, n_numbers - len(SPECIALS) + 1)
    result[len(SPECIALS) : -1] = shares[:-1]
    result[Vocabulary.unknown_id] = shares[-1]
    return result


def _ways(
    model: TrainedModel[WindowNetwork], network: FeedForward, history: History, compute: Compute
) -> tuple[Values, Values]:
    """Exact values, with hidden layers in float32, as in all scores, and quick ones in the given precision."""
    exact = quick = HiddenLayers(network, history, torch.float32)
    if compute.dtype != torch.float32:
        quick = HiddenLayers(network, history, compute.dtype)
    output = network.output
    if compute.unnormalized:
        return RawValues(exact, output), RawValues(quick, output)
    normalised = NormalisedValues(exact, ExactOutputLayer(output, compute.dtype))
    if model.training.is_self_normalised:
        log_z = model.training.log_z
        mean = log_z.mean if log_z else 0.0
        return normalised, RawValues(quick, output, mean)
    estimated = EstimatedOutputLayer(output, compute.dtype)
    return normalised, NormalisedValues(quick, estimated)


@njit(nogil=True)
def _first_outside(rows: Any, n_allowed: Any) -> tuple[int, int]:
    """Row and column of the first number outside the range of its column; -1 if there is none."""
    for row in range(len(rows)):
        for column in range(len(n_allowed)):
            if not 0 <= rows[row, column] < n_allowed[column]:
                return row, column
    return -1, -1
