"""Results as JSON, with all digits."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from tuning.compare.comparison import Comparison
from tuning.compare.gains import Gains
from tuning.compare.output_scores import OutputScores, SystemScores
from tuning.compare.pooling import Pooled
from tuning.compare.scan.weight_scan import Scan

Result = Comparison | Gains | OutputScores | Pooled | Scan


def to_json(result: Result | Sequence[SystemScores]) -> str:
    """All attributes by name, of several systems as a list; of a row tuned for BLEU no metric is named."""
    if isinstance(result, Sequence):
        return _text([dataclasses.asdict(scores) for scores in result])
    record = dataclasses.asdict(result)
    if isinstance(result, Comparison):
        for row in record["rows"]:
            for name in ("tuned_for", "metrics"):
                if not row[name]:
                    del row[name]
    return _text(record)


def _text(record: object) -> str:
    return json.dumps(record, indent=1) + "\n"
