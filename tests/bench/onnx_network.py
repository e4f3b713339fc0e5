"""The encoder-decoder as an ONNX graph: the same maths and weights, run by onnxruntime.

ONNX's GRU with linear_before_reset=0 is our gated unit: the reset gate acts before the product, and the
update gate keeps the old state. Its gates stand in the order z, r, h; ours r, z, h. As its inputs are
vectors, the summary c is multiplied at each step beside the word, as with torch.nn.GRU.

Notation: S and T steps of source and target, n pairs, d, r, m and V as in `models.encdec`.
"""

from __future__ import annotations

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import TensorProto, checker, helper, numpy_helper
from torch import Tensor, nn

from rescorer.layers.compiled_gates import MAXOUT_PIECES
from rescorer.layers.units import GatedUnit
from rescorer.scorers.encdec import EncoderDecoder

OPSET, IR_VERSION = 17, 8


class OnnxNetwork:
    """Log-probabilities of pairs in padded batches.

    Args:
        network: gives sizes and weights.
    """

    def __init__(self, network: EncoderDecoder) -> None:
        graph = _Graph()
        graph.build(network)
        self.session = onnxruntime.InferenceSession(
            graph.serialized(), providers=["CPUExecutionProvider"]
        )

    def log_probs(
        self, source: Tensor, source_lens: Tensor, target: Tensor, target_lens: Tensor
    ) -> Tensor:
        """Natural log p of each pair, *Shape:* (n,); arguments as of `plain_networks.log_probs`."""
        inside = torch.arange(target.shape[1]).unsqueeze(1) <= target_lens
        inputs = {
            "source": source.T.contiguous().numpy(),
            "source_steps": (source_lens + 1).int().numpy(),
            "target": target.T.contiguous().numpy(),
            "inside": inside.float().numpy(),
        }
        (result,) = self.session.run(None, inputs)
        return torch.from_numpy(result)


