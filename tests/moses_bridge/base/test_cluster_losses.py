"""The accounts of lost workers, with something in the place of Ray that loses them as it is told."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from moses_bridge.base.cluster import Cluster, Workers
from moses_bridge.base.errors import UserError


class RayError(Exception):
    """What Ray raises where a worker is lost."""


class RayTaskError(RayError):
    """What Ray raises for an error of a worker's function."""


class Promise:
    """A call that runs when its result is asked for; with its worker it is lost."""

    def __init__(self, worker: SimpleNamespace, call: Callable[[], Any]) -> None:
        self.worker, self.call = worker, call

    def result(self) -> Any:
        try:
            if self.worker.is_lost:
                raise RayError
            return self.call()
        except RayError:
            self.worker.is_lost = True
            raise RayError("the worker died") from None


class OtherRay:
    """What `Workers` asks Ray for."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def put(self, value: Any) -> Any:
        return value

    def remote(self, **_: Any) -> Callable[[type], Any]:
        def actor(worker_class: type) -> Any:
            def start() -> SimpleNamespace:
                inside, handle = worker_class(), SimpleNamespace(is_lost=False)
                for name in ("prepare", "work"):
                    method = getattr(inside, name)
                    call = SimpleNamespace(
                        remote=lambda value, method=method: Promise(handle, lambda: method(value))
                    )
                    setattr(handle, name, call)
                return Handle(handle)

            return SimpleNamespace(remote=start)

        return actor

    def wait(
        self, pending: list[Promise], num_returns: int, timeout: float
    ) -> tuple[list[Promise], list[Promise]]:
        return pending[:num_returns], pending[num_returns:]

    def get(self, promise: Promise) -> Any:
        return promise.result()

    def is_initialized(self) -> bool:
        return True

    def kill(self, worker: Any) -> None:
        """It is lost already, or nobody asks it any more."""


class LatestFirst(OtherRay):
    """The first items are the last to be finished."""

    def wait(
        self, pending: list[Promise], num_returns: int, timeout: float
    ) -> tuple[list[Promise], list[Promise]]:
        return pending[-num_returns:], pending[:-num_returns]


class Handle:
    """A worker, which is a key as Ray's handles are."""

    def __init__(self, inside: SimpleNamespace) -> None:
        self.prepare, self.work = inside.prepare, inside.work


class Deaths:
    """Kills the worker at some items, and at some starts, so many times."""

    def __init__(self, at_items: dict[int, int], at_starts: list[bool]) -> None:
        self.at_items, self.at_starts = at_items, at_starts

    def prepare(self) -> Callable[[int], int]:
        if self.at_starts and self.at_starts.pop(0):
            raise RayError
        return self.work

    def work(self, item: int) -> int:
        if self.at_items.get(item, 0) > 0:
            self.at_items[item] -= 1
            raise RayError
        return item


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setitem(sys.modules, "ray", OtherRay())  # type: ignore[arg-type]
    return Cluster(1)


def workers_with(cluster: Cluster, deaths: Deaths) -> Workers[int, int]:
    return cluster.workers(lambda: deaths.prepare())


def test_of_the_items_of_a_lost_worker_the_one_in_work_is_blamed(cluster: Cluster) -> None:
    with workers_with(cluster, Deaths({3: 2}, [])) as workers:
        assert list(workers.map_in_order(range(9))) == [*range(9)]
        assert workers.losses == {3: 2}


def test_losses_of_an_earlier_call_do_not_count(cluster: Cluster) -> None:
    deaths = Deaths({0: 2}, [])
    with workers_with(cluster, deaths) as workers:
        for _ in range(3):
            deaths.at_items[0] = 2
            assert list(workers.map_in_order(range(4))) == [*range(4)]


def test_starts_that_failed_before_one_that_did_not_do_not_count(cluster: Cluster) -> None:
    deaths = Deaths({1: 2}, [True, True, False, True, True, False, True, True, False])
    with workers_with(cluster, deaths) as workers:
        assert list(workers.map_in_order(range(4))) == [*range(4)]
    assert not deaths.at_starts


@pytest.mark.parametrize(
    ("at_items", "at_starts", "message"),
    [
        ({2: 3}, [], "3 workers were lost at the same piece of work"),
        ({}, [True] * 3, "3 workers could not be started"),
    ],
)
def test_the_third_loss_at_one_item_or_start_is_the_last(
    cluster: Cluster, at_items: dict[int, int], at_starts: list[bool], message: str
) -> None:
    with (
        workers_with(cluster, Deaths(at_items, at_starts)) as workers,
        pytest.raises(UserError, match=f"^{message}, perhaps for want of memory: the worker died"),
    ):
        list(workers.map_in_order(range(9)))


def test_items_are_read_on_where_all_in_memory_waited_for_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", LatestFirst())  # type: ignore[arg-type]
    with workers_with(Cluster(2), Deaths({3: 1}, [])) as workers:
        assert list(workers.map_in_order(range(50))) == [*range(50)]
