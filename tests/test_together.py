"""Which tests one process runs when there are several (`-n`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
EVERY = "tests/rescorer/test_every_architecture.py"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("tests/a/test_b.py::test_c[1]", "tests/a/test_b.py::test_d", True),
        ("tests/a/test_b.py::test_c", "tests/b/test_b.py::test_c", False),
        ("tests/a/test_cluster.py::test_c", "tests/b/test_cluster_x.py::test_d[a-b]", True),
        (f"{EVERY}::test_c[1-1-encdec]", f"{EVERY}::test_d[encdec]", True),
        (f"{EVERY}::test_c[encdec]", f"{EVERY}::test_c[cslm]", False),
        (f"{EVERY}::test_c", f"{EVERY}::test_d", True),
    ],
)
def test_what_runs_in_one_process(
    one: str, other: str, expected: bool, pytestconfig: pytest.Config
) -> None:
    conftest = pytestconfig.pluginmanager.get_plugin(str(HERE / "conftest.py"))
    assert (conftest.together(one) == conftest.together(other)) is expected


def test_the_file_that_is_divided_is_there() -> None:
    (named,) = re.findall(r'name == "(test_\w+\.py)"', (HERE / "conftest.py").read_text())
    assert [path.name for path in HERE.rglob(named)] == [named]
