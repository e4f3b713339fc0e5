"""Work on a Ray cluster of this machine. Functions that stand inside tests are sent, not looked up there."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.cluster import ITEMS_HELD, Cluster, open_cluster
from moses_bridge.base.errors import InputError, UserError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(ray_cluster: Any) -> Iterator[Cluster]:
    with open_cluster(ray_cluster.address) as cluster:
        yield cluster


@pytest.fixture
def one_worker(cluster: Cluster) -> Cluster:
    return replace(cluster, n_workers=1)


def prepared(function: Callable[[int], Any]) -> Callable[[], Callable[[int], Any]]:
    return lambda: function


def test_results_are_in_the_order_of_the_items(cluster: Cluster) -> None:
    def slow_at_first(number: int) -> int:
        time.sleep(0.002 * (20 - number))
        return number**2

    assert (cluster.n_workers, cluster.unit) == (2, "CPU")
    assert list(cluster.map_in_order(prepared(slow_at_first), range(20))) == [
        number**2 for number in range(20)
    ]
    assert list(cluster.map_in_order(prepared(slow_at_first), [])) == []


def test_each_worker_prepares_once_and_works_in_a_process_of_its_own(
    cluster: Cluster, tmp_path: Path
) -> None:
    prepared, at_work = tmp_path / "prepared", tmp_path / "at work"
    prepared.mkdir()
    at_work.mkdir()

    def prepare() -> Callable[[int], int]:
        (prepared / str(os.getpid())).touch(exist_ok=False)

        def work(_: int) -> int:
            (at_work / str(os.getpid())).touch()
            while len([*at_work.iterdir()]) < 2:
                time.sleep(0.02)  # the other worker may start late on a busy machine
            return os.getpid()

        return work

    found = set(cluster.map_in_order(prepare, range(30)))
    assert found == {int(path.name) for path in prepared.iterdir()}
    assert len(found) == 2 and os.getpid() not in found


def test_items_are_not_all_read_ahead(one_worker: Cluster) -> None:
    n_read = 0

    def items() -> Iterator[int]:
        nonlocal n_read
        for number in range(1000):
            n_read += 1
            yield number

    results = one_worker.map_in_order(prepared(lambda number: number), items())
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    assert n_read <= 3 + ITEMS_HELD
    results.close()  # type: ignore[attr-defined]


def test_what_a_killed_worker_had_is_done_again(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def die_once_at_seven(number: int) -> int:
        if number == 7 and not (tmp_path / "dead").exists():
            (tmp_path / "dead").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    assert list(cluster.map_in_order(prepared(die_once_at_seven), range(30))) == [*range(30)]
    assert (tmp_path / "dead").exists()
    assert capfd.readouterr().err.count("a worker was lost: what it had is done again") == 1


def test_an_item_that_kills_each_worker_is_given_up(one_worker: Cluster) -> None:
    def die_at_three(number: int) -> int:
        if number == 3:
            time.sleep(0.5)  # dying at once, a worker takes the result before with it
            os._exit(1)
        return number

    found = []
    with pytest.raises(UserError, match=r"^3 workers were lost at the same piece of work, perhaps"):
        for number in one_worker.map_in_order(prepared(die_at_three), range(9)):
            found.append(number)
    assert found == [0, 1, 2]


def test_workers_that_cannot_be_started_are_given_up(one_worker: Cluster) -> None:
    def prepare() -> Callable[[int], int]:
        os._exit(1)

    with pytest.raises(UserError, match=r"^3 workers could not be started"):
        list(one_worker.map_in_order(prepare, range(9)))


@pytest.mark.parametrize("in_preparation", [True, False])
def test_a_fault_of_the_user_is_raised_as_it_is(one_worker: Cluster, in_preparation: bool) -> None:
    def fail(number: int = 5) -> int:
        if number == 5:
            raise InputError("table", 3, "nothing", "a row", "Mend it")
        return number

    def prepare() -> Callable[[int], int]:
        if in_preparation:
            fail()
        return fail

    with pytest.raises(InputError) as caught:
        list(one_worker.map_in_order(prepare, range(9)))
    assert (caught.value.line, caught.value.hint) == (3, "Mend it")


def test_any_other_error_is_raised_with_its_place(one_worker: Cluster) -> None:
    def fail(number: int) -> float:
        return 1 / number

    with pytest.raises(ZeroDivisionError, match="in fail"):
        list(one_worker.map_in_order(prepared(fail), range(9)))