class _Graph:
    """Nodes and weights on their way to a model; what a method returns is the name of a value."""

    def __init__(self) -> None:
        self.nodes: list[object] = []
        self.weights: list[object] = []

    def build(self, network: EncoderDecoder) -> None:
        """From ids to log p, *Shape:* (n,)."""
        summary = self.summary(network)
        vectors = self.previous_vectors(network)
        hidden = self.decoder_states(network, vectors, summary)
        logits = self.logits(network, hidden, vectors, summary)
        log_probs = self.node("LogSoftmax", logits, axis=2)
        words = self.node("Unsqueeze", "target", self.constant([2]))
        chosen = self.node("GatherElements", log_probs, words, axis=2)
        steps = self.node("Mul", self.node("Squeeze", chosen, self.constant([2])), "inside")
        total = self.node("ReduceSum", steps, self.constant([0]), keepdims=0)
        self.nodes.append(helper.make_node("Identity", [total], ["log_probs"]))

    def summary(self, network: EncoderDecoder) -> str:
        """c, *Shape:* (n, d)."""
        vectors = self.node("Gather", self.weight(network.source_embedding.weight), "source")
        unit = network.encoder
        assert isinstance(unit, GatedUnit)
        _, last = self.gru(unit, unit.input.weight, vectors, "source_steps", "")
        return self.node("Tanh", self.linear(network.summary, last))

    def previous_vectors(self, network: EncoderDecoder) -> str:
        """e(y_{t-1}), zero at the first step, *Shape:* (T, n, r)."""
        vectors = self.node("Gather", self.weight(network.target_embedding.weight), "target")
        pads = self.constant([1, 0, 0, -1, 0, 0])
        return self.node("Pad", vectors, pads)

    def decoder_states(self, network: EncoderDecoder, vectors: str, summary: str) -> str:
        """h'_1 to h'_T, *Shape:* (T, n, d)."""
        steps = self.node("Slice", self.node("Shape", vectors), *map(self.constant, ([0], [1])))
        shape = self.node("Concat", steps, self.constant([1, 1]), axis=0)
        repeated = self.node("Expand", summary, shape)
        weight = torch.cat([network.decoder.input.weight, network.context_to_unit.weight], dim=1)
        inputs = self.node("Concat", vectors, repeated, axis=2)
        start = self.node("Tanh", self.linear(network.decoder_start_layer, summary))
        start = self.node("Unsqueeze", start, self.constant([0]))
        assert isinstance(network.decoder, GatedUnit)
        states, _ = self.gru(network.decoder, weight, inputs, "", start)
        return states

    def logits(self, network: EncoderDecoder, hidden: str, vectors: str, summary: str) -> str:
        """Logits of all words, *Shape:* (T, n, V)."""
        pieces = self.node(
            "Add",
            self.linear(network.hidden_to_readout, hidden),
            self.linear(network.word_to_readout, vectors),
        )
        pieces = self.node("Add", pieces, self.linear(network.context_to_readout, summary))
        shape = self.constant([0, 0, network.config.maxout_width, MAXOUT_PIECES])
        pairs = self.node("Reshape", pieces, shape)
        maxout = self.node("ReduceMax", pairs, axes=[3], keepdims=0)
        return self.linear(network.output, self.linear(network.readout_factor, maxout))

    def gru(
        self, unit: GatedUnit, input_weight: Tensor, inputs: str, steps: str, start: str
    ) -> tuple[str, str]:
        """All states, *Shape:* (S or T, n, d), and the last of each pair, *Shape:* (n, d)."""
        recurrent = torch.cat([unit.recurrent_gates.weight, unit.recurrent_candidate.weight])
        bias = _update_first(unit.input.bias)
        bias = torch.cat([bias, torch.zeros_like(bias)])
        weights = (_update_first(input_weight), _update_first(recurrent), bias)
        names = [self.weight(weight.unsqueeze(0)) for weight in weights]
        node = helper.make_node(
            "GRU",
            [inputs, *names, steps, start],
            outputs := [f"states{len(self.nodes)}", f"last{len(self.nodes)}"],
            hidden_size=unit.hidden_width,
            linear_before_reset=0,
        )
        self.nodes.append(node)
        states = self.node("Squeeze", outputs[0], self.constant([1]))
        return states, self.node("Squeeze", outputs[1], self.constant([0]))

    def linear(self, layer: nn.Linear, rows: str) -> str:
        """Rows times the layer's weight, and its bias if it has one."""
        product = self.node("MatMul", rows, self.weight(layer.weight.T))
        bias: Tensor | None = layer.bias
        return product if bias is None else self.node("Add", product, self.weight(bias))

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        """One operation."""
        name = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def weight(self, tensor: Tensor) -> str:
        """A tensor of the network."""
        return self._array(np.ascontiguousarray(tensor.detach().numpy()))

    def constant(self, numbers: list[int]) -> str:
        """Whole numbers."""
        return self._array(np.array(numbers, np.int64))

    def _array(self, array: NDArray[np.generic]) -> str:
        name = f"constant{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def serialized(self) -> bytes:
        """The whole model."""
        inputs = [
            helper.make_tensor_value_info("source", TensorProto.INT64, ["S", "n"]),
            helper.make_tensor_value_info("source_steps", TensorProto.INT32, ["n"]),
            helper.make_tensor_value_info("target", TensorProto.INT64, ["T", "n"]),
            helper.make_tensor_value_info("inside", TensorProto.FLOAT, ["T", "n"]),
        ]
        outputs = [helper.make_tensor_value_info("log_probs", TensorProto.FLOAT, ["n"])]
        graph = helper.make_graph(self.nodes, "encdec", inputs, outputs, self.weights)
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
        checker.check_model(model)
        serialized: bytes = model.SerializeToString()
        return serialized


def _update_first(rows: Tensor) -> Tensor:
    """Rows of r, z and h in the order z, r, h, *Shape:* (3 d, ...)."""
    reset, update, candidate = rows.detach().chunk(3)
    return torch.cat([update, reset, candidate])
