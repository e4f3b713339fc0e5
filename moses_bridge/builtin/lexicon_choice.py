"""Which pairs of words a lexicon has; options of the command too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from moses_bridge.base.choices import LexiconForm
from moses_bridge.base.config import AtLeast, AtMost
from moses_bridge.base.options import option


@dataclass(frozen=True, kw_only=True)
class LexiconChoice:
    """Which pairs of words a lexicon has, and its form.

    Attributes:
        form: Form of the file; bicleaner reads .gz only, and words of letters, digits, - and ' only.
        best: Number of translations of a word at most.
        min_prob: Smallest p(translation | word) written.
        min_back_prob: Smallest p(word | translation) written.
        min_count: Smallest number of links of a pair written; above 0 it needs --texts.
        inverse: Write target words with their sources instead of source words with their targets.
        first: Number of words with most links in the language of the translations that --cover adds to the
            shortlist of each sentence, as Marian does; above 0 it needs --texts.
    """

    form: Annotated[LexiconForm, option("--format")] = "tsv"
    best: Annotated[int, AtLeast(1)] = 100
    min_prob: Annotated[float, AtLeast(0), AtMost(1)] = 0.0
    min_back_prob: Annotated[float, AtLeast(0), AtMost(1)] = 0.0
    min_count: Annotated[int, AtLeast(0)] = 0
    inverse: bool = False
    first: Annotated[int, AtLeast(0)] = 0
