"""Systems whose words are letters: made of pairs of short texts, asked for targets, and judged by them."""

from __future__ import annotations

import math
import random
import re
import shlex
import shutil
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.experiment import split_experiment
from moses_bridge.base.json_files import read_record, write_json
from moses_bridge.base.lock import held_file
from moses_bridge.base.programs import run_program
from moses_bridge.base.progress import print_note
from moses_bridge.base.text_lines import decoded_line, read_text_lines
from moses_bridge.base.textio import open_directory, temporary_directory, write_lines
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini import MosesIni, read_ini
from moses_bridge.formats.moses_ini_edits import with_path, write_ini
from moses_bridge.formats.nbest import NBestEntry, read_nbest
from tuning.experiments.settings import LINKS_NAMES, LettersSettings, Unit
from tuning.loop.run_directory import INI_NAME, WEIGHTS_NAME, load_run, with_caution

COMMANDS = Path(sysconfig.get_path("scripts"))
EXPERIMENT = Path(__file__).with_name("letters.toml")
# In the directory of a system, besides moses.ini; its files by feature.
SYSTEM, PAIRS, NETWORK, NETWORK_FEATURE = "letters.json", "pairs.tsv.gz", "nnjm", "NNJM0"
MODEL_FILES = {"TranslationModel0": "phrase-table.gz", "LM0": "lm.arpa.gz"}
PART, ALL = "train", "all"  # texts and models: without the held-out pairs, with them
LEAST_SOURCES, MOST_HELD_OUT = 20, 1000  # a tenth is held out
LIST_SIZE = 100  # of the lists in which probabilities sum to 1
Pair = tuple[str, str]
# With a meaning for Moses, or invisible; "&" begins an escape. A blank is a letter, too.
SPECIAL = re.compile(r"[&|<>\[\]\s\x00-\x1f\x7f]")
ESCAPE = re.compile(r"&#(\d+);")
SCALES = 1.1 ** np.arange(-50, 100)


@dataclass(frozen=True)
class LettersSystem:
    """The contents of letters.json.

    Attributes:
        units: units of source and target.
        scale: factor of a hypothesis's total, of which exp is proportional to its probability in the list.
    """

    units: tuple[Unit, Unit]
    scale: float


def train(settings: LettersSettings) -> str:
    """Write a system of letters; the directory appears when it is complete. Return its quality, in words.

    Raises:
        InputError: the file of pairs is malformed, or too short to hold out a part.
        ConfigError: the directory has something in it, or a table of settings is unknown.
        ToolError: a step failed.
        UserError: another command writes the directory.
    """
    out = settings.out.absolute()
    with held_file(out):
        pairs = read_pairs(settings.pairs)
        with open_directory(out) as system, temporary_directory(out.name, out.parent) as work:
            references = _write_texts(settings, pairs, work)
            for name, command in _steps(settings, work, max(map(len, references))):
                print_note(f"{settings.out}: {name}")
                command += ["--config", work / "config" / f"{name}.toml"]
                run_program([str(COMMANDS / str(command[0])), *map(str, command[1:])])
            for name in (*MODEL_FILES.values(), *[NETWORK] * settings.nnjm):
                (work / f"{ALL}.model" / name).rename(system / name)
            shutil.copy(work / "tuned" / WEIGHTS_NAME, system)
            write_ini(_with_files_in(Path(), work / "tuned" / INI_NAME), system / INI_NAME)
            write_lines(system / PAIRS, ["\t".join(pair).encode() for pair in pairs])
            run = load_run(system)
            lists = [*_ranked(work / "tuned" / f"iter{run.kept:02}.nbest.gz")]
            is_right = [each[0].words in references[n] for n, each in enumerate(lists)]
            # Half a list more on each side: never 0 nor 1.
            scale = _scale(lists, (sum(is_right) + 0.5) / (len(lists) + 1))
            write_json(system / SYSTEM, asdict(LettersSystem(settings.units, scale)))
    share = f"{100 * np.mean(is_right):.2f}% of {len(lists):,} held-out sources"
    return with_caution(f"{settings.out}: {share} have a right target", run.caution)


