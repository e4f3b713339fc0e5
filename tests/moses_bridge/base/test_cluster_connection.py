"""Connections to Ray clusters, and what becomes of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.cluster import NICENESS, open_cluster
from moses_bridge.base.errors import ConfigError, UserError

# Each starts processes of Ray, or a cluster of them.
pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("sigterm_kept")
def test_when_a_machine_is_lost_the_others_do_its_work(ray_cluster: Any) -> None:
    """Its processor is gone, so no new worker can be started."""

    def which(number: int) -> tuple[int, str]:
        time.sleep(0.02)
        return number, os.environ["RAY_RAYLET_PID"]

    machine = ray_cluster.add_node(num_cpus=1, include_log_monitor=False)
    given, found, places = list[int](), list[int](), set[str]()
    since_the_loss = count()

    def items() -> Iterator[int]:
        for number in count():
            if len(places) == 2 and next(since_the_loss) == 50:
                return
            given.append(number)
            yield number

    with open_cluster(ray_cluster.address, 3) as cluster:
        for number, place in cluster.map_in_order(lambda: which, items()):
            found.append(number)
            if place not in places and len(places) == 1:
                ray_cluster.remove_node(machine, allow_graceful=False)
            places.add(place)
    assert found == given
    assert len(places) == 2
    ray_cluster.wait_for_nodes(timeout=300)


def test_what_is_left_of_items_when_the_cluster_is_closed_ends_with_it(
    ray: Any, ray_address: str
) -> None:
    with open_cluster(ray_address, 1) as cluster:
        results = cluster.map_in_order(lambda: str, range(9))
        assert next(results) == "0"
    results.close()  # type: ignore[attr-defined]
    assert not ray.is_initialized()


def test_a_handler_of_sigterm_stays(ray_address: str) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with open_cluster(ray_address):
        assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("is_searched", [False, True])
def test_workers_look_for_modules_where_the_command_does(
    is_searched: bool, ray_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself lets them look in its working directory first: in a clone, at the source."""
    (tmp_path / "lying_about.py").touch()
    monkeypatch.chdir(tmp_path)
    if is_searched:
        monkeypatch.syspath_prepend(tmp_path)
    with open_cluster(ray_address, 1) as cluster:
        assert Path.cwd() == tmp_path
        found = cluster.map_in_order(
            lambda: lambda name: find_spec(name) is not None, ["lying_about"]
        )
        assert [*found] == [is_searched]


def test_where_nobody_answers(ray: Any) -> None:
    message = r"no Ray cluster at 127\.0\.0\.1:1: .*refused"
    with pytest.raises(UserError, match=message), open_cluster("127.0.0.1:1"):
        raise AssertionError("connected")


def test_who_answers_is_no_cluster(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own words, which may be many, are one line, with a hint."""

    def init(*_: object, **__: object) -> None:
        raise ConnectionError("ray: nobody there\nsince noon")

    monkeypatch.setattr(ray, "init", init)
    message = "^no Ray cluster at auto: ray: nobody there. The cluster must ask for a token: start"
    with pytest.raises(UserError, match=message), open_cluster("auto"):
        raise AssertionError("connected")


@pytest.mark.parametrize("address", ["here", "ray://localhost:10001", ":1", "host:port"])
def test_addresses_that_are_none(ray: Any, address: str) -> None:
    with pytest.raises(ConfigError, match=f"found --ray {address}, expected HOST:PORT"):
        open_cluster(address).__enter__()


def test_a_cluster_without_gpus(ray_address: str) -> None:
    with (
        pytest.raises(ConfigError, match="has no GPU to work with"),
        open_cluster(ray_address, unit="GPU"),
    ):
        raise AssertionError("connected")


def test_without_ray_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    expected = r"^ray is not installed: pip install 'rescorer\[cluster\]'$"
    with pytest.raises(UserError, match=expected), open_cluster("local"):
        raise AssertionError("connected")


def test_of_a_cluster_that_does_not_come_up_nothing_is_left(
    ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ray raises a bare Exception then, and forgets the processes that it has started."""
    started: list[subprocess.Popen[bytes]] = []
    endless = "import sys, time; open(sys.argv[1] + '/log', 'w'); time.sleep(60)"

    def init(*_: object, _temp_dir: str, **__: object) -> None:
        started.append(subprocess.Popen([sys.executable, "-c", endless, _temp_dir]))
        while not Path(_temp_dir, "log").exists():
            time.sleep(0.02)
        raise Exception("The current node timed out during startup. This\ncould happen")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    message = r"^no Ray cluster here: The current node timed out during startup\. This\. Is the"
    with pytest.raises(UserError, match=message), open_cluster("local"):
        raise AssertionError("connected")
    assert started[0].wait(60) == -signal.SIGKILL
    assert not [*tmp_path.iterdir()]


STARTED_HERE = """
import json, os
from moses_bridge.base.cluster import open_cluster

def niceness(_=None):
    return os.getpriority(os.PRIO_PROCESS, 0)

with open_cluster("local", 1) as cluster:
    from ray._raylet import AuthenticationMode, get_authentication_mode
    has_token = get_authentication_mode() == AuthenticationMode.TOKEN
    (of_worker,) = cluster.map_in_order(lambda: niceness, [0])
    print(json.dumps([has_token, len(os.environ["RAY_AUTH_TOKEN"]), of_worker - niceness()]))
"""


@pytest.fixture(scope="module")
def started_here(ray: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], Path]:
    """What a process that knows no token says of a cluster that it starts, and its home."""
    unset = {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_TMPDIR", NICENESS}
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    home = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        [sys.executable, "-c", STARTED_HERE],
        env={**environment, "HOME": str(home)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), home


def test_a_cluster_started_here_asks_for_a_token_of_its_own(
    started_here: tuple[list[Any], Path],
) -> None:
    """Ray's own would lie in the home directory."""
    (has_token, n_letters, _), home = started_here
    assert (has_token, n_letters) == (True, 64)
    assert not [*home.rglob("auth_token")]


def test_workers_of_a_cluster_started_here_are_no_nicer_than_the_command(
    started_here: tuple[list[Any], Path],
) -> None:
    """Beside another busy process they would get a thirtieth of a processor each, at Ray's niceness of 15."""
    (*_, how_much_nicer), _ = started_here
    assert how_much_nicer == 0
