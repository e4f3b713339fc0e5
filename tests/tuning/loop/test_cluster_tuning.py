"""A tuning whose texts are decoded on a Ray cluster, against one without it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tuning.cli import main

# Each starts processes of Ray, or a cluster of them.
pytestmark = pytest.mark.slow

SETTINGS = """\
optimizer = "mert"
keep = "best"
nbest_size = 10
max_iterations = 2
decoder = { kind = "builtin", stack_size = 5, pop_limit = 10 }
search = { mert = { n_restarts = 2 } }
"""


def tuned(system: Path, out: Path, *options: str) -> Result:
    settings = out.with_suffix(".toml")
    settings.write_text(SETTINGS)
    given = ["tune", "--ini", "moses.ini", "--source", "input.en", "--reference", "reference.fr"]
    given += ["--out", str(out), "--config", str(settings), "--jobs", "1", *options]
    return CliRunner().invoke(main, given, prog_name="tuning")


@pytest.fixture
def system(small_golden: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = small_golden / "decode"
    monkeypatch.chdir(folder)
    return folder


def test_the_run_is_that_without_a_cluster(system: Path, tmp_path: Path, ray_address: str) -> None:
    for name, options in {"here": (), "ray": ("--ray", ray_address, "--workers", "2")}.items():
        result = tuned(system, tmp_path / name, *options)
        assert result.exit_code == 0, result.output
    for name in ("iter01.out", "iter02.out", "moses.ini"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    for name in ("iter01.nbest.gz", "iter02.nbest.gz"):
        lists = [gzip.decompress((tmp_path / run / name).read_bytes()) for run in ("ray", "here")]
        assert lists[0] == lists[1]
    runs = [json.loads((tmp_path / run / "weights.json").read_bytes()) for run in ("ray", "here")]
    assert runs[0]["weights"] == runs[1]["weights"]


def test_workers_of_no_cluster_are_refused(system: Path, tmp_path: Path) -> None:
    result = tuned(system, tmp_path / "run", "--workers", "2")
    assert result.exit_code == 1
    assert "--workers are those of a cluster" in result.stderr
