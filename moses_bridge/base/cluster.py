"""Work on the processes of a Ray cluster, results in order.

The driver, which is this process, reads the items, hands them out and takes the results; it alone knows files.
A worker makes ready once what it works with, and then takes one item after the other. When a worker is lost,
with its machine or alone, what it had is done again by the others, and Ray is asked for a new one.

Ray is imported here alone, and only when a cluster is opened: it belongs to the extra `cluster`.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar

from moses_bridge.base.errors import ConfigError, UserError
from moses_bridge.base.processors import n_processors
from moses_bridge.base.progress import print_note
from moses_bridge.base.textio import temporary_directory

Item = TypeVar("Item")
Result = TypeVar("Result")
Unit = Literal["CPU", "GPU"]
# Runs in a worker, once; it and what it gives need not be sent back.
Preparation = Callable[[], Callable[[Item], Result]]

LOCAL = "local"
INSTALL = "Ray is not installed: pip install 'rescorer[cluster]'"
# Ray listens on all interfaces, and whoever may connect runs what they like: so nobody without the token may.
AUTH_MODE, AUTH_TOKEN = (
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN",
)  # variables of the environment, from Ray 2.52 on
TOKEN = (
    f". The cluster must ask for a token: start it with {AUTH_MODE}=token, and set {AUTH_TOKEN} here "
    f"(or {AUTH_MODE}=disabled for a cluster in a network that is your own)"
)
BUSY = ". Is the machine busy? Start the command again, or use --jobs without --ray"
NICENESS = "RAY_worker_niceness"  # a variable of the environment, which Ray spells so
SECONDS_TO_CONNECT = 5.0
SECONDS_TO_END = 5.0
ITEMS_AT_A_WORKER = 2  # one in work and one that waits, so that it need not wait for the driver
ITEMS_HELD = 4  # for each worker: read, and not yet given back in order
LOSSES = 3  # of workers at the same item: then it is the item
SECONDS_BEFORE_A_NOTE = 30.0


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster, connected.

    Attributes:
        n_workers: processes that work at a time.
        unit: what each of them has one of.
    """

    n_workers: int
    unit: Unit = "CPU"

    def workers(self, prepare: Preparation[Item, Result]) -> Workers[Item, Result]:
        """The processes, from `with` to the end of the block.

        Args:
            prepare: makes what works on items, once in each of them; it is sent there, as the items are.
        """
        return Workers(self, prepare)

    def map_in_order(
        self, prepare: Preparation[Item, Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """`Workers.map_in_order`, with workers for these items alone."""
        with self.workers(prepare) as workers:
            yield from workers.map_in_order(items)


@contextlib.contextmanager
def open_cluster(
    address: str, n_workers: int | None = None, unit: Unit | None = None
) -> Iterator[Cluster]:
    """Connect to a Ray cluster, until the end of the block.

    A cluster must ask for a token, unless RAY_AUTH_MODE is set to something else. One that is started here has
    a random one, if RAY_AUTH_TOKEN is not set. A program that loads Ray itself sets both before it does so.

    Args:
        address: HOST:PORT of the cluster's head, from a machine that belongs to it; "auto" finds the cluster of
            this machine; "local" starts one here and ends it.
        n_workers: processes that work at a time; None for one of each unit that there is.
        unit: what each of them has one of; None is a GPU where the cluster has any.

    Raises:
        ConfigError: Ray is not installed, or there is no GPU in the cluster.
        UserError: there is no cluster at the address, or none could be started.
    """
    ray = _imported(address == LOCAL)
    with contextlib.ExitStack() as stack:
        if address == LOCAL:
            # At Ray's niceness of 15 one other busy process leaves a worker a thirtieth of a processor.
            os.environ.setdefault(NICENESS, "0")
            folder = stack.enter_context(temporary_directory(Path(tempfile.gettempdir()), "ray"))
            n_processes = n_workers or n_processors()
            own = {"num_cpus": n_processes, "_temp_dir": str(folder), "include_dashboard": False}
            stack.callback(_end_processes_of, folder)
        else:
            _check_address(address)
            own = {}
        with _sigterm_kept():
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **own)
            except Exception as error:  # a machine that is too busy is a bare Exception to Ray
                if address == LOCAL:
                    raise UserError(
                        f"no Ray cluster here: {_first_line(error).rstrip('.')}{BUSY}"
                    ) from error
                raise _no_cluster(address, error, TOKEN) from error
        logging.getLogger("ray").setLevel(logging.ERROR)  # while it starts, all is in the exception
        stack.callback(ray.shutdown)
        yield _cluster(ray.cluster_resources(), n_workers, unit)


def _imported(is_own: bool) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    if "ray" not in sys.modules:  # which reads them once
        os.environ.setdefault(AUTH_MODE, "token")
        if is_own:  # else Ray writes one into the home directory, where all may read it
            os.environ.setdefault(AUTH_TOKEN, secrets.token_hex(32))
    try:
        import ray
    except ImportError as error:
        raise ConfigError(INSTALL) from error
    return ray


def _check_address(address: str) -> None:
    """Ray itself waits for minutes at an address where nobody answers."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal()) or "/" in host:
        raise ConfigError(
            f"found --ray {address}, expected HOST:PORT of a cluster's head, auto or local; "
            "start the command on a machine of the cluster"
        )
    try:
        socket.create_connection((host, int(port)), SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception, hint: str = "") -> UserError:
    return UserError(f"no Ray cluster at {address}: {_first_line(error)}{hint}")


@contextlib.contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Keep what this process does at SIGTERM, where Ray would end it without tidying up."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def _end_processes_of(folder: Path) -> None:
    """End what is left of a cluster: of one that does not come up Ray forgets the processes.

    They have the folder, whose name is nobody else's, in their command lines.
    """
    until = time.monotonic() + SECONDS_TO_END
    while (found := _processes_of(folder)) and time.monotonic() < until:
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)


def _processes_of(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if os.fsencode(folder) in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return [process for process in found if process != os.getpid()]


def _cluster(resources: dict[str, float], n_workers: int | None, unit: Unit | None) -> Cluster:
    n_of = {"CPU": int(resources.get("CPU", 0)), "GPU": int(resources.get("GPU", 0))}
    if unit is None:
        unit = "GPU" if n_of["GPU"] else "CPU"
    if not n_of[unit]:
        raise ConfigError(f"the Ray cluster has no {unit} to work with")
    return Cluster(n_workers or n_of[unit], unit)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


class _Worker(Generic[Item, Result]):
    """What runs in a process of the cluster."""

    def prepare(self, prepare: Preparation[Item, Result]) -> None:
        self.function = prepare()

    def work(self, item: Item) -> Result:
        return self.function(item)


class Workers(Generic[Item, Result]):
    """Processes of a cluster that have made ready the same, and what each of them has to do.

    Args:
        cluster: where they run.
        prepare: what each of them makes ready.
    """

    def __init__(self, cluster: Cluster, prepare: Preparation[Item, Result]) -> None:
        self.prepare = prepare
        self.n_workers = cluster.n_workers
        self.unit = cluster.unit
        self.starting: dict[Any, Any] = {}  # worker by the promise that it is ready
        self.given: dict[Any, tuple[Any, int]] = {}  # worker and number of the item by the promise
        self.ready: dict[Any, int] = {}  # how many items each worker has
        self.items: dict[int, Item] = {}  # those that are not done
        self.again: list[int] = []  # items of lost workers
        self.losses = Counter[int]()
        self.failed_starts = 0
        self.done: dict[int, Result] = {}

    def __enter__(self) -> Self:
        """Start them."""
        import ray

        self.ray = ray
        self.sent = ray.put(self.prepare)
        share = {"num_cpus": 1} if self.unit == "CPU" else {"num_cpus": 0, "num_gpus": 1}
        self.actor = ray.remote(**share, max_restarts=0)(_Worker)
        for _ in range(self.n_workers):
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        """End them, whatever they do."""
        # Where the connection is closed they have ended, and Ray would start a cluster to be told so.
        if self.ray.is_initialized():
            for worker in [*self.starting.values(), *self.ready]:
                self.ray.kill(worker)

    def _start(self) -> None:
        worker = self.actor.remote()
        self.starting[worker.prepare.remote(self.sent)] = worker

    def map_in_order(self, items: Iterable[Item]) -> Iterator[Result]:
        """Yield what the workers make of each item, in their order.

        Four items a worker at most are in memory here: read, handed out or done before an earlier one. All
        results of an earlier call must have been taken.

        Args:
            items: read while the workers work.

        Raises:
            UserError: a worker raised it; or none could be started, or several were lost at one item.
        """
        following, numbered = 0, enumerate(items)
        self.losses.clear()
        while self._hand_out(numbered):
            self._wait()
            while following in self.done:
                yield self.done.pop(following)
                following += 1

    def _hand_out(self, items: Iterator[tuple[int, Item]]) -> bool:
        """Give each worker as much as it may have; False if all is done."""
        while self.ready:
            worker = min(self.ready, key=self.ready.__getitem__)
            number = self._following(items) if self.ready[worker] < ITEMS_AT_A_WORKER else None
            if number is None:
                return bool(self.items)
            self.given[worker.work.remote(self.items[number])] = worker, number
            self.ready[worker] += 1
        return True

    def _following(self, items: Iterator[tuple[int, Item]]) -> int | None:
        """The number of the item that is to be done next; None if there is none, or too many are held."""
        if self.again:
            return heapq.heappop(self.again)
        if len(self.items) + len(self.done) >= ITEMS_HELD * self.n_workers:
            return None
        number, item = next(items, (None, None))
        if number is not None:
            self.items[number] = item  # type: ignore[assignment]
        return number

    def _wait(self) -> None:
        """Take what the next worker has done, or learn that it is ready or lost."""
        pending = [*self.given, *self.starting]
        came, _ = self.ray.wait(pending, num_returns=1, timeout=SECONDS_BEFORE_A_NOTE)
        for promise in came:
            try:
                result = self.ray.get(promise)
            except self.ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, UserError):
                    raise error.cause from None
                raise
            except self.ray.exceptions.RayError as error:
                self._take_leave(promise, error)
            else:
                self._take(promise, result)
        if not came and not self.ready:
            print_note("no worker is ready: the Ray cluster starts them, or has no room for them")

    def _take(self, promise: Any, result: Result) -> None:
        if promise in self.starting:
            self.ready[self.starting.pop(promise)] = 0
            self.failed_starts = 0
            return
        worker, number = self.given.pop(promise)
        self.ready[worker] -= 1
        self.done[number] = result
        del self.items[number]

    def _take_leave(self, promise: Any, error: Exception) -> None:
        """Take back what a lost worker had, and ask for another one."""
        if promise in self.starting:
            worker = self.starting.pop(promise)
            self.failed_starts += 1
            if self.failed_starts >= LOSSES * self.n_workers:
                raise _lost(self.failed_starts, "could not be started", error)
        else:
            worker, _ = self.given[promise]
            self._take_back(worker, error)
        print_note("a worker was lost: what it had is done again")
        self.ray.kill(worker)
        self._start()

    def _take_back(self, worker: Any, error: Exception) -> None:
        """Have what a lost worker had done again; the first item was in work, and may be what ended it."""
        del self.ready[worker]
        promises = [promise for promise, (whose, _) in self.given.items() if whose is worker]
        numbers = [self.given.pop(promise)[1] for promise in promises]
        for number in numbers:
            heapq.heappush(self.again, number)
        in_work = numbers[0]
        self.losses[in_work] += 1
        if self.losses[in_work] >= LOSSES:
            raise _lost(LOSSES, "were lost at the same piece of work", error)


def _lost(n_workers: int, what: str, error: Exception) -> UserError:
    return UserError(
        f"{n_workers} workers {what}, perhaps for want of memory: {_first_line(error)}"
    )