def _write_texts(settings: LettersSettings, pairs: Sequence[Pair], work: Path) -> list[list[bytes]]:
    """Write texts, as units, and the settings of steps; return the references of each held-out source."""
    sources = sorted({source for source, _ in pairs})
    if len(sources) < LEAST_SOURCES:
        found, expected = f"{len(sources)} different sources", f"{LEAST_SOURCES} at least"
        raise InputError(settings.pairs, None, found, expected, "A tenth is held out to tune on")
    given = [] if settings.config is None else [settings.config]
    configs = split_experiment([EXPERIMENT, *given], work / "config")
    if unknown := {path.stem for path in configs} - {"build", "nnjm", "tune"}:
        raise ConfigError(f"{settings.config}: found {sorted(unknown)}, expected build, nnjm, tune")
    n_held_out = min(len(sources) // 10, MOST_HELD_OUT)
    held_out = {*random.Random(settings.seed).sample(sources, n_held_out)}
    dev = targets_by_source(pair for pair in pairs if pair[0] in held_out)
    of_source, of_target = settings.units
    references = [[split_units(each, of_target) for each in targets] for targets in dev.values()]
    rest = [pair for pair in pairs if pair[0] not in held_out]
    for name, chosen in ((PART, rest), (ALL, pairs)):
        sides = zip(("source", "target"), settings.units, zip(*chosen, strict=True), strict=True)
        for side, unit, column in sides:
            write_lines(work / f"{name}.{side}", [split_units(each, unit) for each in column])
    write_lines(work / "dev.source", [split_units(source, of_source) for source in dev])
    for number in range(max(map(len, references))):
        # A source with fewer targets has its last one again.
        lines = [each[min(number, len(each) - 1)] for each in references]
        write_lines(work / f"dev.target{number}", lines)
    return references


def _steps(
    settings: LettersSettings, work: Path, n_references: int
) -> Iterator[tuple[str, list[object]]]:
    """The commands that tune weights on the held-out pairs, then learn from all pairs, with their settings."""
    jobs, seed = ["--jobs", settings.jobs], ["--seed", settings.seed]
    languages = ["--source-language", "source", "--target-language", "target"]
    for name in (PART, ALL):
        text, model = work / name, work / f"{name}.model"
        build = ["moses-bridge", "build", "--corpus", text, *languages, "--out", model, *jobs]
        yield "build", build
        if settings.nnjm:
            network = ["rescorer", "train", f"{text}.target", "--source", f"{text}.source", *seed]
            network += ["--links", model / LINKS_NAMES[0], "--out", model / NETWORK]
            yield "nnjm", [*network, "--arch", "nnjm"]
        if name == PART:
            tune = ["tuning", "tune", "--ini", model / INI_NAME, "--out", work / "tuned"]
            tune += ["--source", work / "dev.source", "--metric", settings.metric, *seed, *jobs]
            tune += [f"--reference={work}/dev.target{number}" for number in range(n_references)]
            yield "tune", [*tune, *["--neural-lm", _served(model)] * settings.nnjm]


def _served(model: Path) -> str:
    """The NNJM beside a model as a feature of the search."""
    command = [COMMANDS / "rescorer", "serve", model / NETWORK]
    return f"{NETWORK_FEATURE}={shlex.join(map(str, command))}"


def _with_files_in(directory: Path, ini: Path) -> MosesIni:
    """The moses.ini of a system with its files in a directory: Moses looks in the working one first."""
    changed = read_ini(ini)
    for feature, name in MODEL_FILES.items():
        changed = with_path(changed, feature, directory / name)
    return changed


def _ranked(nbest: Path) -> Iterator[list[NBestEntry]]:
    """The hypotheses of each sentence, the best one first."""
    for _, entries in groupby(read_nbest(nbest), lambda entry: entry.sentence_id):
        yield sorted(entries, key=lambda entry: -entry.total)


def _probs(entries: Sequence[NBestEntry], scale: float) -> NDArray[np.float64]:
    """The probabilities of ranked hypotheses, *Shape:* (n_entries,)."""
    powers = np.exp(scale * np.array([entry.total - entries[0].total for entry in entries]))
    probs: NDArray[np.float64] = powers / powers.sum()
    return probs


def _scale(lists: Sequence[Sequence[NBestEntry]], accuracy: float) -> float:
    """The scale with which first hypotheses are on average as probable as they are right."""
    means = [np.mean([_probs(entries, scale)[0] for entries in lists]) for scale in SCALES]
    return float(SCALES[np.abs(np.array(means) - accuracy).argmin()])


def predict(
    system: Path, sources: Sequence[str], jobs: int = 1
) -> dict[str, list[tuple[str, float]]]:
    """Targets of each different source with their probabilities, the most probable first.

    A source of the training pairs has its targets there with their shares, another one those of 100 hypotheses,
    nan if there is one alone, and an empty one an empty target. `system` is a directory of `train`, `jobs` the
    processes of the decoder.

    Raises:
        InputError: the directory is no system of letters, or a file in it is malformed.
    """
    record = read_record(LettersSystem, system / SYSTEM, "a system of `tuning letters train`")
    run = load_run(system)
    seen = targets_by_source(read_pairs(system / PAIRS))
    found = {"": [("", 1.0)]}
    for source in seen.keys() & sources:
        ranked, total = seen[source].most_common(), seen[source].total()
        found[source] = [(target, n / total) for target, n in ranked]
    new = [source for source in dict.fromkeys(sources) if source not in found]
    if not new:
        return found
    networks = (_served(system),) if (system / NETWORK).exists() else ()
    config = replace(from_mapping(DecoderConfig, run.decoder, "decoder"), neural_lm=networks)
    with temporary_directory("letters") as folder:
        ini, text, out, nbest = (folder / name for name in (INI_NAME, "letters", "out", "nbest"))
        write_ini(_with_files_in(system.absolute(), system / INI_NAME), ini)
        write_lines(text, [split_units(source, record.units[0]) for source in new])
        with open_decoder(ini, config, jobs) as decoder:
            decoder.decode(text, out, run.weights, nbest, LIST_SIZE)
        for source, entries in zip(new, _ranked(nbest), strict=True):
            targets = [joined_units(entry.words, record.units[1]) for entry in entries]
            probs = _probs(entries, record.scale).tolist() if len(entries) > 1 else [math.nan]
            found[source] = [*zip(targets, probs, strict=True)]
    return found


def evaluate(system: Path, test: Path, jobs: int = 1, dictionary: bool = False) -> str:
    """A table of the lines that are right and the edits for 100 units, in percent.

    Its rows are all lines, those whose source is in the training pairs, and others. Beside the system there is
    a look-up: the most frequent target of a source in the training pairs; other sources are copied.

    Args:
        system: directory of `train`.
        test: lines `source <tab> target`.
        jobs: processes of the decoder.
        dictionary: count a source once, and any of its targets as right, instead of each line with its own.

    Raises:
        InputError: the directory is no system of letters, or a file is malformed.
    """
    record = read_record(LettersSystem, system / SYSTEM, "a system of `tuning letters train`")
    pairs, unit = read_pairs(test), record.units[1]
    several = targets_by_source(pairs)
    lines = [*several.items()] if dictionary else [(source, [target]) for source, target in pairs]
    sources = [source for source, _ in lines]
    seen = targets_by_source(read_pairs(system / PAIRS))
    predictions = predict(system, sources, jobs)

    def edits(chosen: str, targets: Iterable[str]) -> tuple[int, int]:
        """The edits to the nearest right target, and its units."""
        units = split_units(chosen, unit).split()
        others = [split_units(target, unit).split() for target in targets]
        counts = ((Levenshtein.distance(units, each), len(each)) for each in others)
        return min(counts, key=lambda count: count[0] / count[1])

    right = [targets for _, targets in lines]
    found = [predictions[source][0][0] for source in sources]
    copied = [seen[s].most_common(1)[0][0] if s in seen else s for s in sources]
    counts = [np.array([*map(edits, each, right)]) for each in (found, copied)]
    is_seen = np.array([source in seen for source in sources])
    table = f"{'':8}{'lines':>9}{'right':>9}{'edits':>9}{'look-up: right':>18}{'edits':>9}"
    for name, chosen in (("all", is_seen | True), ("seen", is_seen), ("unseen", ~is_seen)):
        table += f"\n{name:8}{chosen.sum():>9,}"
        for width, rows in zip((8, 17), [each[chosen] for each in counts], strict=True):
            if len(rows):
                rate = 100 * rows[:, 0].sum() / rows[:, 1].sum()
                table += f"{100 * (rows[:, 0] == 0).mean():>{width}.2f}%{rate:>8.2f}%"
    return table


def read_pairs(path: Path) -> list[Pair]:
    """Read lines `source <tab> target`; blanks around both are left out.

    Raises:
        InputError: a line is not UTF-8, has no or several tabs or an empty side; or there is no line.
    """
    pairs: list[Pair] = []
    for number, line in enumerate(read_text_lines(path), start=1):
        text = decoded_line(line, path, number)
        fields = [field.strip() for field in text.split("\t")]
        if len(fields) != 2 or not all(fields):
            hint = "`paste SOURCE TARGET` makes such lines of two files"
            raise InputError(path, number, shown(line), "source <tab> target", hint)
        pairs.append((fields[0], fields[1]))
    if not pairs:
        raise InputError(path, None, "no lines", "source <tab> target on each")
    return pairs


def read_sources(path: Path) -> list[str]:
    """Read a source a line; blanks around it are left out. InputError if a line is not UTF-8 or has a tab."""
    sources = []
    for number, line in enumerate(read_text_lines(path), start=1):
        sources.append(decoded_line(line, path, number).strip())
        if "\t" in sources[-1]:
            hint = "`cut -f 1` takes the sources of pairs"
            raise InputError(path, number, shown(line), "a source without tabs", hint)
    return sources


def targets_by_source(pairs: Iterable[Pair]) -> dict[str, Counter[str]]:
    """How often each target of a source is in the pairs."""
    found: dict[str, Counter[str]] = {}
    for source, target in pairs:
        found.setdefault(source, Counter())[target] += 1
    return found


def split_units(text: str, unit: Unit) -> bytes:
    """The units of a text with blanks between them; what would mislead Moses is escaped."""
    units = list(text) if unit == "letters" else text.split()
    return " ".join(
        SPECIAL.sub(lambda found: f"&#{ord(found[0])};", each) for each in units
    ).encode()


def joined_units(line: bytes, unit: Unit) -> str:
    """The text of units; undoes `split_units`."""
    text = line.decode("utf-8", "replace").replace(" ", "" if unit == "letters" else " ")
    return ESCAPE.sub(lambda found: chr(int(found[1])), text)
