"""Look-ups of n-grams a second and core, as the search asks for them, next to plain PyTorch.

An NNJM with two hidden layers (the default sizes) and with one, and a CSLM, with the shortlists of a text and
untrained weights, since speed does not depend on these. Histories are running text, the word behind is drawn
from the text, and the source place from 64 sentences: hardly two n-grams have the same context. The peers
compute the same numbers for the same windows with the network's own layers: the full softmax, or one product
for each logit. Time is that of the processor, of one thread; through the pipe that of both sides.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from results import Result, write_results

from moses_bridge.base.textio import read_lines
from moses_bridge.formats.ngram_scorer import ESTIMATES, SIZE, SOURCES, NgramScorer, serve_ngrams
from rescorer.contract.choices import Precision
from rescorer.contract.compute import Compute, known_precision
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary, count_words
from rescorer.scorers.cslm import CslmTrainingConfig, cslm_ngram_scorer
from rescorer.scorers.cslm import empty_network as empty_cslm
from rescorer.scorers.nnjm import NnjmConfig, NnjmTrainingConfig, nnjm_ngram_scorer, place_windows
from rescorer.scorers.nnjm import empty_network as empty_nnjm
from rescorer.windows.feed_forward import FeedForward
from rescorer.windows.service import WindowNgramScorer

sys.path.append(str(Path(__file__).parents[2]))  # behind the installed packages
from tests.rescorer.plain_networks import log_probs

N_SENTENCES = 64
BATCHES = (2_000, 20_000)
EXACT_BATCH = 2_000
REPEATS = 5
SEED = 1
ONE_LAYER = NnjmConfig(first_width=512, second_width=0)
DESCRIPTION = {"training": {"config": {"self_normalisation": 0.1}}}

Rows = NDArray[np.int32]


@dataclass(frozen=True)
class Work:
    """A network and the text that is asked for.

    Attributes:
        title: what it is.
        model: the network with its shortlists.
        scorer: makes the service of it.
        sources: their words are the source places.
        around: numbers of the words around each place, *Shape:* (n_places, n_around).
    """

    title: str
    model: TrainedModel[Any]
    scorer: Callable[[TrainedModel[Any], Compute], WindowNgramScorer]
    sources: list[bytes]
    around: NDArray[np.int32]

    def service(self, precision: Precision, unnormalized: bool = True) -> WindowNgramScorer:
        """The service, its sources read."""
        scorer = self.scorer(self.model, Compute(precision, "cpu", unnormalized))
        scorer.read(self.sources)
        return scorer

    def rows(self, scorer: NgramScorer, target: list[bytes], n: int) -> Rows:
        """N-grams to ask for, *Shape:* (n, width)."""
        rng = np.random.default_rng(SEED)
        ids = scorer.encode(b" ".join(target).split())
        starts = rng.integers(0, len(ids) - scorer.order, n)
        columns = [ids[starts + place] for place in range(scorer.order - 1)]
        places = [rng.integers(0, len(self.around), n)] if scorer.reads_source else []
        return np.stack([*places, *columns, rng.choice(ids, n)], axis=1).astype(np.int32)

    def windows(self, rows: Rows) -> torch.Tensor:
        """The same as windows of the network, *Shape:* (n, k)."""
        first = int(self.around.shape[1] > 0)
        around = self.around[rows[:, 0]] if first else self.around[np.zeros(len(rows), int)]
        return torch.from_numpy(np.concatenate([rows[:, first:-1], around], axis=1)).long()


def works(source: list[bytes], target: list[bytes]) -> Iterator[Work]:
    """The networks to measure."""
    torch.manual_seed(SEED)
    size = NnjmTrainingConfig.shortlist
    shortlists = Shortlists(
        *(Vocabulary.from_counts(count_words(side), size) for side in (source, target))
    )
    sources = source[:N_SENTENCES]
    for sizes, layers in ((NnjmConfig(), "two hidden layers"), (ONE_LAYER, "one hidden layer")):
        nnjm = empty_nnjm(NnjmTrainingConfig(model=sizes), shortlists).eval()
        around = place_windows(sources, shortlists, sizes)[0]
        of_nnjm = TrainedModel("nnjm", nnjm, shortlists, DESCRIPTION)
        yield Work(f"NNJM, {layers}", of_nnjm, nnjm_ngram_scorer, sources, around)
    cslm = empty_cslm(CslmTrainingConfig(), shortlists).eval()
    of_cslm = TrainedModel("cslm", cslm, shortlists, DESCRIPTION)
    yield Work("CSLM", of_cslm, cslm_ngram_scorer, sources, np.zeros((1, 0), np.int32))


def measure(work: Work, target: list[bytes]) -> Iterator[Result]:
    """Raw values at each batch and precision, through the pipe, and exact ones."""
    for precision in dict.fromkeys(("float32", known_precision("fastest"))):
        scorer = work.service(precision)
        for n in BATCHES:
            rows = work.rows(scorer, target, n)
            peer = speed(partial(plain_logits, work, rows), n)
            title = f"{work.title}, raw, {n:,} at once"
            ours = speed(partial(scorer.estimates, rows), n)
            yield Result(title, precision, "plain PyTorch, logits", ours, peer, "look-ups/s")
            piped = through_a_pipe(scorer, work.sources, rows)
            yield Result(title, f"{precision}, piped", "not piped", piped, ours, "look-ups/s")
        rows = work.rows(scorer, target, EXACT_BATCH)
        exact = work.service(precision, unnormalized=False)
        ours = speed(partial(exact.log_probs, rows), EXACT_BATCH)
        peer = speed(partial(plain_log_probs, work, rows), EXACT_BATCH)
        title = f"{work.title}, exact, {EXACT_BATCH:,} at once"
        yield Result(title, precision, "plain PyTorch, full softmax", ours, peer, "look-ups/s")


@torch.inference_mode()
def plain_logits(work: Work, rows: Rows) -> torch.Tensor:
    """The words' logits with the network's own layers."""
    network: FeedForward = work.model.network
    words = torch.from_numpy(rows[:, -1]).long()
    hidden = network.hidden(work.windows(rows))
    return (hidden * network.output.weight[words]).sum(1) + network.output.bias[words]


@torch.inference_mode()
def plain_log_probs(work: Work, rows: Rows) -> torch.Tensor:
    """The words' log-probabilities with the network's own layers."""
    words = torch.from_numpy(rows[:, -1].copy()).long()
    return log_probs(work.model.network, work.windows(rows), words)


def speed(work: Callable[[], object], n: int) -> float:
    """Look-ups a second of the processor's time, the best of some runs; a first one compiles."""
    work()
    return n / min(seconds(work) for _ in range(REPEATS))


