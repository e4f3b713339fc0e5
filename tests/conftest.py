"""What every test may ask for."""

from __future__ import annotations

import os
import secrets
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.cluster import NICENESS

# Before PyTorch is loaded: its threads shall not spin beside other work (see rescorer.parallel).
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
# Networks of tests are small, and with -n there are as many processes as processors.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Outputs of Moses on generated text; they are part of the repository.
SMALL = Path(__file__).resolve().parent / "data" / "moses"
# The same files made of real text, in a folder of their own.
LARGE = Path(
    os.environ.get("MOSES_GOLDEN", Path(__file__).resolve().parents[2] / "shared" / "moses-golden")
)
SETS = {"small": SMALL} | ({"large": LARGE} if LARGE.is_dir() else {})


def pytest_report_header() -> str:
    without = "" if "large" in SETS else "; no large ones (set MOSES_GOLDEN to their folder)"
    return f"outputs of Moses: {', '.join(SETS)}{without}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.option.markexpr == "not slow":
        terminalreporter.write_line("Without the tests marked slow: `make test-all` runs them too.")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process that `-n` started: say which tests belong together, and what begins first.

    All files with tests of Ray are one group, since each process would start clusters of its own. What takes
    long begins first, so that no process is left alone with it at the end.
    """
    if not hasattr(config, "workerinput"):
        return
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    with_ray = {item.path for item in items if "ray" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: (item.path not in slow, item.path not in with_ray))
    for item in items:
        mark, call = item.get_closest_marker("grouped_by"), getattr(item, "callspec", None)
        if item.path in with_ray:
            item.add_marker(pytest.mark.xdist_group("ray"))
        elif mark and call and mark.args[0] in call.params:
            item.add_marker(pytest.mark.xdist_group(str(call.params[mark.args[0]])))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One process takes a whole group, and what is in none by whole files."""
    from xdist.scheduler import LoadGroupScheduling

    class GroupsAndFiles(LoadGroupScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            group: str = super()._split_scope(nodeid)
            return nodeid.split("::")[0] if group == nodeid else group

    return GroupsAndFiles(config, log) if config.option.dist == "loadgroup" else None


@pytest.fixture(scope="session", params=SETS)
def golden(request: pytest.FixtureRequest) -> Path:
    """Outputs of Moses: the test runs on the small ones, and on the large ones where they are."""
    return SETS[request.param]


@pytest.fixture(scope="session")
def small_golden() -> Path:
    """Outputs of Moses on generated text, for what the large ones lack."""
    return SMALL


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    """The library, where the extra `cluster` is installed; what knows no token cannot use its clusters."""
    # Before it is loaded, or it looks for no token.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ[NICENESS] = "0"  # else another busy process makes a test run into its time limit
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    # Names of sockets must be short, so pytest's own folders are too deep.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder
        yield pytest.importorskip("ray", reason="Ray, the extra `cluster`, is not installed")


@pytest.fixture(scope="session")
def start_ray_cluster(ray: Any) -> Callable[[int], Any]:
    """Starts a Ray cluster of one machine with so many processors, in seconds."""
    from ray.cluster_utils import Cluster

    def start(n_processors: int) -> Any:
        before = signal.getsignal(signal.SIGTERM)
        own = {"num_cpus": n_processors, "include_dashboard": False}
        cluster = Cluster(True, head_node_args=own)
        signal.signal(signal.SIGTERM, before)  # the head took it for itself
        return cluster

    return start


@pytest.fixture
def sigterm_kept() -> Iterator[None]:
    """A node that a test adds takes SIGTERM for itself: afterwards it is as before."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def ray_cluster(start_ray_cluster: Callable[[int], Any]) -> Iterator[Any]:
    """One for all tests, with two processors."""
    cluster = start_ray_cluster(2)
    yield cluster
    cluster.shutdown()


@pytest.fixture
def ray_address(ray_cluster: Any) -> str:
    """Where that cluster is."""
    address: str = ray_cluster.address
    return address
