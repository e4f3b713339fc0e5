"""The decoder on the workers of a Ray cluster.

Each worker reads the model, so its files must be in the same directories on all machines. The same holds for
the commands of neural models.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Self

from moses_bridge.base.cluster import Cluster
from moses_bridge.base.errors import ConfigError, UserError
from moses_bridge.builtin.decoder.batches import BatchTranslator, Work
from moses_bridge.builtin.decoder.translator import Translation
from moses_bridge.decoding.builtin_decoder import BuiltinDecoder
from moses_bridge.decoding.interface import DecoderConfig, Weights

# The number of the first line, the lines, and the arguments of `BuiltinDecoder.work`.
TextPart = tuple[int, Sequence[bytes], tuple[Weights | None, int | None]]


class PartTranslator:
    """Translates parts of texts in a worker, preparing for weights when they are first used.

    Paths of the ini may be relative to the working directory, `folder`.

    Raises:
        UserError: the machine of the worker has no such directory.
    """

    def __init__(self, folder: str, ini: Path, config: DecoderConfig) -> None:
        try:
            os.chdir(folder)
        except OSError as error:
            raise UserError(
                f"{error} on a machine of the cluster: a decoder needs the same directories on all of them"
            ) from error
        self._decoder = BuiltinDecoder(ini, config, 1)
        self._arguments: tuple[Weights | None, int | None] | None = None
        self._opened: tuple[Work, BatchTranslator]

    def __call__(self, part: TextPart) -> list[Translation]:
        """Translate the lines of a part, in order."""
        first, lines, arguments = part
        if arguments != self._arguments:
            work = self._decoder.work(*arguments)
            self._opened = work, work.open(self._decoder.scorers)
            self._arguments = arguments
        work, translator = self._opened
        return translator.translate_batch(first, lines, work.nbest)


class ClusterDecoder(BuiltinDecoder):
    """The decoder with the parts of a text distributed over the processes of a cluster.

    The model is loaded here too, to find errors in it or in weights.

    Raises:
        ConfigError: the settings ask for Moses.
    """

    def __init__(self, ini: Path, config: DecoderConfig, cluster: Cluster) -> None:
        if config.chosen_kind != "builtin":
            raise ConfigError(
                'a cluster decodes by the built-in decoder alone: set kind = "builtin" in [decoder]'
            )
        super().__init__(ini, config, 1)
        self._workers = cluster.workers(partial(PartTranslator, os.getcwd(), ini, config))

    def __enter__(self) -> Self:
        self._workers.__enter__()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._workers.__exit__()

    def translations(
        self, lines: Sequence[bytes], weights: Weights | None, nbest_size: int | None
    ) -> Iterator[Translation]:
        """See `BuiltinDecoder.translations`."""
        size = self.work(weights, nbest_size).lines_per_task
        firsts = range(0, len(lines), size)
        parts = ((first, lines[first : first + size], (weights, nbest_size)) for first in firsts)
        return chain.from_iterable(self._workers.map_in_order(parts))
