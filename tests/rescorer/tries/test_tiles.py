"""."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from moses_bridge.base.blocks import map_in_order
from moses_bridge.base.errors import UserError
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Precision
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.output_layer import ExactOutputLayer
from rescorer.layers.units import UnitName
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder, encdec_scorer
from rescorer.scorers.rnn_lm import RnnLm, RnnLmConfig, rnn_lm_scorer
from rescorer.scorers.rnnsearch import RnnSearch, RnnSearchConfig
from rescorer.tries.scoring import TrieScorer
from rescorer.tries.tiles import SIZES, Tiles, can_be_tiled, tile_sizes
from tests.rescorer.plain_networks import log_probs

WORDS = [b"w%d" % number for number in range(20)]
VOCABULARY = Vocabulary(WORDS)
SHORTLISTS = Shortlists(VOCABULARY, VOCABULARY)
N_WORDS = len(VOCABULARY)
Scorer = TrieScorer[Any, Any, Any, Any]


def drawn(network: Any) -> Any:
    torch.manual_seed(3)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return network.eval()


def encdec(unit: UnitName = "gated") -> EncoderDecoder:
    network: EncoderDecoder = drawn(EncoderDecoder(EncDecConfig(24, 10, 8, unit), N_WORDS, N_WORDS))
    return network


def scorer_of(
    sizes: Sequence[int] | None, unit: UnitName = "gated", precision: Precision = "float32"
) -> Scorer:
    """One that scores in tiles of these sizes, or None: as a CPU does."""
    compute = Compute(precision, "cpu")
    scorer = encdec_scorer(TrainedModel("encdec", encdec(unit), SHORTLISTS, {}), compute)
    if sizes is not None:
        scorer.tiles = Tiles(scorer.network, scorer.layer, sizes)
    return scorer


def language_model_of(sizes: Sequence[int] | None, factor_width: int) -> Scorer:
    network = drawn(RnnLm(RnnLmConfig("lstm", 12, 7, factor_width), N_WORDS))
    model = TrainedModel("rnn_lm", network, Shortlists(None, VOCABULARY), {})
    scorer = rnn_lm_scorer(model, Compute("float32", "cpu"))
    if sizes is not None:
        scorer.tiles = Tiles(scorer.network, scorer.layer, sizes)
    return scorer


def pairs(n_pairs: int, seed: int = 5) -> Batch:
    rng = np.random.default_rng(seed)

    def phrase(n_words: int) -> bytes:
        return b" ".join(WORDS[number] for number in rng.integers(0, len(WORDS), n_words))

    sources = [phrase(1 + number % 5) for number in range(n_pairs // 3 + 1)]
    chosen = [sources[number] for number in rng.integers(0, len(sources), n_pairs)]
    return Batch(chosen, [phrase(int(n)) for n in rng.integers(0, 5, n_pairs)])


def exact(batch: Batch) -> NDArray[np.float64]:
    """Pair by pair in float64, by PyTorch alone."""
    given = [array for side in (batch.sources, batch.targets) for array in encoded(side)]
    with torch.no_grad():
        return log_probs(encdec().double(), *given).numpy()


def encoded(phrases: Sequence[bytes]) -> tuple[Tensor, Tensor]:
    ids, lens = VOCABULARY.encode_phrases(phrases)
    return torch.from_numpy(ids).long(), torch.from_numpy(lens)


@pytest.mark.parametrize("sizes", [SIZES, (4,), (4, 8, 64)])
@pytest.mark.parametrize("n_rows", [0, 1, 3, 4, 191, 192, 193, 3000, 3072, 8193, 20_000])
def test_only_the_last_tile_is_filled_up(sizes: Sequence[int], n_rows: int) -> None:
    found = tile_sizes(n_rows, sizes)
    assert set(found) <= set(sizes)
    n_filled = sum(found) - n_rows
    assert 0 <= n_filled < max([*found[-1:], 1])
    assert not n_filled or 4 * n_filled <= found[-1] or found[-1] == sizes[0]


def test_sizes_by_hand() -> None:
    assert tile_sizes(2500) == [2048, 512]
    assert tile_sizes(3100) == [4096]
    assert tile_sizes(9000) == [8192, 1024]
    assert tile_sizes(1) == [256]


@pytest.mark.parametrize("sizes", [SIZES, (4, 16, 256), (128,)])
@pytest.mark.parametrize("n_pairs", [1, 2, 90])
def test_equal_a_plain_network_in_float64(sizes: Sequence[int], n_pairs: int) -> None:
    batch = pairs(n_pairs)
    found = scorer_of(sizes).values(batch)
    np.testing.assert_allclose(found, exact(batch), atol=2e-5, rtol=1e-6)


@pytest.mark.parametrize("unit", ["gated", "lstm"])
@pytest.mark.parametrize(("precision", "atol"), [("float32", 1e-5), ("bfloat16", 0.02)])
def test_equal_what_a_cpu_computes(unit: UnitName, precision: Precision, atol: float) -> None:
    batch = pairs(120)
    expected = scorer_of(None, unit, precision).values(batch)
    found = scorer_of((32, 64, 128), unit, precision).values(batch)
    np.testing.assert_allclose(found, expected, atol=atol)


@pytest.mark.parametrize("factor_width", [0, 5])
def test_a_language_model_equals_what_a_cpu_computes(factor_width: int) -> None:
    batch = pairs(60)
    expected = language_model_of(None, factor_width).values(batch)
    found = language_model_of((16, 64), factor_width).values(batch)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_words_equal_what_a_cpu_computes() -> None:
    batch = pairs(50)
    expected, found = (scorer_of(sizes).word_log_probs(batch) for sizes in (None, (16, 64)))
    np.testing.assert_array_equal(found.pairs, expected.pairs)
    np.testing.assert_allclose(found.log_probs, expected.log_probs, atol=1e-5)


def test_bytes_of_a_row_do_not_depend_on_its_neighbours() -> None:
    """Where all tiles have one size; sources are read in as many rows as there are."""
    batch, scorer = pairs(60), language_model_of((128,), 5)
    whole = scorer.values(batch)
    alone = [scorer.values(batch.part(np.array([row])))[0] for row in range(0, 60, 7)]
    assert whole[::7].tolist() == alone


def test_bytes_of_a_block_do_not_depend_on_the_blocks_before() -> None:
    blocks = [pairs(100, 1), pairs(3, 2), pairs(70, 3)]
    scorer = scorer_of((16, 64, 128))
    after_others = [scorer.values(block) for block in blocks][-1]
    assert scorer_of((16, 64, 128)).values(blocks[-1]).tobytes() == after_others.tobytes()


def test_threads_give_the_same_bytes() -> None:
    blocks, scorer = [pairs(40, seed) for seed in range(6)], scorer_of((16, 64))
    expected = [scorer.values(block) for block in blocks]
    np.testing.assert_array_equal(list(map_in_order(scorer.values, blocks, 3)), expected)


def test_more_pairs_than_a_tile_has_rows_come_in_parts() -> None:
    batch = pairs(200)
    found = scorer_of((8, 32)).values(batch)
    np.testing.assert_allclose(found, exact(batch), atol=2e-5, rtol=1e-6)


def test_without_words_or_pairs() -> None:
    batch = Batch([b"w1", b"w2 w3"], [b"", b""])
    np.testing.assert_allclose(scorer_of((4,)).values(batch), exact(batch), atol=2e-5)
    assert scorer_of((4,)).values(Batch([], [])).shape == (0,)


def test_an_attention_is_not_tiled() -> None:
    network = RnnSearch(RnnSearchConfig("attention", 6, 5, 4, 3), N_WORDS, N_WORDS, 0.0)
    assert not can_be_tiled(network)
    assert can_be_tiled(encdec())


class Recorded(TorchFunctionMode):
    """A CUDA graph on a CPU: the operations of a step, repeated on the tensors they first had."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable[[], Any], tuple[Tensor, ...]]] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        call = partial(function, *args, **(kwargs or {}))
        result = call()
        self.calls.append((call, tensors_of(result)))
        return result

    def replay(self) -> None:
        for call, results in self.calls:
            for found, result in zip(tensors_of(call()), results, strict=True):
                result.copy_(found.clone())


