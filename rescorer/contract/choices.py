"""Names that settings and command options choose from, listed without loading what they name."""

from __future__ import annotations

from typing import Literal

Side = Literal["source", "target"]

# How a network reads its data: with reversed sides it knows p(source | target), from right to left it
# predicts the last word of a sentence first.
Reading = Literal["as-is", "reversed-sides", "right-to-left", "reversed-sides-right-to-left"]

PairReading = Literal["as-is", "reversed-sides"]

TextReading = Literal["as-is", "right-to-left"]

# Former keys of settings, and their replacements.
FORMER_READING_KEYS = {
    "reverse_sides": 'reading = "reversed-sides"',
    "right_to_left": 'reading = "right-to-left"',
}

# How much a phrase pair counts in a training.
Weighting = Literal["distinct", "sqrt-count", "count"]

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "bfloat16"]
PrecisionOrFastest = Literal["float32", "bfloat16", "fastest"]

# What is averaged in an ensemble.
Mean = Literal["sentence-log-probs", "word-probs"]

# Columns without information.
Control = Literal["random", "length"]

# How a column writes a score: as a probability, or as its logarithm.
ColumnFormat = Literal["prob", "log"]

OutputFormat = Literal["text", "json"]
LineFormat = Literal["text", "tsv", "jsonl"]
BadHypotheses = Literal["least", "left-out"]

# Points of a map, and the meaning of a phrase's colour.
MapKind = Literal["words", "phrases"]
Colour = Literal["length", "frequency"]

# Pretrained models of Hugging Face and CTranslate2; "lm" is a language model, "mlm" a masked one. A name is
# KIND:DIRECTORY.
PretrainedKind = Literal["hf", "hf-lm", "hf-mlm", "ct2", "ct2-lm"]

# What becomes of the letters of text for a pretrained model.
TextCase = Literal["as-is", "sentence", "lower"]


def reverses_sides(reading: Reading) -> bool:
    """Whether targets are read as sources and sources as targets."""
    return reading in ("reversed-sides", "reversed-sides-right-to-left")


def goes_right_to_left(reading: Reading) -> bool:
    """Whether the last word of a sentence is predicted first."""
    return reading in ("right-to-left", "reversed-sides-right-to-left")
