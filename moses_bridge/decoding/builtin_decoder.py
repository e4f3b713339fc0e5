"""The decoder of this package, with the interface `Decoder`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

from moses_bridge.base.cluster import Cluster
from moses_bridge.base.compiled.notice import CompilationNotice
from moses_bridge.base.errors import ConfigError, UserError
from moses_bridge.base.progress import Progress
from moses_bridge.base.text_lines import read_text_lines, say
from moses_bridge.base.textio import open_write
from moses_bridge.builtin.decoder.batches import BatchTranslator, Work, translate_lines
from moses_bridge.builtin.decoder.model import Model, load_model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.ngram_memo import CachedScorers
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.translator import (
    Translation,
    Translator,
    check_source,
    effective_distortion_limit,
    source_text,
)
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model, no_phrases_alone
from moses_bridge.decoding.interface import (
    DEFAULT_POP_LIMIT,
    DEFAULT_STACK_SIZE,
    DecoderConfig,
    UnknownWords,
    Weights,
    check_nbest_size,
    refuse_model_files,
)
from moses_bridge.formats.words import as_text

# The compiled parts, with the time to compile them.
READING = "the reading of a model (10 s to a minute)"
SEARCH = "the search of the built-in decoder (20 s to a minute)"
# The number of the first line, the lines, and the arguments of `BuiltinDecoder.work`.
TextPart = tuple[int, Sequence[bytes], tuple[Weights | None, int | None]]


class BuiltinDecoder(AbstractContextManager["BuiltinDecoder", None]):
    """The decoder of this package, in `jobs` processes sharing the memory of the model, which is loaded here.

    `scorers`, the processes of neural models, are kept from one text to the next.
    """

    def __init__(self, ini: Path, config: DecoderConfig, jobs: int) -> None:
        self._config = config
        self._jobs = jobs
        self._notice = CompilationNotice(SEARCH)
        with CompilationNotice(READING):
            self._model = load_model(ini, config.table_limit, config.distortion_limit)
        self._limits = _limits(self._model, config)
        self._alone = no_phrases_alone(self._model.table.rows)
        self._neural = config.neural_lms
        self.scorers = CachedScorers()  # starting them takes seconds, and a tuning decodes often
        names = {column.name for column in self._model.features}
        for lm in self._neural:
            if lm.name in names:
                raise ConfigError(f"{ini} has a feature {lm.name}; use another name")

    def __exit__(self, *_: object) -> None:
        self.scorers.end()

    def decode(
        self, source: Path, out: Path, weights: Weights | None, nbest: Path | None, nbest_size: int
    ) -> None:
        """See `Decoder`."""
        refuse_model_files(self._model.ini, source, (out, nbest))
        lines = list(read_text_lines(source))
        check_source(lines, self._model, source)
        translations = self.translations(lines, weights, None if nbest is None else nbest_size)
        with self._notice:
            write_translations(translations, len(lines), out, nbest)
        say(self.unknown_words(lines, source).note())

    def unknown_words(self, lines: Sequence[bytes], source: Path) -> UnknownWords:
        """The unknown words of a text; those with a translation given in the text are left out."""
        texts = [source_text(line, self._model) for line in lines]
        words = Counter(word for text in texts for word in text.words)
        given = (text.words[each.start : each.end] for text in texts for each in text.given)
        counts = words - Counter(chain.from_iterable(given))
        unknown = Counter({word: n for word, n in counts.items() if word not in self._known})
        lower = {word: as_text(word).lower().encode() for word in unknown}
        n_lower = sum(n for word, n in unknown.items() if lower[word] in self._known)
        return UnknownWords(source, self._model.ini.path, words.total(), unknown, n_lower)

    @cached_property
    def _known(self) -> frozenset[bytes]:
        """The source words with a translation of their own."""
        alone = set(self._model.table.words_alone().tolist())
        return frozenset(word for word, i in self._model.source_ids.items() if i in alone)

    def translations(
        self, lines: Sequence[bytes], weights: Weights | None, nbest_size: int | None
    ) -> Iterator[Translation]:
        """Translate each line, in order, with its n-best lines; see `work`."""
        return translate_lines(self.work(weights, nbest_size), lines, self._jobs, self.scorers)

    def work(self, weights: Weights | None, nbest_size: int | None) -> Work:
        """Prepare translation with given weights; nbest_size is None for no lists.

        Raises:
            ConfigError: as for `Decoder.decode`.
        """
        nbest, config = None, self._config
        if nbest_size is not None:
            check_nbest_size(nbest_size)
            form = config.nbest_factor, config.segmentation, config.alignment
            nbest = NBestFormat(nbest_size, *form)
        model, limits = self._model, self._limits
        given = {**model.ini.weights, **(weights or {})}
        neural = tuple(_only_weight(lm.name, given.pop(lm.name, ())) for lm in self._neural)
        weighted = make_weighted_model(model, model.weight_vector(given), self._alone)
        translator = Translator(model, weighted, limits, model.sparse_weights(given))
        return Work(translator, nbest, self._neural, neural)


def write_translations(
    translations: Iterable[Translation], n_lines: int, out: Path, nbest: Path | None
) -> int:
    """Write translations, one a line, and their n-best lines if they have a file; return how many are empty."""
    n_empty = 0
    with ExitStack() as stack:
        text_file = stack.enter_context(open_write(out))
        nbest_file = stack.enter_context(open_write(nbest)) if nbest is not None else None
        progress = stack.enter_context(Progress("decode", n_lines))
        for text, entries in translations:
            text_file.write(text + b"\n")
            n_empty += not text
            if nbest_file is not None:
                nbest_file.writelines([entry + b"\n" for entry in entries])
            progress.update()
    return n_empty


def _only_weight(name: str, weights: Sequence[float]) -> float:
    if len(weights) != 1:
        raise ConfigError(
            f"{len(weights)} weights of {name}, which has 1 score; name it among the --weights"
        )
    return weights[0]


def _limits(model: Model, config: DecoderConfig) -> Limits:
    values = model.values
    pop_limit = config.pop_limit or values.pop_limit or DEFAULT_POP_LIMIT
    in_ini = pop_limit if values.stack_size == 0 else values.stack_size  # 0: keep all that are made
    return Limits(
        config.stack_size or in_ini or DEFAULT_STACK_SIZE,
        pop_limit,
        effective_distortion_limit(model.distortion_limit),
        values.beam,
        values.early_distortion,
    )


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

    Each worker reads the model, so its files and the commands of neural models must be in the same directories
    on all machines. The model is loaded here too, to find errors in it or in weights.

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

    def __enter__(self) -> BuiltinDecoder:
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
