"""The processes of one training; each computes a part of a batch, and all make the same update."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor, nn

from moses_bridge.base.errors import ConfigError, UserError

Value = TypeVar("Value")
FAILED = 1


class Peers:
    """The processes of a distributed training; a single process needs no communication.

    `rank` is of this process, from 0; tensors can be sent from `device`.
    """

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | str = "cpu") -> None:
        self.rank = rank
        self.size = size
        self.device = torch.device(device)

    @property
    def is_first(self) -> bool:
        """Whether this process writes and reports."""
        return self.rank == 0

    def sum(self, value: float) -> float:
        """The sum of the processes' numbers."""
        if self.size == 1:
            return value
        total = torch.tensor([value], dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(total)
        return float(total)

    def first(self, value: float) -> float:
        """The number of the first process."""
        if self.size == 1:
            return value
        told = torch.tensor([value], dtype=torch.float64, device=self.device)
        torch.distributed.broadcast(told, 0)
        return float(told)

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace the gradients by their sums over the processes; a missing one counts as 0.

        A gradient missing in all processes stays missing: an optimiser ignores such a parameter, but moves
        one whose gradient is 0.
        """
        if self.size == 1:
            return
        every = list(parameters)
        has_one = torch.tensor([float(each.grad is not None) for each in every], device=self.device)
        own = [torch.zeros_like(each) if each.grad is None else each.grad for each in every]
        flat = torch.cat([has_one, *(gradient.flatten() for gradient in own)])
        torch.distributed.all_reduce(flat)
        n_found, *totals = torch.split(flat, [len(every), *(each.numel() for each in every)])
        for parameter, found, total in zip(every, n_found.tolist(), totals, strict=True):
            parameter.grad = total.view_as(parameter) if found else None

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Send the tensors of the first process to all."""
        if self.size > 1:
            for tensor in tensors:
                torch.distributed.broadcast(tensor, 0)

    def agree(self, value: object, what: str) -> None:
        """Refuse to go on if a process has another value than the first one.

        Raises:
            ConfigError: a process has another value.
        """
        values = self._all(value)
        odd = [rank for rank, other in enumerate(values) if other != values[0]]
        if odd:
            raise ConfigError(
                f"process {odd[0]} of {self.size} has {what} unlike those of process 0: start all "
                "processes with the same command, where they see the same files"
            )

    def together(self, make: Callable[[], Value], first_alone: bool) -> Value:
        """Call `make` in each process, first_alone before the others; if it fails in one, it fails in all.

        Raises:
            UserError: one of them failed with a UserError or an OSError.
        """
        if self.size == 1:
            return make()
        made: list[Value] = []
        for turn in (True, False) if first_alone else (self.is_first,):
            error: UserError | OSError | None = None
            if turn == self.is_first:
                try:
                    made.append(make())
                except (UserError, OSError) as raised:
                    error = raised
            self._stop_at(error)
        return made[0]

    def _stop_at(self, error: UserError | OSError | None) -> None:
        messages = self._all(None if error is None else str(error))
        for rank, message in enumerate(messages):
            if message is not None and rank == self.rank and error is not None:
                raise error
            if message is not None:
                raise UserError(f"process {rank} of {self.size}: {message}")

    @contextlib.contextmanager
    def only_first_reports_errors(self) -> Iterator[None]:
        """Let the first process print the errors common to all, and end the others silently."""
        try:
            yield
        except UserError:
            if self.is_first:
                raise
            _end_quietly()

    def _all(self, value: Any) -> list[Any]:
        """The values of all processes, sent as JSON: data from a socket must not be a pickle."""
        if self.size == 1:
            return [value]
        own = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(self.size)]
        torch.distributed.all_gather(sizes, torch.tensor([len(own)], device=self.device))
        longest = max(int(size) for size in sizes)
        padded = torch.zeros(longest, dtype=torch.uint8, device=self.device)
        padded[: len(own)] = own.to(self.device)
        found = [torch.empty_like(padded) for _ in range(self.size)]
        torch.distributed.all_gather(found, padded)
        parts = zip(found, sizes, strict=True)
        return [json.loads(bytes(text[: int(size)].tolist())) for text, size in parts]


ALONE = Peers()


@contextlib.contextmanager
def peers_on(device: torch.device) -> Iterator[tuple[Peers, torch.device]]:
    """The processes started by `torchrun`, and the device of this one; without it, a single process.

    They communicate by gloo on the CPU and by NCCL on GPUs, one GPU a process.

    Raises:
        ConfigError: there are fewer GPUs than processes on this machine.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE, device
        return
    rank = int(os.environ["RANK"])
    if device.type == "cuda":
        device = _own_gpu(int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Peers(rank, size, device), device
    finally:
        torch.distributed.destroy_process_group()


def _own_gpu(local_rank: int) -> torch.device:
    n_gpus = torch.cuda.device_count()
    if local_rank < n_gpus:
        return torch.device("cuda", local_rank)
    if local_rank > n_gpus:
        _end_quietly()
    raise ConfigError(
        f"more processes than the {n_gpus} GPUs of this machine: start {n_gpus} with "
        "--nproc-per-node, or use --device cpu"
    )


def _end_quietly() -> NoReturn:
    """End this process; another one reports the reason."""
    sys.exit(FAILED)
