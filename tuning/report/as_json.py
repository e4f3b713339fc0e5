"""Results as JSON, with all digits."""

from __future__ import annotations

import dataclasses
import json

from tuning.comparison import Comparison
from tuning.gains import Gains
from tuning.output_scores import OutputScores
from tuning.scan import Scan


def to_json(result: Comparison | Gains | OutputScores | Scan) -> str:
    """All attributes by name."""
    return json.dumps(dataclasses.asdict(result), indent=1) + "\n"
