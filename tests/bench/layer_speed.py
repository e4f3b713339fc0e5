"""Speed of each layer of an encoder-decoder while it scores: where a precision loses."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rescorer.layers.output_layer import ExactOutputLayer
from rescorer.layers.products import NarrowLinear
from rescorer.scorers.encdec import EncDecScorer, EncoderDecoderTables


@contextmanager
def printed_layer_speeds(scorer: EncDecScorer) -> Iterator[None]:
    """Print GFLOP/s and share of the time of each layer, computed with one thread."""
    seconds, operations = defaultdict[str, float](float), defaultdict[str, int](int)

    def timed(name: str, width: int, compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(rows: Any) -> Any:
            started = time.thread_time()
            result = compute(rows)
            seconds[name] += time.thread_time() - started
            operations[name] += 2 * len(rows) * width
            return result

        return call

    network = scorer.network
    assert isinstance(network, EncoderDecoderTables)
    modules: dict[str, Any] = dict(network._narrow.named_modules())
    layers = {name: layer for name, layer in modules.items() if hasattr(layer, "in_features")}
    for name, layer in layers.items():
        method = "narrow" if isinstance(layer, NarrowLinear) else "forward"
        compute = timed(name, layer.in_features * layer.out_features, getattr(layer, method))
        setattr(layer, method, compute)
    output = scorer.layer
    assert isinstance(output, ExactOutputLayer)
    vars(output)["log_z"] = timed("log Z", output.weight.numel(), output.log_z)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    started = time.thread_time()
    try:
        yield
    finally:
        whole = time.thread_time() - started
        torch.set_num_threads(n_threads)
        del vars(output)["log_z"]
        for layer in layers.values():
            vars(layer).pop("narrow", None)
            vars(layer).pop("forward", None)
    for name, spent in sorted(seconds.items(), key=lambda each: -each[1]):
        print(f"  {name}: {operations[name] / spent / 1e9:.0f} GFLOP/s, {spent / whole:.0%}")
    print(f"  around the products: {1 - sum(seconds.values()) / whole:.0%}")
