"""Log-probabilities of a block of pairs by walking two tries, each level one batch.

A block repeats itself: the encoder runs once for each distinct prefix of a source, the decoder once
for each distinct (source, target prefix), and a node has one softmax denominator, which all its
children and </s> share. The gates' recurrent product belongs to the parent and is computed once for
all its children. What a pair gets is the sum along its path, whatever else is in the block.

Notation: d, r, m as in `models.encdec`; V target words; S distinct sources; n rows of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from rescorer.scorers.encdec.network import MAXOUT_PIECES, DecoderContext, EncoderDecoder
from rescorer.softmax.log_sum_exp import log_sum_exp
from rescorer.softmax.narrow_rows import narrow_rows
from rescorer.tries.prefix_tree import Level, PrefixTree, build_prefix_tree
from rescorer.units import GatedUnit
from rescorer.vocabulary import Vocabulary

Precision = Literal["float32", "bfloat16"]
NODES_AT_ONCE = 2048


class _Step(NamedTuple):
    """A gated unit with the inputs of all words looked up instead of multiplied.

    Attributes:
        inputs: pre-activations of each word, *Shape:* (n_words, 3 d).
        gates: U_r and U_z, *Shape:* (2 d, d).
        candidate: U, *Shape:* (d, d).
    """

    inputs: Tensor
    gates: Tensor
    candidate: Tensor

    @classmethod
    def of(cls, unit: GatedUnit, vectors: Tensor, dtype: torch.dtype) -> _Step:
        """Compute the inputs of all words, whose vectors are given."""
        return cls(
            unit.inputs(vectors),
            unit.recurrent_gates.weight.to(dtype),
            unit.recurrent_candidate.weight.to(dtype),
        )

    def gate_products(self, hidden: Tensor) -> Tensor:
        """U_r h and U_z h, *Shape:* (n, d) -> (n, 2 d)."""
        return torch.cat([_product(part, self.gates) for (part,) in _chunks(hidden)])

    def __call__(self, hidden: Tensor, gate_products: Tensor, inputs: Tensor) -> Tensor:
        """The next state, *Shape:* (n, d)."""
        d = hidden.shape[1]
        reset = torch.sigmoid(inputs[:, :d] + gate_products[:, :d])
        update = torch.sigmoid(inputs[:, d : 2 * d] + gate_products[:, d:])
        candidate = torch.tanh(inputs[:, 2 * d :] + _product(reset * hidden, self.candidate))
        return torch.lerp(candidate, hidden, update)


class _Nodes(NamedTuple):
    """The nodes of one target level and what their children need.

    Attributes:
        hidden: states, *Shape:* (n_nodes, d).
        factors: what is multiplied with the output weight, float32, *Shape:* (n_nodes, r).
        log_totals: log-sum-exp over the vocabulary, *Shape:* (n_nodes,).
        log_probs: of the prefix, float64, *Shape:* (n_nodes,).
        groups: the source of each node, *Shape:* (n_nodes,).
    """

    hidden: Tensor
    factors: Tensor
    log_totals: Tensor
    log_probs: Tensor
    groups: Tensor


class EncDecScorer:
    """Natural log p(target | source) of an RNN Encoder-Decoder, for whole tables.

    Several threads may use one scorer.

    Args:
        model: the network, on the device where it shall compute.
        source_vocabulary: ids of the source words.
        target_vocabulary: ids of the target words.
        precision: of the products; sums, gates and softmax are float32 in either case.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        source_vocabulary: Vocabulary,
        target_vocabulary: Vocabulary,
        precision: Precision = "float32",
    ) -> None:
        self.model = model.eval()
        self.source_vocabulary = source_vocabulary
        self.target_vocabulary = target_vocabulary
        self.device = model.output_weight.device
        self._prepare(torch.float32 if precision == "float32" else torch.bfloat16)

    @torch.inference_mode()
    def _prepare(self, dtype: torch.dtype) -> None:
        model = self.model
        vectors = model.target_embedding.weight
        with_nothing = torch.cat([vectors, vectors.new_zeros(1, vectors.shape[1])])
        self._nothing = len(vectors)
        self._encoder = _Step.of(model.encoder, model.source_embedding.weight, dtype)
        self._decoder = _Step.of(model.decoder, with_nothing, dtype)
        self._word_readout = model.word_to_readout(with_nothing)
        self._hidden_readout = model.hidden_to_readout.weight.to(dtype)
        self._readout_factor = model.readout_factor.weight.to(dtype)
        self._output_weight = model.output_weight.to(dtype)

    def n_unknown(self, targets: Sequence[bytes]) -> NDArray[np.int64]:
        """Words of each target outside the shortlist, *Shape:* (n_targets,)."""
        return self.target_vocabulary.n_unknown(targets)

    @torch.inference_mode()
    def log_probs(self, sources: Sequence[bytes], targets: Sequence[bytes]) -> NDArray[np.float64]:
        """Natural log p(target | source), </s> included; see `scorer.Scorer`.

        Raises:
            ValueError: there are not as many sources as targets.
        """
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources, {len(targets)} targets")
        if not targets:
            return np.zeros(0)
        numbers = {source: number for number, source in enumerate(dict.fromkeys(sources))}
        groups = np.fromiter((numbers[source] for source in sources), np.int64, len(sources))
        context = self.model.decoder_start(self._contexts(list(numbers)))
        ids, lens = self.target_vocabulary.encode_phrases(targets)
        tree = build_prefix_tree(ids, lens, groups, len(numbers))
        return self._walk_targets(tree, context)

    def _contexts(self, sources: Sequence[bytes]) -> Tensor:
        """The summary c of each source, *Shape:* (S, d)."""
        ids, lens = self.source_vocabulary.encode_phrases(sources)
        tree = build_prefix_tree(ids, lens + 1)
        last = self.model.source_start(len(sources))
        hidden = self.model.source_start(1)
        for depth, level in enumerate(tree.levels, start=1):
            hidden = self._source_level(level, hidden)
            rows, nodes = tree.rows_ending(depth)
            last[self._to_device(rows)] = hidden[self._to_device(nodes)]
        return self.model.context(last)

    def _source_level(self, level: Level, above: Tensor) -> Tensor:
        """States of a level of source prefixes, *Shape:* (n_nodes, d)."""
        parents, words = self._to_device(level.parents), self._to_device(level.words)
        gate_products = self._encoder.gate_products(above)
        return torch.cat(
            [
                self._encoder(above[of], gate_products[of], self._encoder.inputs[word])
                for of, word in _chunks(parents, words)
            ]
        )

    def _walk_targets(self, tree: PrefixTree, context: DecoderContext) -> NDArray[np.float64]:
        result = np.empty(len(tree.lens))
        n_sources = tree.n_groups
        nodes = self._advance(
            hidden=context.hidden,
            parents=torch.arange(n_sources, device=self.device),
            words=torch.full((n_sources,), self._nothing, device=self.device),
            log_probs=torch.zeros(n_sources, dtype=torch.float64, device=self.device),
            groups=torch.arange(n_sources, device=self.device),
            context=context,
        )
        self._finish(tree, 0, nodes, result)
        for depth, level in enumerate(tree.levels, start=1):
            parents, words = self._to_device(level.parents), self._to_device(level.words)
            nodes = self._advance(
                hidden=nodes.hidden,
                parents=parents,
                words=words,
                log_probs=nodes.log_probs[parents] + self._word_log_probs(nodes, parents, words),
                groups=nodes.groups[parents],
                context=context,
            )
            self._finish(tree, depth, nodes, result)
        return result

    def _finish(
        self, tree: PrefixTree, depth: int, nodes: _Nodes, result: NDArray[np.float64]
    ) -> None:
        """Write the rows that end in a level: the prefix, then </s>."""
        rows, ends = tree.rows_ending(depth)
        of = self._to_device(ends)
        words = torch.full_like(of, self.target_vocabulary.end_id)
        total = nodes.log_probs[of] + self._word_log_probs(nodes, of, words)
        result[rows] = total.cpu().numpy()

    def _word_log_probs(self, nodes: _Nodes, of: Tensor, words: Tensor) -> Tensor:
        """Natural log p(word | prefix) for pairs of a node and a word, float64, *Shape:* (n,).

        The logit is computed again in float32 for the few words that are asked for, so that only
        the denominator, where errors average out, has the precision of the products.
        """
        weight, bias = self.model.output_weight, self.model.output_bias
        parts = []
        for node, word in _chunks(of, words):
            factors = nodes.factors[node]
            logits = (factors * weight[word]).sum(1) + bias[word]
            parts.append(logits - self._exchanged(nodes.log_totals[node], factors, word, logits))
        return torch.cat(parts).double()

    def _exchanged(
        self, log_totals: Tensor, factors: Tensor, words: Tensor, logits: Tensor
    ) -> Tensor:
        """Denominators in which the word's own term is the float32 one, *Shape:* (n,).

        Where the network is sure of a word, that word's rounding is nearly all of the denominator's.
        """
        if self._output_weight.dtype == torch.float32:
            return log_totals
        rounded = (_rounded(factors) * self._output_weight[words].float()).sum(1)
        rounded = _rounded(rounded) + self.model.output_bias[words]
        return log_totals + torch.log1p(
            torch.exp(logits - log_totals) - torch.exp(rounded - log_totals)
        )

    def _advance(
        self,
        hidden: Tensor,
        parents: Tensor,
        words: Tensor,
        log_probs: Tensor,
        groups: Tensor,
        context: DecoderContext,
    ) -> _Nodes:
        """States and softmax denominators of a level, from the states of the level above."""
        gate_products = self._gate_products_of(hidden, parents)
        states, factors, log_totals = [], [], []
        for parent, word, group in _chunks(parents, words, groups):
            inputs = self._decoder.inputs[word] + context.unit[group]
            state = self._decoder(hidden[parent], gate_products[parent], inputs)
            factor = self._factors(state, self._word_readout[word] + context.readout[group])
            states.append(state)
            factors.append(factor)
            log_totals.append(self._log_totals(factor))
        return _Nodes(
            torch.cat(states), torch.cat(factors), torch.cat(log_totals), log_probs, groups
        )

    def _log_totals(self, factors: Tensor) -> Tensor:
        """Log of the softmax's denominator of each node, *Shape:* (n, r) -> (n,)."""
        return log_sum_exp(factors, self._output_weight, self.model.output_bias)

    def _gate_products_of(self, hidden: Tensor, parents: Tensor) -> Tensor:
        """U_r h and U_z h of the nodes that have children, *Shape:* (n_nodes, 2 d)."""
        distinct = torch.unique_consecutive(parents)
        if 2 * len(distinct) > len(hidden):
            return self._decoder.gate_products(hidden)
        products = hidden.new_empty(len(hidden), 2 * hidden.shape[1])
        products[distinct] = self._decoder.gate_products(hidden[distinct])
        return products

    def _factors(self, hidden: Tensor, others: Tensor) -> Tensor:
        """G_l s_t, *Shape:* (n, r)."""
        bias = self.model.hidden_to_readout.bias
        pieces = _product(hidden, self._hidden_readout) + bias + others
        maxout = pieces.view(len(hidden), -1, MAXOUT_PIECES).amax(dim=2)
        return _product(maxout, self._readout_factor)

    def _to_device(self, numbers: NDArray[np.int32] | NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(numbers.astype(np.int64)).to(self.device)


class UnnormalizedScorer(EncDecScorer):
    """The same without the softmax's denominators: for networks that were trained to have them at 1.

    Only the logits of the words that are asked for are computed.
    """

    def _log_totals(self, factors: Tensor) -> Tensor:
        return factors.new_zeros(len(factors))

    def _exchanged(
        self, log_totals: Tensor, factors: Tensor, words: Tensor, logits: Tensor
    ) -> Tensor:
        return log_totals


def _product(rows: Tensor, weight: Tensor) -> Tensor:
    """The product rows weight^T in the weight's precision, returned as float32."""
    return linear(narrow_rows(rows, weight.dtype), weight)[: len(rows)].float()


def _rounded(values: Tensor) -> Tensor:
    """float32 values as bfloat16 has them."""
    return values.to(torch.bfloat16).float()


def _chunks(*columns: Tensor) -> list[tuple[Tensor, ...]]:
    """Equal pieces of several columns, small enough for the cache; one empty piece of none."""
    return list(zip(*(torch.split(column, NODES_AT_ONCE) for column in columns), strict=True))