def seconds(work: Callable[[], object]) -> float:
    """Of the processor, in all threads."""
    started = time.process_time()
    work()
    return time.process_time() - started


def through_a_pipe(scorer: NgramScorer, sources: list[bytes], rows: Rows) -> float:
    """Look-ups a second of the service, asked by another thread of this process."""
    ends = [os.pipe(), os.pipe()]
    (requests, ask), (answers, answer) = (
        (os.fdopen(reader, "rb"), os.fdopen(writer, "wb")) for reader, writer in ends
    )
    service = threading.Thread(target=serve_ngrams, args=(scorer, requests, answer))
    service.start()

    def asked(kind: bytes, payload: bytes, n_bytes: int) -> bytes:
        ask.write(kind + SIZE.pack(len(payload)) + payload)
        ask.flush()
        return answers.read(n_bytes)

    def estimates() -> NDArray[np.float32]:
        found = asked(ESTIMATES, rows.astype("<i4").tobytes(), 4 * len(rows))
        return np.frombuffer(found, "<f4")

    with ask:
        answers.readline()
        asked(SOURCES, b"".join(line + b"\n" for line in sources), 4)
        np.testing.assert_array_equal(estimates(), scorer.estimates(rows))
        result = speed(estimates, len(rows))
    service.join()
    for stream in (requests, answer, answers):
        stream.close()
    return result


def main(source: Path, target: Path, out: Path) -> None:
    """Measure on the words of a parallel text."""
    torch.set_num_threads(1)
    lines = [list(read_lines(path)) for path in (source, target)]
    write_results([result for work in works(*lines) for result in measure(work, lines[1])], out)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
