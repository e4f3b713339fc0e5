"""Where the stored outputs of real Moses programs stand, if they do."""

from __future__ import annotations

import os
from pathlib import Path

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "moses-golden"
GOLDEN = Path(os.environ.get("MOSES_GOLDEN", BESIDE))
