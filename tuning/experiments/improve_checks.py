"""The checks of `tuning run improve` before the first minute of work, and the counts for its reckoning."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path

from moses_bridge.base.errors import InputError, UserError, shown
from moses_bridge.base.near_copies import FAR, nearest_similarities
from moses_bridge.base.progress import estimated_lines
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import count_lines, read_lines
from moses_bridge.formats.moses_ini import TABLE_KIND, files_at, line_of, read_ini
from moses_bridge.formats.moses_ini_edits import new_ini, with_absolute_paths
from moses_bridge.formats.phrase_table import parse_row, source_column
from moses_bridge.formats.text_notes import text_notes
from tuning.experiments.run import check_plain
from tuning.experiments.settings import ImproveSettings

ROWS_CHECKED = 1000  # of each phrase table; the steps read all of them
WORDS_SHOWN = 5
NEAR = 0.8  # similarity of a near copy
MOST_NEAR = 0.5  # share of near copies of training sentences in a dev text
MOST_COMPARED = 3 * 10**8  # pairs of sentences; of more, only equal ones are found
ESCAPED, PLAIN = re.compile(rb"&(?:apos|quot|lt|gt|#91|#93);"), re.compile(rb"['\"<>\[\]]")


@dataclass(frozen=True)
class Facts:
    """What the checks found.

    Attributes:
        n_rows: rows of the phrase tables, estimated.
        n_bytes: size of the model's files.
        n_words: words of the target side of the training text; 0 without one.
        n_documents: of the dev text; its sentences where no documents are known.
        has_usual_features: whether its weights fit the systems that `moses-bridge build` makes of folds.
        lines: for the reader.
    """

    n_rows: int
    n_bytes: int
    n_words: int
    n_dev: int
    n_test: int
    n_documents: int
    has_usual_features: bool
    lines: tuple[str, ...]


@dataclass
class _Text:
    """A parallel text as far as it is needed, with the first line that has characters of a kind."""

    path: Path
    n_target_words: int = 0
    sources: list[bytes] = field(default_factory=list)
    escaped: int | None = None
    plain: int | None = None
    capital: int | None = None


def check_inputs(settings: ImproveSettings) -> Facts:
    """Check the system and the texts, and count; UserError if they are faulty, with a line for each fault."""
    faults: list[str] = []
    source, _ = settings.languages
    texts = {part: _Text(Path(f"{prefix}.{source}")) for part, prefix in settings.texts.items()}
    of_files: list[Callable[[], None]] = [
        partial(_check_out, settings.out),
        partial(_check_model, settings.ini),
    ]
    of_files += [partial(_read_text, part, settings, text) for part, text in texts.items()]
    together = (_check_lines, _check_form, _check_dev)
    for checks in (of_files, [partial(check, settings, texts) for check in together]):
        for check in checks:
            try:
                check()
            except (UserError, OSError) as error:
                faults.append(str(error))
        if faults:
            raise UserError("\n".join(faults))
    return _facts(settings, texts)


def check_room(out: Path, n_bytes: int) -> None:
    """Refuse (UserError) a disk with less than n_bytes of room for a directory, which need not exist."""
    place = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if (free := shutil.disk_usage(place).free) < n_bytes:
        raise UserError(
            f"{out}: found {free / 1e9:.1f} GB of free disk, expected {n_bytes / 1e9:.1f} GB: make "
            "room, or name a directory of another disk"
        )


def _check_out(out: Path) -> None:
    check_plain(str(out.absolute()))
    if out.exists() and not (out.is_dir() and ((out / "work").is_dir() or not any(out.iterdir()))):
        raise InputError(out, None, "something else", "nothing, or a directory of this command")


def _check_model(path: Path) -> None:
    ini = read_ini(path)
    with_absolute_paths(ini)
    for feature in ini.features:
        for named in (feature.arguments[key] for key in feature.file_arguments):
            if not any(files_at(ini.file(named))):
                hint = "Paths lead from the working directory or from the ini"
                raise InputError(
                    path,
                    line_of(ini, feature),
                    f"no file {named!r}",
                    f"that of {feature.name}",
                    hint,
                )
    for feature in ini.of_kind(TABLE_KIND):
        table = ini.file(feature.arguments["path"])
        for number, row in enumerate(islice(read_lines(table), ROWS_CHECKED), start=1):
            parse_row(row, table, number, feature.n_scores)
    if not ini.of_kind(TABLE_KIND):
        hint = "A binary table can be neither filtered nor scored: name the one it was made from"
        raise InputError(path, None, f"no {TABLE_KIND}", "a phrase table as text", hint)


def _read_text(part: str, settings: ImproveSettings, text: _Text) -> None:
    paths = [Path(f"{settings.texts[part]}.{language}") for language in settings.languages]
    for path in paths:
        if not path.is_file():
            hint = f"--{part} is the common beginning of its names, --languages are their ends"
            raise InputError(path, None, "no such file", f"a side of the {part} text", hint)
    for number, lines in enumerate(zip_longest(*map(read_text_lines, paths)), start=1):
        for path, line in zip(paths, lines, strict=True):
            if line is None:
                raise InputError(path, number, "the end", "a line, as the other side has one")
            if b"|||" in line:
                hint = "escape-special-chars.perl of Moses replaces them"
                raise InputError(path, number, "'|||', which separates columns", "&#124;", hint)
        text.escaped = text.escaped or (number if any(map(ESCAPED.search, lines)) else None)
        text.plain = text.plain or (number if any(map(PLAIN.search, lines)) else None)
        has_capital = any(line != line.lower() for line in lines)
        text.capital = text.capital or (number if has_capital else None)
        text.n_target_words += len(lines[1].split())
        text.sources.append(lines[0])
    if len(text.sources) < 2:
        raise InputError(text.path, None, f"{len(text.sources)} sentences", "two or more")


def _check_lines(settings: ImproveSettings, texts: Mapping[str, _Text]) -> None:
    groups = {Path(f"{prefix}.groups"): part for part, prefix in settings.texts.items()}
    files = [(file, part) for file, part in groups.items() if file.exists()]
    links = settings.found_links() if "train" in texts else settings.links
    for file, part in [*files, (links, "train")] if links else files:
        n_pairs = len(texts[part].sources) if part in texts else 0
        if (n_lines := count_lines(file)) != n_pairs:
            raise InputError(file, None, f"{n_lines:,} lines", f"{n_pairs:,}, as the {part} text")


def _check_form(settings: ImproveSettings, texts: Mapping[str, _Text]) -> None:
    """Refuse quotes that are plain or escaped, and capitals, where the training text has none of the kind."""
    train = texts.get("train", _Text(Path()))
    for text in texts.values():
        for found, line, wrong, right in (
            ("quotes or brackets plain", text.plain, train.plain, train.escaped),
            ("quotes or brackets escaped", text.escaped, train.escaped, train.plain),
            ("capitals", text.capital, train.capital, train.sources),
        ):
            if line and right and not wrong:
                hint = f"The training text, {train.path}, has none; make all texts in the same way"
                raise InputError(text.path, line, found, "the other form in both languages", hint)


def _check_dev(settings: ImproveSettings, texts: Mapping[str, _Text]) -> None:
    share = _near_share(settings, texts, "dev", NEAR)
    if share > MOST_NEAR:
        found = f"{100 * share:.0f}% near copies of training sentences"
        hint = "Tune on sentences that the tables have not seen"
        raise InputError(texts["dev"].path, None, found, f"at most {100 * MOST_NEAR:.0f}%", hint)


def _near_share(
    settings: ImproveSettings, texts: Mapping[str, _Text], part: str, least: float
) -> float:
    """The share of sentences of a part that are at least so similar to a training sentence."""
    train = texts["train"].sources if "train" in texts else []
    least = least if len(texts[part].sources) * len(train) < MOST_COMPARED else 1.0
    found = nearest_similarities(texts[part].sources, train, least, jobs=settings.jobs)
    return float((found >= least).mean())


def _facts(settings: ImproveSettings, texts: Mapping[str, _Text]) -> Facts:
    ini = read_ini(settings.ini)
    tables = [ini.file(each.arguments["path"]) for each in ini.of_kind(TABLE_KIND)]
    usual = {
        each.name: each.n_scores for each in new_ini(Path("t"), Path("r"), Path("l"), 5).features
    }
    scores = {each.name: each.n_scores for each in ini.features}
    n_rows = sum(estimated_lines(table) or 0 for table in tables)
    groups = Path(f"{settings.dev}.groups")
    models = ", ".join(f"{e.name} ({e.n_scores})" for e in ini.features if e.file_arguments)
    return Facts(
        n_rows=n_rows,
        n_bytes=sum(file.stat().st_size for file in ini.files()),
        n_words=texts["train"].n_target_words if "train" in texts else 0,
        n_dev=len(texts["dev"].sources),
        n_test=len(texts["test"].sources),
        n_documents=len({*read_lines(groups)} if groups.exists() else texts["dev"].sources),
        has_usual_features=scores == usual,
        lines=(
            f"{settings.ini}: about {n_rows:,} rows; {models}",
            *_text_lines(settings, tables, texts),
        ),
    )


def _text_lines(
    settings: ImproveSettings, tables: Sequence[Path], texts: Mapping[str, _Text]
) -> Iterator[str]:
    known = _known_words(tables, texts.get("train"))
    for part, text in texts.items():
        words = [word for line in text.sources for word in line.split()]
        unknown = Counter(word for word in words if word not in known)
        most = ", ".join(f"{shown(word)} {n}" for word, n in unknown.most_common(WORDS_SHOWN))
        share = 100 * unknown.total() / max(1, len(words))
        note = f"; {share:.1f}% of the source words are unknown: {most}" if unknown else ""
        yield f"{settings.texts[part]}: {len(text.sources):,} sentence pairs{note}"
    for part in ("dev", "test"):
        source, target = (Path(f"{settings.texts[part]}.{each}") for each in settings.languages)
        yield from text_notes(source, [target])
    if "train" in texts:
        share = 100 * _near_share(settings, texts, "test", FAR)
        yield f"{share:.1f}% of the test sentences are similar to a training sentence; see the rows (far)"
    from sacremoses.corpus import NonbreakingPrefixes

    for language in settings.languages:
        if language.partition("_")[0] not in NonbreakingPrefixes().available_langs.values():
            yield f"{language}: Moses's tokenizer has no rules for it; detokenised scores use those of English"


def _known_words(tables: Sequence[Path], train: _Text | None) -> set[bytes]:
    """The source words of the training text; without one, of the phrase tables."""
    rows = (source_column(row) for table in tables for row in read_lines(table))
    return {word for line in (train.sources if train else rows) for word in line.split()}
