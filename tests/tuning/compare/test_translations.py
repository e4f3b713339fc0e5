from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moses_bridge.base.errors import ConfigError
from tuning.compare.translations import translate_runs

if TYPE_CHECKING:
    from tests.tuning.conftest import FixedSystem


def test_only_runs_whose_files_are_unchanged_translate(system: FixedSystem, tmp_path: Path) -> None:
    system.run(tmp_path / "run")
    system["lm"].write_bytes(b"other")
    with pytest.raises(ConfigError, match="LM0/lm changed"):
        translate_runs([tmp_path / "run"], system["source"])


def test_translating_loads_nothing_that_measures() -> None:
    """It starts once a system, and what measures takes longer to load than all else."""
    code = "import sys, tuning.compare.translations; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"scipy.stats", "sacrebleu", "sacremoses"} & {*found.stdout.split()}
