"""A model directory as a Python object: values of pairs and words, vectors, generated targets."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.errors import InputError, UserError, extra_named
from moses_bridge.formats.python_text import Texts, decoded, encoded_all
from moses_bridge.formats.words import split_words
from rescorer.contract.architectures import load
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer
from rescorer.contract.target_generation import GenerationConfig, TargetGenerator
from rescorer.models.learned import Learned
from rescorer.models.model_description import DESCRIPTION, FOLDS, read_description
from rescorer.models.model_directory import generator_of_model, targets_of_lines
from rescorer.models.pretrained.settings import KINDS, PretrainedSettings, parse_name
from rescorer.models.reading import ReversedSides, predicts_tokens, token_values
from rescorer.models.scorer_choice import refuse_settings, scorer_of

if TYPE_CHECKING:
    import pandas as pd

# Scored together, as the rows of a table are; values do not depend on it (to 1e-5).
PAIRS_AT_ONCE = 8192
# Phrases encoded at once: 16 MB of vectors of the paper's 1,000 units.
PHRASES_AT_ONCE = 4096


class Model:
    """A trained model, made by `rescorer.load`, with the same arguments.

    Texts are str or bytes; a str is read as its bytes in UTF-8. Words are separated by blanks.
    A pickled model has no weights: it is loaded again from its directory, in the process unpickling it.

    Attributes:
        directory: its directory, or the name of a pretrained model.
        named: its scorer, for `rescorer.rescore` and the functions of the commands.

    Raises:
        InputError: the directory is not a whole model.
        ConfigError: a GPU is requested and there is none, the model cannot be scored without its
            softmax's denominator, or settings do not fit it.
    """

    def __init__(
        self,
        directory: Path,
        compute: Compute,
        trust_code: bool = False,
        settings: PretrainedSettings | None = None,
    ) -> None:
        if parse_name(directory) is None:
            _check_is_model(directory)
        refuse_settings([directory], settings or PretrainedSettings())
        self.directory = directory
        self.named: NamedScorer = scorer_of(directory, compute, trust_code, settings)
        self._compute = compute
        self._trust_code = trust_code
        self._settings = settings

    def __reduce__(self) -> tuple[type[Model], tuple[object, ...]]:
        """Pickle the arguments: another process loads the model again."""
        return type(self), (self.directory, self._compute, self._trust_code, self._settings)

    def __repr__(self) -> str:
        return f"<rescorer.Model {self.named.name}>"

    def score(
        self, sources: Texts, targets: Texts | None = None, links: Texts | None = None
    ) -> NDArray[np.float64]:
        """Natural log p(target | source), </s> included, as written by `rescorer score`.

        A language model takes its texts alone, `score(texts)`, or ignores the sources; a model with reversed
        sides gives log p(source | target).

        Args:
            sources: source phrases or sentences.
            targets: as many; None if a language model scores the `sources`.
            links: word links of each pair, `0-0 1-2`, for models that need them (an NNJM).

        Returns:
            *Shape:* (n_pairs,).

        Raises:
            UserError: the numbers of sources and targets differ, a text has a "|||" or a line end
                in it, links are missing, or a pair cannot be scored.
        """
        pairs = self._pairs(sources, targets, links)
        parts = [self.named.scorer.values(part) for part in pairs.parts(PAIRS_AT_ONCE)]
        return np.concatenate([np.empty(0), *parts])

    def score_words(
        self, sources: Texts, targets: Texts | None = None, links: Texts | None = None
    ) -> list[NDArray[np.float64]]:
        """Natural log-probabilities of the words of each target and </s>, which add up to `score`.

        The arguments are those of `score`. A pretrained model gives values of its subwords.

        Returns:
            One array a pair, </s> last, *Shape:* (n_words + 1,).

        Raises:
            InputError: the model does not predict targets word by word.
            UserError: see `score`.
        """
        scorer = self.named.scorer
        if isinstance(scorer, ReversedSides) or not predicts_tokens(scorer):
            fault = "a model that gives no values of target words"
            wanted = (
                'one that predicts targets word by word, such as "encdec", without reversed sides'
            )
            hint = "`score` gives the values of pairs"
            raise InputError(self.directory / DESCRIPTION, None, fault, wanted, hint)
        parts = self._pairs(sources, targets, links).parts(PAIRS_AT_ONCE)
        return [own.log_probs for part in parts for own in token_values(scorer, part)]

    def embed(self, phrases: Texts) -> NDArray[np.float32]:
        """The network's vectors of source phrases; of target phrases with reversed sides.

        Returns:
            *Shape:* (n_phrases, d).

        Raises:
            InputError: the network makes no vector of a phrase.
            UserError: a phrase has a "|||" or a line end in it.
        """
        summaries = self._learned.summaries(self._compute)
        given = encoded_all(phrases, "phrases")
        if not given:
            return summaries([b"."])[:0]
        return np.concatenate([summaries(part) for part in blocks_of(given, PHRASES_AT_ONCE)])

    def generate(
        self,
        sources: Texts,
        n: int = 1,
        beam: int = 10,
        sample: bool = False,
        temperature: float = 1.0,
        length_penalty: float = 0.0,
        max_words: int = 100,
        unknown_words: bool = True,
        seed: int = 1,
    ) -> pd.DataFrame:
        """The targets preferred or drawn by the network, as printed by `rescorer generate`.

        Args:
            sources: source phrases; a language model continues each of them instead, and a model
                with reversed sides makes sources of target phrases.
            n: targets of each source; a search may find fewer.
            beam: hypotheses kept at each length.
            sample: draw targets instead of searching for the best ones.
            temperature: of the draws.
            length_penalty: alpha of the score, log p / (words with </s>)^alpha.
            max_words: of a target.
            unknown_words: whether <unk> may be one of the words.
            seed: of the draws.

        Returns:
            A row for each target, the best ones of a source first: `source`, `target`, `log_prob`
            (natural), `score` (with the length penalty).

        Raises:
            InputError: the model does not generate word by word.
            UserError: a setting has a wrong value, or a source has a "|||" or a line end in it.
        """
        with extra_named("views"):
            import pandas as pd

        config = GenerationConfig(
            n=n,
            beam=beam,
            sample=sample,
            temperature=temperature,
            length_penalty=length_penalty,
            max_words=max_words,
            unknown_words=unknown_words,
            seed=seed,
        )
        lines = [b" ".join(split_words(source)) for source in encoded_all(sources, "sources")]
        found = targets_of_lines(self._generator, lines, config)
        rows = [
            (decoded(line), decoded(b" ".join(target.words)), target.log_prob, target.score)
            for line, targets in zip(lines, found, strict=True)
            for target in targets
        ]
        return pd.DataFrame(rows, columns=["source", "target", "log_prob", "score"])

    @cached_property
    def _learned(self) -> Learned:
        self._refuse_pretrained("vectors of phrases")
        return Learned.load(self.directory, self._trust_code)

    @cached_property
    def _generator(self) -> TargetGenerator:
        self._refuse_pretrained("generated targets")
        return generator_of_model(self.directory, self._compute, self._trust_code)

    def _refuse_pretrained(self, what: str) -> None:
        """Refuse a request that models of other toolkits cannot answer."""
        if parse_name(self.directory) is not None:
            found = f"a pretrained model, which gives no {what}"
            hint = "`score` gives the values of pairs"
            raise InputError(self.directory, None, found, "a model of `rescorer train`", hint)

    @cached_property
    def reads_source(self) -> bool:
        """Whether a value depends on a source: language models read none."""
        name = parse_name(self.directory)
        if name is not None:
            return KINDS[name.kind].has_source
        return load(read_description(self.directory)["architecture"]).data != "text"

    def _pairs(self, sources: Texts, targets: Texts | None, links: Texts | None) -> Batch:
        if targets is None:
            if self.reads_source:
                raise UserError(f"{self.directory} scores pairs: give targets, too")
            texts = encoded_all(sources, "texts")
            return Batch([b""] * len(texts), texts)
        given = [encoded_all(sources, "sources"), encoded_all(targets, "targets")]
        needed = self.named.scorer.needs_links
        if needed and links is None:
            raise UserError(f"{self.directory} needs word links: give links too, like 0-0 1-2")
        if links is not None:
            given.append(encoded_all(links, "links"))
        sizes = [len(column) for column in given]
        if len(set(sizes)) > 1:
            names = ("sources", "targets", "links")
            found = ", ".join(f"{size} {name}" for size, name in zip(sizes, names, strict=False))
            raise UserError(f"found {found}, expected as many of each: they are pairs")
        return Batch(given[0], given[1], given[2] if needed else None)


def _check_is_model(directory: Path) -> None:
    if not any((directory / name).exists() for name in (DESCRIPTION, FOLDS)):
        found = "no model" if directory.is_dir() else "no directory"
        expected = f"the directory of a model, with {DESCRIPTION}"
        hint = "Train one with `rescorer train` or rescorer.train, or write hf:DIRECTORY for a pretrained one"
        raise InputError(directory, None, found, expected, hint)
