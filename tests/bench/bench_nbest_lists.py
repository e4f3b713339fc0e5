"""N-best lists with segmentation: hypotheses read a second, and lists learned from a second for expected BLEU.

The peer in reading is the plain path that tests compare with: line by line, n-grams counted in dictionaries.
The peer in training computes the same values of the same distinct phrase pairs with the network's own steps,
padded and in float32, and lets PyTorch find the gradient. Time is that of the processor, of one thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from results import Result, write_results
from torch import Tensor

from moses_bridge.base.textio import read_lines, write_lines
from rescorer.contract.architectures import PhraseValues, load
from rescorer.contract.batch import Batch
from rescorer.contract.compute import dtype_of, known_precision
from rescorer.contract.trained_model import TrainedModel
from rescorer.models.model_directory import load_model
from rescorer.runs.expected_bleu.list_reader import read_lists
from rescorer.runs.expected_bleu.nbest_lists import StoredLists
from rescorer.runs.expected_bleu.run import ExpectedBleuConfig, ExpectedBleuTask, PairValues
from rescorer.tries.recurrent import to_device

sys.path.append(str(Path(__file__).parents[2]))  # behind the installed packages
from tests.rescorer.plain_networks import log_probs
from tests.rescorer.runs.expected_bleu.plain_lists import plain_lists

N_HYPOTHESES = 50_000
N_UPDATES, REPEATS = 3, 2
UNIT = "lists/s"


def main(nbest: Path, source: Path, reference: Path, model: Path, out: Path) -> None:
    """Measure on the first hypotheses of a list."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        some = Path(folder) / "nbest"
        write_lines(some, islice(read_lines(nbest), N_HYPOTHESES))
        files = some, source, [reference]
        lists = read_lists(*files)
        ours = min(seconds(lambda: read_lists(*files)) for _ in range(REPEATS))
        peer = seconds(lambda: plain_lists(*files))
    n = len(lists.part(np.arange(len(lists))).totals)
    work = "read an n-best list with segmentation, sentence BLEU included"
    reading = Result(
        work, "rescorer expected-bleu", "line by line", n / ours, n / peer, "hypotheses/s"
    )
    write_results([reading, *training(load_model(model), lists)], out)


def training(model: TrainedModel[Any], lists: StoredLists) -> Iterator[Result]:
    """Gradients of updates, the same lists in all ways; each update the best of some, the ways by turns."""
    phrase_values = load(model.architecture).phrase_values
    assert phrase_values is not None
    types = {"float32": torch.float32, "fastest": dtype_of(known_precision("fastest"))}
    own = [phrase_values(model, kind) for kind in types.values()]
    tasks = [
        ExpectedBleuTask(values, lists, ExpectedBleuConfig(), 1)
        for values in (lambda pairs: plain(model, pairs), *(read_by(model, one) for one in own))
    ]
    batches = tasks[0].batches(0)[:N_UPDATES]
    found = [
        [[gradient_seconds(task, batch) for task in tasks] for batch in batches]
        for _ in range(REPEATS + 1)
    ]
    n_lists = sum(map(len, batches))
    peer, *ours = n_lists / np.min(found[1:], axis=0).sum(axis=0)
    for name, speed in zip(types, ours, strict=True):
        work = f"train an {model.architecture} for expected BLEU, {name}"
        yield Result(
            work, "rescorer expected-bleu", "plain PyTorch, padded pairs", speed, peer, UNIT
        )


def gradient_seconds(task: ExpectedBleuTask, batch: Any) -> float:
    """Time of the gradient of an update."""
    return seconds(lambda: task.loss(batch)[0].backward())  # type: ignore[no-untyped-call]


def read_by(model: TrainedModel[Any], values: PhraseValues) -> PairValues:
    """Values of pairs in our way."""
    return lambda pairs: values(model.as_read(pairs))


def plain(model: TrainedModel[Any], pairs: Batch) -> Tensor:
    """The same by the steps of the network."""
    read, beside = model.as_read(pairs), model.network.output.weight
    sides = ((model.shortlists.source_words, read.sources), (model.shortlists.target, read.targets))
    arrays = (array for words, side in sides for array in words.encode_phrases(side))
    return log_probs(model.network, *(to_device(array, beside) for array in arrays))


def seconds(work: Callable[[], object]) -> float:
    """Of the processor."""
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:6]))