def tensors_of(result: Any) -> tuple[Tensor, ...]:
    many = result if isinstance(result, tuple | list) else (result,)
    return tuple(one for one in many if isinstance(one, Tensor))


class PlainLayer(ExactOutputLayer):
    """Of PyTorch's operations alone, which a graph can have."""

    def log_z(self, rows: Tensor) -> Tensor:
        return torch.logsumexp(rows @ self.weight.T + self.bias, dim=1)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    """All that are captured by a pretended GPU."""
    made: list[Recorded] = []

    def new() -> Recorded:
        made.append(Recorded())
        return made[-1]

    @contextlib.contextmanager
    def capture(graph: Recorded, *_: Any, capture_error_mode: str) -> Iterator[None]:
        assert capture_error_mode == "thread_local"
        with graph:
            yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", new)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    return made


def capturing(sizes: Sequence[int]) -> Scorer:
    network = encdec()
    layer = PlainLayer(network.output, torch.float32)
    scorer: Scorer = TrieScorer(network, layer, SHORTLISTS)
    scorer.tiles = Tiles(network, layer, sizes)
    with torch.inference_mode():
        scorer.tiles._levels.captures = True
    return scorer


def test_captured_steps_equal_the_plain_ones(graphs: list[Recorded]) -> None:
    scorer, blocks = capturing((16, 64, 128)), [pairs(100, 1), pairs(5, 2), pairs(70, 3)]
    for block in blocks * 2:
        np.testing.assert_allclose(scorer.values(block), exact(block), atol=2e-5, rtol=1e-6)
    assert len(graphs) == 4  # two steps, of 16 and 64 rows


def test_a_captured_step_with_other_results_is_refused(
    graphs: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recorded, "replay", lambda graph: graph.calls[-1][-1][0].add_(1))
    with pytest.raises(UserError, match="other results than at first: score with --device cpu"):
        capturing((64,)).values(pairs(10))


def test_without_graphs_steps_are_computed_plainly(
    graphs: list[Recorded], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "graph", fail)
    batch = pairs(10)
    found = capturing((64,)).values(batch)
    np.testing.assert_allclose(found, exact(batch), atol=2e-5, rtol=1e-6)
    assert "repeats no step of the network" in capsys.readouterr().err
