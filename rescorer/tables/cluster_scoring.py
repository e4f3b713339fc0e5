"""Scoring the blocks of a phrase table on the workers of a Ray cluster.

The models' files are sent through Ray, like the rows, so the machines need no common file system.
Only the driver reads and writes files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from moses_bridge.base.cluster import Unit, open_cluster
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.textio import temporary_directory
from moses_bridge.formats.phrase_table import Block
from rescorer.contract.choices import Device
from rescorer.contract.compute import compute_on_one_thread
from rescorer.contract.scorer import NamedScorer
from rescorer.models.model_directory import model_files
from rescorer.models.pretrained.settings import parse_name
from rescorer.models.scorer_choice import ScorerChoice
from rescorer.tables.block_scoring import Executor, ScoredBlock, score_block
from rescorer.tables.record import RunRecord

UNITS: dict[Device, Unit | None] = {"auto": None, "cpu": "CPU", "cuda": "GPU"}
DEVICES: dict[Unit, Device] = {"CPU": "cpu", "GPU": "cuda"}


@dataclass(frozen=True)
class PackedScorers:
    """Scorers and their models' files by path, for machines without the model directories."""

    choice: ScorerChoice
    files: tuple[Mapping[str, bytes], ...]
    names: tuple[str, ...]

    def named(self, device: Device) -> list[NamedScorer]:
        """Load the scorers on a device; see `ScorerChoice.named`."""
        with temporary_directory("models") as folder:
            models = tuple(folder / str(number) for number in range(len(self.files)))
            for model, files in zip(models, self.files, strict=True):
                for name, content in files.items():
                    (model / name).parent.mkdir(parents=True, exist_ok=True)
                    (model / name).write_bytes(content)
            compute = replace(self.choice.compute, device=device)
            scorers = replace(self.choice, models=models, compute=compute).named()
        return [replace(each, name=name) for each, name in zip(scorers, self.names, strict=True)]

    def block_scorer(self, device: Device, record: RunRecord) -> Callable[[Block], ScoredBlock]:
        """Load the scorers in a worker and return a function scoring a block."""
        compute_on_one_thread()  # so that values do not depend on the number of processors
        return partial(score_block, record, self.named(device))


def packed(choice: ScorerChoice, named: list[NamedScorer]) -> PackedScorers:
    """Pack loaded scorers with the files of their models.

    Raises:
        ConfigError: one of them is a pretrained model, whose files are not sent.
    """
    for name in filter(None, map(parse_name, choice.models)):
        raise ConfigError(f"{name}: a pretrained model is not sent to a cluster: leave --ray out")
    files = tuple(map(model_files, choice.models))
    return PackedScorers(choice, files, tuple(scorer.name for scorer in named))


@contextlib.contextmanager
def open_scoring(
    address: str, n_workers: int | None, device: Device, scorers: PackedScorers
) -> Iterator[Executor]:
    """Connect to a Ray cluster; yield a function scoring the blocks of a run, for a `with` block.

    Arguments and errors are those of `moses_bridge.base.cluster.open_cluster`, with the device of each worker
    ("auto" is a GPU if the cluster has one) for its unit. Each worker loads the scorers once.
    """
    with open_cluster(address, n_workers, UNITS[device]) as cluster:

        def scored(record: RunRecord, blocks: Iterator[Block]) -> Iterator[ScoredBlock]:
            prepare = partial(scorers.block_scorer, DEVICES[cluster.unit], record)
            return cluster.map_in_order(prepare, blocks)

        yield scored
