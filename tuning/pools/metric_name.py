"""The metrics by name, in a module of its own, so that a command can list them without loading numba."""

from __future__ import annotations

from typing import Literal

MetricName = Literal["bleu", "chrf", "ter", "word-accuracy", "cer", "column"]
MbrMetricName = Literal["bleu", "chrf", "column"]
