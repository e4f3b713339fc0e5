"""Mapping a function over items on the workers of a Ray cluster, with results in order.

This process reads the items, hands them out and takes the results; only it reads and writes files. A worker
prepares its function once. When it or its machine is lost, the other workers repeat its items, and a new one
is started. Ray, of the extra `cluster`, is imported only when a cluster is opened.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar

from moses_bridge.base.errors import ConfigError, UserError, extra_named
from moses_bridge.base.machine import n_processors
from moses_bridge.base.progress import print_note
from moses_bridge.base.textio import temporary_directory

Item = TypeVar("Item")
Result = TypeVar("Result")
Unit = Literal["CPU", "GPU"]
# Runs once in each worker; the function it returns stays there.
Preparation = Callable[[], Callable[[Item], Result]]

LOCAL = "local"
# Ray listens on all interfaces, and anybody connected can run anything: so connecting needs the token.
# These are variables of the environment, from Ray 2.52 on.
AUTH_MODE, AUTH_TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
TOKEN = (
    f". The cluster must ask for a token: start it with {AUTH_MODE}=token, and set {AUTH_TOKEN} here "
    f"(or {AUTH_MODE}=disabled for a cluster in a network that is your own)"
)
BUSY = ". Is the machine busy? Start the command again, or use --jobs without --ray"
NICENESS = "RAY_worker_niceness"  # a variable of the environment, in Ray's spelling
SECONDS_TO_CONNECT = 5.0
SECONDS_TO_END = 5.0
ITEMS_HELD = 4  # per worker: items read whose results are not yet yielded
LOSSES = 3  # workers lost at the same item: then the item is the cause
SECONDS_BEFORE_A_NOTE = 30.0


@dataclass(frozen=True)
class Cluster:
    """A connected Ray cluster: its number of worker processes, and the unit given to each of them."""

    n_workers: int
    unit: Unit = "CPU"

    def workers(self, prepare: Preparation[Item, Result]) -> Workers[Item, Result]:
        """The workers, for a `with` block; prepare is sent to each of them to make its function."""
        return Workers(self, prepare)

    def map_in_order(
        self, prepare: Preparation[Item, Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """`Workers.map_in_order`, with workers for these items only."""
        with self.workers(prepare) as workers:
            yield from workers.map_in_order(items)


@contextlib.contextmanager
def open_cluster(
    address: str, n_workers: int | None = None, unit: Unit | None = None
) -> Iterator[Cluster]:
    """Connect to a Ray cluster, until the end of the `with` block.

    The cluster must require a token, unless RAY_AUTH_MODE is set to something else. A cluster
    started here has a random token if RAY_AUTH_TOKEN is not set. If your program imports Ray
    itself, set both variables before.

    Args:
        address: HOST:PORT of the cluster's head, if this machine belongs to the cluster; "auto"
            finds the cluster of this machine; "local" starts one here and ends it.
        n_workers: number of worker processes; None for one per unit of the cluster.
        unit: the unit given to each worker; None is a GPU if the cluster has one, otherwise a CPU.

    Raises:
        ConfigError: the address is malformed, or the cluster has no such unit.
        UserError: Ray is not installed, there is no cluster at the address, or none could be
            started.
    """
    ray = _imported(address == LOCAL)
    with contextlib.ExitStack() as stack:
        if address == LOCAL:
            # At Ray's niceness of 15 one other busy process leaves a worker a thirtieth of a processor.
            os.environ.setdefault(NICENESS, "0")
            folder = stack.enter_context(temporary_directory("ray"))
            n_processes = n_workers or n_processors()
            own = {"num_cpus": n_processes, "_temp_dir": str(folder), "include_dashboard": False}
            stack.callback(_end_processes_of, folder)
        else:
            _check_address(address)
            own = {}
        with _sigterm_kept(), _outside_working_directory():
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **own)
            except Exception as error:  # a machine that is too busy is a bare Exception to Ray
                if address == LOCAL:
                    raise UserError(
                        f"no Ray cluster here: {_first_line(error).rstrip('.')}{BUSY}"
                    ) from error
                raise _no_cluster(address, error, TOKEN) from error
        logging.getLogger("ray").setLevel(logging.ERROR)  # errors of the start are in the exception
        stack.callback(ray.shutdown)
        yield _cluster(ray.cluster_resources(), n_workers, unit)


def _imported(is_own: bool) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    if "ray" not in sys.modules:  # Ray reads the variables once
        os.environ.setdefault(AUTH_MODE, "token")
        if is_own:  # else Ray writes a token into the home directory, readable by all
            os.environ.setdefault(AUTH_TOKEN, secrets.token_hex(32))
    with extra_named("cluster"):
        import ray
    return ray


def _check_address(address: str) -> None:
    """Refuse an address without an answer; Ray itself would wait for minutes."""
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
    """Keep this process's handler of SIGTERM; with Ray's, unfinished files would not be removed."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def _outside_working_directory() -> contextlib.AbstractContextManager[None]:
    """Leave the working directory while connecting, unless this process imports modules from it."""
    # Ray puts it ahead of its workers' installed packages: in a clone they would run, and compile, the source.
    here = os.getcwd()
    is_searched = any(os.path.abspath(folder) == here for folder in sys.path)
    return contextlib.nullcontext() if is_searched else contextlib.chdir(os.sep)


