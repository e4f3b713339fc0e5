"""Blocks of a phrase table scored by the workers of a Ray cluster.

A model's files travel through Ray, as the rows do, so the machines need no common file system: the driver
alone reads the table and the models, and writes.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from moses_bridge.base.cluster import Cluster, Unit, open_cluster
from moses_bridge.formats.phrase_table import Block
from rescorer.contract.choices import Device
from rescorer.contract.parallel import compute_on_one_thread
from rescorer.contract.scorer import NamedScorer
from rescorer.models.model_directory import model_files
from rescorer.models.scorer_choice import ScorerChoice
from rescorer.tables.block_scoring import Executor, ScoredBlock, score_block
from rescorer.tables.run import Run

UNITS: dict[Device, Unit | None] = {"auto": None, "cpu": "CPU", "cuda": "GPU"}
DEVICES: dict[Unit, Device] = {"CPU": "cpu", "GPU": "cuda"}


@dataclass(frozen=True)
class PackedScorers:
    """Scorers that can be made where their models' directories are not.

    Attributes:
        choice: which they are.
        files: of each model, content by place in its directory.
        names: of the scorers, for reports.
    """

    choice: ScorerChoice
    files: tuple[Mapping[str, bytes], ...]
    names: tuple[str, ...]

    def named(self, device: Device) -> list[NamedScorer]:
        """The scorers, made anew on a device; see `ScorerChoice.named`."""
        with tempfile.TemporaryDirectory() as folder:
            models = tuple(Path(folder, str(number)) for number in range(len(self.files)))
            for model, files in zip(models, self.files, strict=True):
                for name, content in files.items():
                    (model / name).parent.mkdir(parents=True, exist_ok=True)
                    (model / name).write_bytes(content)
            compute = replace(self.choice.compute, device=device)
            scorers = replace(self.choice, models=models, compute=compute).named()
        return [replace(each, name=name) for each, name in zip(scorers, self.names, strict=True)]


def packed(choice: ScorerChoice, named: list[NamedScorer]) -> PackedScorers:
    """Scorers with the files of their models.

    Args:
        choice: which they are.
        named: the same, loaded.
    """
    return PackedScorers(
        choice,
        tuple(model_files(model) for model in choice.models),
        tuple(scorer.name for scorer in named),
    )


@dataclass(frozen=True)
class BlockWork:
    """What a worker makes ready: the scorers, once.

    Attributes:
        scorers: to load.
        device: on which they compute.
        run: which columns.
    """

    scorers: PackedScorers
    device: Device
    run: Run

    def __call__(self) -> Callable[[Block], ScoredBlock]:
        """What scores a block, on one thread: so values do not depend on the machine's processors."""
        compute_on_one_thread()
        return partial(score_block, self.run, self.scorers.named(self.device))


@contextlib.contextmanager
def open_scoring(
    address: str, n_workers: int | None, device: Device, scorers: PackedScorers
) -> Iterator[Executor]:
    """What scores a table's blocks on a Ray cluster, until the end of the block.

    Args:
        address: see `moses_bridge.base.cluster.open_cluster`; so is the next one.
        n_workers: that work at a time.
        device: of each worker; "auto" is a GPU where the cluster has any.
        scorers: what each worker loads, once.

    Raises:
        ConfigError: Ray is not installed, or the cluster has no such device.
        UserError: there is no cluster at the address.
    """
    with open_cluster(address, n_workers, UNITS[device]) as cluster:
        yield partial(_scored, cluster, scorers)


def _scored(
    cluster: Cluster, scorers: PackedScorers, run: Run, blocks: Iterator[Block]
) -> Iterator[ScoredBlock]:
    return cluster.map_in_order(BlockWork(scorers, DEVICES[cluster.unit], run), blocks)
