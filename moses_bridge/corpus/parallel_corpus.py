"""Parallel text for training, tuning and testing: paired, cleaned, tokenised, split."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.choices import Case, Origin
from moses_bridge.base.errors import ConfigError, UserError
from moses_bridge.base.lock import held_directory
from moses_bridge.base.machine import n_processors
from moses_bridge.base.near_copies import near_shares, nearest_similarities
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.programs import worker_pool
from moses_bridge.base.progress import Progress
from moses_bridge.base.provenance import digests_by_name, file_digest
from moses_bridge.base.textio import write_bytes, write_lines
from moses_bridge.corpus.corpus_config import CorpusConfig
from moses_bridge.corpus.corpus_parts import document_of, nested_texts, split_parts
from moses_bridge.corpus.debian_archive import SOURCE_PACKAGES, DebianArchive
from moses_bridge.corpus.libreoffice_help import help_package, help_pairs
from moses_bridge.corpus.own_files import bilingual_pairs, line_pairs
from moses_bridge.corpus.package_descriptions import description_pairs
from moses_bridge.corpus.text_pair import CorpusPair, TextPair, n_words
from moses_bridge.formats.plain_text import FORM_NAME, casing_path, in_case, learn_casing
from moses_bridge.formats.tokenization import WITHOUT_BLANKS, tokenize_lines, tokenizer_of

PARTS = ("train", "dev", "test")
LANGUAGE_CODE = re.compile(r"^[a-z]{2,3}(?:_[A-Z]{2}|_[A-Z][a-z]{3})?$")
NOT_A_WORD = re.compile(r"[\W_]+")
LINES_PER_TASK = 1000
FEWEST_LINES_FOR_PROCESSES = 8000


@dataclass(frozen=True)
class CorpusReport:
    """The sizes of a corpus.

    Attributes:
        pairs: sentence pairs of each part ("train", "dev", "test").
        dropped: pairs (texts for "not aligned") left out, by reason.
        near_copies: share of the source sentences of test at least as similar as "0.5", "0.7" and "0.8" to one
            of train; see `CorpusConfig.near_copy`.
        documents: packages or documents of each part.
        fetched: SHA-256 of the fetched files that were read, by name.
        case: case of the words.
        tokenizers: by language, as in the settings.
    """

    source: str
    target: str
    origin: str
    pairs: dict[str, int]
    source_words: dict[str, int]
    target_words: dict[str, int]
    dropped: dict[str, int] = field(default_factory=dict)
    near_copies: dict[str, float] = field(default_factory=dict)
    documents: dict[str, int] = field(default_factory=dict)
    fetched: dict[str, str] = field(default_factory=dict)
    case: Case = "lower"
    tokenizers: dict[str, str] = field(default_factory=dict)


def prepare_corpus(
    source: str,
    target: str,
    out: Path,
    config: CorpusConfig,
    source_file: Path | None = None,
    target_file: Path | None = None,
    files: Sequence[Path] = (),
) -> CorpusReport:
    """Make OUT/{train,dev,test}.LANG and, as raw text, OUT/{train,dev,test}.raw.LANG.

    OUT/{train,dev,test}.groups have the package or document of each sentence, OUT/corpus.json the counts and
    the digests of fetched files, which stay in OUT/download; OUT/truecase.LANG says which capitals words have.
    The same files and config give the same bytes.
    The texts of `train_sizes` are OUT/train-SIZE.*, with the same files as train. OUT/train.SOURCE is
    written last and marks a complete corpus.

    Languages are codes as "en" or "pt_BR". The user's files, for the origin "files" alone, are source sentences
    with their translations, line by line, or `files` with both languages: .tmx, .po, .mo, .tsv.

    Returns:
        The counts, as in OUT/corpus.json.

    Raises:
        ConfigError: languages or files do not fit, or a file of the corpus is one of those given.
        InputError: a file cannot be read, is malformed, not UTF-8 or has fewer lines than the other one.
        ToolError: apt failed.
        UserError: no apt here, no such index, nothing left (for dev or test: without near copies), or another
            command writes into the folder.
    """
    _check_languages(source, target)
    tokenizers = {each: tokenizer_of(each, config.tokenizers) for each in (source, target)}
    known = {code for each in (source, target) for code in (each, each.partition("_")[0])}
    # Settings for several corpora, as of an experiment, may name those of other languages without blanks.
    if others := {each.partition("=")[0] for each in config.tokenizers} - known - WITHOUT_BLANKS:
        raise ConfigError(f"tokenizers: found {sorted(others)}, expected {source} or {target}")
    own = [path for path in (source_file, target_file, *files) if path is not None]
    refuse_overwriting(_written(out, source, target, config), own)
    with held_directory(out):
        dropped: Counter[str] = Counter()
        fetched: dict[str, str] = {}
        if config.origin == "files":
            pairs = _own_pairs(source, target, config, source_file, target_file, files, dropped)
        else:
            if source_file is not None or target_file is not None or files:
                raise ConfigError(
                    f"files were given, but the origin is {config.origin!r}, not 'files'"
                )
            archive = DebianArchive(out / "download", [source, target])
            pairs, read = _archive_pairs(config.origin, source, target, archive, dropped)
            fetched = digests_by_name((path, file_digest(path)) for path in read)
        kept = _with_words(list(pairs), dropped)
        tokenized = _tokenize(kept, tokenizers, source, target, config.jobs)
        cleaned = _without_repeats(_clean(tokenized, config, dropped), dropped)
        if not cleaned:
            left_out = ", ".join(f"{reason}: {n:,}" for reason, n in dropped.items() if n)
            raise UserError(
                f"no sentence pair of {source}-{target} is left after cleaning"
                + (f"; left out: {left_out}" if left_out else "; the origin has none")
            )
        parts = _cased(split_parts(cleaned, config, dropped), source, target, out, config.case)
        nested = nested_texts(parts["train"], config.train_sizes, config.seed)
        report = _report(source, target, config, parts, dropped, fetched)
        _write(out, source, target, parts | {_train_name(n): nested[n] for n in nested}, report)
        return report


def _written(out: Path, source: str, target: str, config: CorpusConfig) -> list[Path]:
    parts = (*PARTS, *map(_train_name, config.train_sizes))
    names = chain.from_iterable(_texts(part, source, target, []) for part in parts)
    models = (casing_path(out, language) for language in (source, target))
    return [*(out / name for name in (*names, FORM_NAME)), *models]


def _train_name(size: int) -> str:
    return f"train-{size}"


def _texts(part: str, source: str, target: str, pairs: list[CorpusPair]) -> dict[str, list[str]]:
    """The lines of a part's files, by name; the source side, which marks it complete, is last."""
    return {
        f"{part}.{target}": [pair.target for pair in pairs],
        f"{part}.raw.{source}": [pair.raw.source for pair in pairs],
        f"{part}.raw.{target}": [pair.raw.target for pair in pairs],
        f"{part}.groups": [pair.raw.group or "" for pair in pairs],
        f"{part}.{source}": [pair.source for pair in pairs],
    }


