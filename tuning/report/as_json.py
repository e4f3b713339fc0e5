"""Results as JSON, with all digits."""

from __future__ import annotations

import dataclasses
import json

from tuning.comparison import Comparison
from tuning.output_scores import OutputScores


def to_json(result: Comparison | OutputScores) -> str:
    """All attributes by name."""
    return json.dumps(dataclasses.asdict(result), indent=1) + "\n"
