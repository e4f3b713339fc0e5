"""Results as JSON, with all digits."""

from __future__ import annotations

import dataclasses
import json

from tuning.compare.comparison import Comparison
from tuning.compare.gains import Gains
from tuning.compare.output_scores import OutputScores
from tuning.compare.pooling import Pooled
from tuning.compare.scan.weight_scan import Scan


def to_json(result: Comparison | Gains | OutputScores | Pooled | Scan) -> str:
    """All attributes by name; of a row that was tuned for BLEU this is not said."""
    record = dataclasses.asdict(result)
    if isinstance(result, Comparison):
        for row in record["rows"]:
            if not row["tuned_for"]:
                del row["tuned_for"]
    return json.dumps(record, indent=1) + "\n"