def _end_processes_of(folder: Path) -> None:
    """End the processes left of a cluster, as after a failed start; their command lines contain the folder."""
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
    def prepare(self, prepare: Preparation[Item, Result]) -> None:
        self.function = prepare()

    def work(self, item: Item) -> Result:
        return self.function(item)


class Workers(Generic[Item, Result]):
    """The workers of a cluster, each with one item at a time and a function made once by prepare.

    Ray itself would restart a lost worker and repeat its item there; if its machine is gone, that item would
    wait forever. `ray.util.ActorPool` does not notice losses. So the item goes to another worker here.
    """

    def __init__(self, cluster: Cluster, prepare: Preparation[Item, Result]) -> None:
        self.cluster, self.prepare = cluster, prepare
        self.workers: list[Any] = []
        self.idle: list[Any] = []
        # Worker, number and item by the promise of the result; without a number: of the preparation.
        self.calls: dict[Any, tuple[Any, int | None, Any]] = {}
        self.losses = Counter[int | None]()  # of workers, by the number of the item

    def __enter__(self) -> Self:
        import ray

        self.ray = ray
        self.sent = ray.put(self.prepare)
        is_cpu = self.cluster.unit == "CPU"
        share = {"num_cpus": 1} if is_cpu else {"num_cpus": 0, "num_gpus": 1}
        self.actor = ray.remote(**share, max_restarts=0)(_Worker)
        for _ in range(self.cluster.n_workers):
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers, even while they work."""
        # If the connection is closed they have ended, and Ray would start a cluster for this call.
        if self.ray.is_initialized():
            for worker in self.workers:
                self.ray.kill(worker)

    def _start(self) -> None:
        worker = self.actor.remote()
        self.workers.append(worker)
        self.calls[worker.prepare.remote(self.sent)] = worker, None, None

    def map_in_order(self, items: Iterable[Item]) -> Iterator[Result]:
        """Yield the result of each item, in their order; the items are read while the workers work.

        At most four items per worker are in memory here: read, handed out, or finished before an
        earlier one. Take all results of a call before the next call.

        Raises:
            UserError: a worker raised one, no worker could be started, or several were lost at one
                item.
        """
        self.losses.clear()
        unread, n_read, n_yielded = iter(items), 0, 0
        ready, done = deque[tuple[int, Item]](), dict[int, Result]()
        while True:
            while self.idle and ready:
                worker, (number, item) = self.idle.pop(), ready.popleft()
                self.calls[worker.work.remote(item)] = worker, number, item
            # Read now, the next items wait for the workers, and no worker for them.
            n_held, n_workers = n_read - n_yielded, self.cluster.n_workers
            n_new = min(ITEMS_HELD * n_workers - n_held, n_workers - len(ready))
            new = list(islice(unread, max(0, n_new)))
            ready += enumerate(new, n_read)
            n_read += len(new)
            if self.idle and ready:
                continue
            if n_yielded in done:
                yield done.pop(n_yielded)
                n_yielded += 1
            elif n_yielded == n_read:
                return
            else:
                self._wait(ready, done)

    def _wait(self, ready: deque[tuple[int, Item]], done: dict[int, Result]) -> None:
        """Wait until a worker has finished an item or its preparation, or is lost."""
        came, _ = self.ray.wait([*self.calls], num_returns=1, timeout=SECONDS_BEFORE_A_NOTE)
        if not came and all(number is None for _, number, _ in self.calls.values()):
            print_note("no worker is ready: the Ray cluster starts them, or has no room for them")
        for promise in came:
            worker, number, item = self.calls.pop(promise)
            try:
                result = self.ray.get(promise)
            except self.ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, UserError):
                    raise error.cause from None
                raise
            except self.ray.exceptions.RayError as error:
                self._replace_lost(worker, number, error)
                if number is not None:
                    ready.appendleft((number, item))
                continue
            self.idle.append(worker)
            if number is None:
                del self.losses[None]
            else:
                done[number] = result

    def _replace_lost(self, worker: Any, number: int | None, error: Exception) -> None:
        most, what = LOSSES, "were lost at the same piece of work"
        if number is None:
            most, what = LOSSES * self.cluster.n_workers, "could not be started"
        self.losses[number] += 1
        if self.losses[number] >= most:
            reason = f"perhaps for want of memory: {_first_line(error)}"
            raise UserError(f"{most} workers {what}, {reason}") from error
        print_note("a worker was lost: what it had is done again")
        self.ray.kill(worker)
        self._start()