def _check_languages(source: str, target: str) -> None:
    for language in (source, target):
        if not LANGUAGE_CODE.match(language):
            raise ConfigError(f"{language!r} is no language code; write it as en, fr or pt_BR")
    if source == target:
        raise ConfigError(f"source and target are both {source!r}")


def _archive_pairs(
    origin: Origin, source: str, target: str, archive: DebianArchive, dropped: Counter[str]
) -> tuple[Iterator[TextPair], list[Path]]:
    """The pairs of an origin of the archive, help beside descriptions without groups, and the fetched files."""
    pairs: Iterator[TextPair] = iter(())
    read: list[Path] = []
    if origin != "libreoffice":
        read = [archive.descriptions(source), archive.descriptions(target)]
        sources = archive.source_packages()
        pairs = description_pairs(read[0], read[1], source, target, dropped, sources)
        read.append(archive.folder / SOURCE_PACKAGES)
    if origin != "debian":
        debs = archive.packages([help_package(language) for language in (source, target)])
        of_help = help_pairs(debs[0], debs[1], source, target)
        if origin == "debian+libreoffice":
            of_help = (replace(pair, group=None) for pair in of_help)
        pairs, read = chain(pairs, of_help), read + debs
    return pairs, read


def _own_pairs(
    source: str,
    target: str,
    config: CorpusConfig,
    source_file: Path | None,
    target_file: Path | None,
    files: Sequence[Path],
    dropped: Counter[str],
) -> Iterator[TextPair]:
    if (source_file is None) != (target_file is None) or not (source_file or files):
        raise ConfigError(
            "the origin 'files' needs a source file and a target file, or files with both"
        )
    if source_file is not None and target_file is not None:
        yield from line_pairs(source_file, target_file)
    yield from bilingual_pairs(files, source, target, config.columns, dropped)


def _with_words(pairs: list[TextPair], dropped: Counter[str]) -> list[TextPair]:
    kept = []
    for pair in pairs:
        left, right = normalized(pair.source), normalized(pair.target)
        if not (any(map(str.isalpha, left)) and any(map(str.isalpha, right))):
            dropped["no words"] += 1
        elif left == right:
            dropped["untranslated"] += 1
        else:
            kept.append(pair)
    return kept


