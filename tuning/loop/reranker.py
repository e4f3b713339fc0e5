"""Weights for n-best lists as an object with the methods of scikit-learn: fit, apply, save and load."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError, arguments_named
from moses_bridge.base.json_files import write_json
from moses_bridge.base.textio import StrPath, temporary_directory
from tuning.loop.applied_weights import Applied, apply_weights, read_reranked
from tuning.loop.list_features import NBestFeature, feature_of_model
from tuning.loop.rerank import ListedText, Reranked, rerank_lists
from tuning.loop.run_directory import Weights
from tuning.loop.settings import RerankConfig


class Reranker:
    """Chooses hypotheses of n-best lists by weights, learned by `fit` or read by `load`.

    Args:
        settings: what a file for the `--config` of `tuning rerank` says: {"list_format": "marian"}.
        models: directories of models whose scores are added to the lists, by the names of their features.
        nbest_features: NAME=COMMAND each, further features to add.
        seed: of the first run of the optimiser.
        jobs: threads of the optimiser.

    Raises:
        UserError: settings or features are malformed.
    """

    @arguments_named()
    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        models: Mapping[str, StrPath] | None = None,
        nbest_features: Sequence[str] = (),
        seed: int = 1,
        jobs: int = 1,
    ) -> None:
        self._config = from_mapping(RerankConfig, settings or {}, "settings")
        self._features = [NBestFeature.parse(text) for text in nbest_features]
        named = (models or {}).items()
        self._features += [feature_of_model(f"{name}={path}") for name, path in named]
        self._seed, self._jobs = seed, jobs
        self._learned: Reranked | None = None

    @property
    def weights(self) -> Weights:
        """The weights by feature: those of the run with the best dev score.

        Raises:
            UserError: there are none yet.
        """
        return self._fitted.best.weights

    @property
    def _fitted(self) -> Reranked:
        if self._learned is None:
            raise ConfigError("found a Reranker without weights; call fit or load first")
        return self._learned

    @arguments_named()
    def fit(self, nbest: StrPath, source: StrPath, references: StrPath | Sequence[StrPath]) -> Self:
        """Learn weights on a list of a text with one reference or several, tokenised as the list is.

        Raises:
            UserError: a file is malformed.
        """
        files = [references] if isinstance(references, str | os.PathLike) else references
        text = ListedText(Path(nbest), Path(source), [*map(Path, files)])
        rest = (self._config, self._features, self._seed, self._jobs)
        with temporary_directory("fit") as folder:
            found = rerank_lists(text, None, folder / "out", *rest)
        self._learned = replace(found, systems={"reranked": [replace(found.best, dev="")]})
        return self

    @arguments_named()
    def apply(self, nbest: StrPath, source: StrPath, nbest_out: StrPath | None = None) -> Applied:
        """Choose from a list of another text, without references.

        Returns:
            The choice; `frame()` has texts and scores, `summary()` what changed. With `nbest_out` the reranked
            list is written, in Moses's format.

        Raises:
            UserError: a file is malformed, the list has other features than the weights, or there are none yet.
        """
        out = None if nbest_out is None else Path(nbest_out)
        text = ListedText(Path(nbest), Path(source))
        return apply_weights(text, self._fitted, self._config, self._features, out)

    def save(self, path: StrPath) -> None:
        """Write the weights to a file for `load` and for `tuning rerank --apply`.

        Raises:
            UserError: there are none yet.
        """
        write_json(Path(path), asdict(self._fitted))

    @arguments_named()
    def load(self, path: StrPath) -> Self:
        """Read the weights of `save` or of `tuning rerank`, or a table of weights.

        Commands of features kept in the file run only with the setting `run_commands`.

        Raises:
            UserError: the file is malformed.
        """
        self._learned = read_reranked(Path(path))
        return self
