"""Options shared by commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from moses_bridge.base.options import ConfigOptions, InputFile, Positive, option
from tuning.optimisers.by_name import OptimizerName

REFERENCE_HELP = "Tokenised reference; may be given several times."
LANGUAGE_HELP = (
    "Code of the target language, as fr or pt_BR. [default: from the reference's suffix]"
)
TOKENIZE_HELP = "Tokenizer of sacreBLEU for BLEU of detokenised text. [default: by language]"
References = Annotated[tuple[InputFile, ...], option("--reference"), REFERENCE_HELP]


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """A text to translate, with its references.

    Attributes:
        source: Tokenised source text.
        references: Tokenised reference; may be given several times.
    """

    source: InputFile
    references: References


@dataclass(frozen=True, kw_only=True)
class SearchOptions(ConfigOptions):
    """Options of finding weights.

    Attributes:
        optimizer: Algorithm that finds the weights.
        metric: Metric that the weights maximise: bleu, chrf, ter, word-accuracy, line-accuracy, cer or column;
            or several with weights, as bleu=0.5,chrf=0.5.
        metric_command: Command that computes --metric column: {hypotheses}, {source} and {reference} become
            paths, and it writes a number for each line to {out}.
        nbest_size: Number of distinct translations per sentence in an n-best list.
    """

    optimizer: Annotated[OptimizerName | None, option(key="optimizer")] = None
    metric: Annotated[str | None, option(key="metric", metavar="METRIC")] = None
    metric_command: Annotated[str | None, option(key="metric_command")] = None
    nbest_size: Annotated[Positive | None, option(key="nbest_size")] = None
