"""What every test may ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before PyTorch is loaded: its threads shall not spin beside other work (see rescorer.parallel).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

GOLDEN = Path(
    os.environ.get("MOSES_GOLDEN", Path(__file__).resolve().parents[2] / "shared" / "moses-golden")
)


@pytest.fixture(scope="session")
def golden() -> Path:
    """Outputs of real Moses programs; the test is skipped where there are none."""
    if not GOLDEN.is_dir():
        pytest.skip("no outputs of real Moses programs here (set MOSES_GOLDEN to their folder)")
    return GOLDEN