def normalized(text: str) -> str:
    """Text reduced for comparison: words alone, in small letters."""
    return NOT_A_WORD.sub(" ", text.casefold()).strip() or text


def _tokenize(
    pairs: list[TextPair], tokenizers: dict[str, str], source: str, target: str, jobs: int
) -> list[CorpusPair]:
    texts = [pair.source for pair in pairs], [pair.target for pair in pairs]
    sources = _tokenize_lines(texts[0], source, tokenizers[source], jobs)
    targets = _tokenize_lines(texts[1], target, tokenizers[target], jobs)
    return [CorpusPair(*row) for row in zip(pairs, sources, targets, strict=True)]


def _clean(
    pairs: list[CorpusPair], config: CorpusConfig, dropped: Counter[str]
) -> Iterator[CorpusPair]:
    for pair in pairs:
        n_short, n_long = sorted((n_words(pair.source), n_words(pair.target)))
        if n_long > config.max_words:
            dropped["too long"] += 1
        elif n_long > config.max_ratio * n_short:
            dropped["ratio"] += 1
        else:
            yield pair


def _without_repeats(pairs: Iterator[CorpusPair], dropped: Counter[str]) -> list[CorpusPair]:
    seen: dict[str, CorpusPair] = {}
    for pair in pairs:
        if seen.setdefault(normalized(pair.raw.source), pair) is not pair:
            dropped["repeated source"] += 1
    return list(seen.values())


def _cased(
    parts: dict[str, list[CorpusPair]], source: str, target: str, out: Path, case: Case
) -> dict[str, list[CorpusPair]]:
    """Write the models of case of the training text, and give all words the case that is wanted."""
    of_source = learn_casing((each.source for each in parts["train"]), casing_path(out, source))
    of_target = learn_casing((each.target for each in parts["train"]), casing_path(out, target))
    return {
        part: [
            CorpusPair(
                each.raw,
                in_case(each.source, case, of_source),
                in_case(each.target, case, of_target),
            )
            for each in pairs
        ]
        for part, pairs in parts.items()
    }


def _report(
    source: str,
    target: str,
    config: CorpusConfig,
    parts: dict[str, list[CorpusPair]],
    dropped: Counter[str],
    fetched: dict[str, str],
) -> CorpusReport:
    return CorpusReport(
        source,
        target,
        config.origin,
        {part: len(parts[part]) for part in PARTS},
        {part: sum(n_words(pair.source) for pair in parts[part]) for part in PARTS},
        {part: sum(n_words(pair.target) for pair in parts[part]) for part in PARTS},
        {reason: n for reason, n in sorted(dropped.items()) if n},
        _near_copies(parts, config.jobs or -1),
        {part: len(set(map(document_of, parts[part]))) for part in PARTS},
        fetched,
        config.case,
        {each: tokenizer_of(each, config.tokenizers) for each in (source, target)},
    )


def _near_copies(parts: dict[str, list[CorpusPair]], jobs: int) -> dict[str, float]:
    if not parts["test"]:
        return {}
    test, train = ([pair.source.lower() for pair in parts[part]] for part in ("test", "train"))
    return near_shares(nearest_similarities(test, train, jobs=jobs))


def _write(
    out: Path, source: str, target: str, parts: dict[str, list[CorpusPair]], report: CorpusReport
) -> None:
    finished = out / f"train.{source}"
    finished.unlink(missing_ok=True)
    for part, pairs in parts.items():
        for name, lines in _texts(part, source, target, pairs).items():
            if name != finished.name:
                write_lines(out / name, map(str.encode, lines))
    write_bytes(out / FORM_NAME, json.dumps(asdict(report), indent=2).encode() + b"\n")
    write_lines(finished, (pair.source.encode() for pair in parts["train"]))


def _tokenize_lines(lines: Sequence[str], language: str, tokenizer: str, jobs: int) -> list[str]:
    """Tokenise lines on `jobs` processes; 0 takes one for each processor."""
    tokenize = partial(tokenize_lines, language=language, tokenizer=tokenizer)
    tasks = list(blocks_of(lines, LINES_PER_TASK))
    n_processes = (jobs or n_processors()) if len(lines) >= FEWEST_LINES_FOR_PROCESSES else 1
    tokenized: list[str] = []
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(f"tokenising {language}", len(lines)))
        chunks: Iterator[list[str]] = map(tokenize, tasks)
        if n_processes > 1:
            ignore_interrupt = signal.signal, (signal.SIGINT, signal.SIG_IGN)  # left to the parent
            pool = worker_pool(n_processes, get_context("spawn"), *ignore_interrupt)
            chunks = stack.enter_context(pool).map(tokenize, tasks)
        for chunk in chunks:
            tokenized.extend(chunk)
            progress.update(len(chunk))
    return tokenized
