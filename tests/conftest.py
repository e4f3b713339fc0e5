"""What every test may ask for."""

from __future__ import annotations

import inspect
import math
import os
import re
import secrets
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from moses_bridge.base import progress
from moses_bridge.base.cluster import NICENESS
from moses_bridge.base.text_lines import say

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Before PyTorch is loaded: its threads shall not spin beside other work (see rescorer.contract.compute).
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
# Networks of tests are small, and with -n there are as many processes as processors.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Processes that tests start run the installed packages too, not those of the working directory, which they
# would also compile anew.
os.environ.setdefault("PYTHONSAFEPATH", "1")

# In the background of a shell, or under nohup, these are ignored, and what tests start would ignore them too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# How long an example takes depends on what else the machine does.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# Outputs of Moses on generated text; they are part of the repository.
SMALL = Path(__file__).resolve().parent / "data" / "moses"
# The same files made of real text, in a folder of their own.
LARGE = Path(
    os.environ.get("MOSES_GOLDEN", Path(__file__).resolve().parents[2] / "shared" / "moses-golden")
)
# Names of the files whose tests start Ray clusters begin so.
WITH_RAY = "test_cluster"
LONGEST = "test_table1.py"
KILLED = "test_killed.py"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# As root Chromium has no sandbox; the rest keeps it from looking for its maker's servers.
BROWSER_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SETS = {"small": SMALL} | ({"large": LARGE} if LARGE.is_dir() else {})


def pytest_report_header() -> str:
    without = "" if "large" in SETS else "; no large ones (set MOSES_GOLDEN to their folder)"
    return f"outputs of Moses: {', '.join(SETS)}{without}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.option.markexpr == "not slow":
        terminalreporter.write_line("Without the tests marked slow: `make test-all` runs them too.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process that `-n` started, what takes long begins first, or one is left alone with it at the end.

    The longest of all compiles most functions; what would compile them beside it comes after other slow ones.
    """
    with_ray = {item.path for item in items if "ray" in getattr(item, "fixturenames", ())}
    for path in with_ray:
        if not path.name.startswith(WITH_RAY):
            raise pytest.UsageError(
                f"{path} has tests of Ray: call it {WITH_RAY}*.py, as the others"
            )
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        later = {path for path in slow if path in with_ray or path.name == KILLED}
        items.sort(
            key=lambda item: (item.path not in slow, item.path.name != LONGEST, item.path in later)
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Which tests one process of `-n` runs, with `--dist loadscope`: see `together`.

    Not by the marks of `--dist loadgroup`: with pytest-xdist 3.8 and pytest 9.2 these have no effect.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return together(nodeid)

    return Together(config, log) if config.option.dist == "loadscope" else None


def together(test: str) -> str:
    """What a test has in common with those that run in the same process: its file, as a rule.

    All tests of Ray are together, since each process starts clusters of its own. Each architecture is
    trained once in a process, so where all are tested they are divided among the processes.
    """
    file, _, name = test.partition("::")
    if Path(file).name.startswith(WITH_RAY):
        return WITH_RAY
    if Path(file).name == "test_every_architecture.py" and name.endswith("]"):
        return file + re.split(r"\[|-", name)[-1]
    return file


@pytest.fixture(autouse=True)
def as_on_a_quick_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No work takes so long that a line tells of it before its end; and no test before has said anything."""
    for name in ("SECONDS_BEFORE_FIRST_LOG_LINE", "SECONDS_BETWEEN_LOG_LINES"):
        monkeypatch.setattr(progress, name, math.inf)
    say.cache_clear()


@pytest.fixture(scope="session", params=SETS)
def golden(request: pytest.FixtureRequest) -> Path:
    """Outputs of Moses: the test runs on the small ones, and on the large ones where they are."""
    return SETS[request.param]


@pytest.fixture(scope="session")
def small_golden() -> Path:
    """Outputs of Moses on generated text, for what the large ones lack."""
    return SMALL


@pytest.fixture(scope="session")
def kenlm() -> Any:
    """KenLM's module, where the extra `kenlm` is installed."""
    return pytest.importorskip("kenlm", reason="KenLM, the extra `kenlm`, is not installed")


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
        # Each of what is left out is a process.
        own = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
        cluster = Cluster(True, head_node_args={"num_cpus": n_processors, **own})
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


@pytest.fixture
def public_signatures() -> Callable[[ModuleType], str]:
    """The names in a module's `__all__` with their signatures as they stand in the code, one a line."""
    return _public_signatures


def _public_signatures(module: ModuleType) -> str:
    lines = list[str]()
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if inspect.isclass(value) and issubclass(value, Exception):
            lines.append(name)
            continue
        lines.append(name + _signature(value))
        if inspect.isclass(value):
            methods = inspect.getmembers(value, inspect.isfunction)
            lines += [
                f"{name}.{key}{_signature(method)}" for key, method in methods if key[:1] != "_"
            ]
    return "".join(f"{line}\n" for line in lines)


def _signature(function: Callable[..., object]) -> str:
    """Without `self`, and annotations without their quotes."""
    bare = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(function)))
    return re.sub(r"\(self(, )?", "(", bare)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium; tests that need it are skipped where it is not installed."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(CHROMIUM)} is on the PATH")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=BROWSER_FLAGS)
        yield started
        started.close()
