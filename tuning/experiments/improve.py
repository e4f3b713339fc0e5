"""`tuning run improve`: what may help a Moses system is tuned on dev, chosen by dev, and compared on test."""

from __future__ import annotations

import shlex
import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from moses_bridge.base.config_text import to_toml
from moses_bridge.base.errors import UserError
from moses_bridge.base.json_files import read_record, write_json
from moses_bridge.base.lock import held_directory
from moses_bridge.base.provenance import file_digest
from moses_bridge.base.steps import LOG_NAME, run_step
from moses_bridge.base.textio import read_lines, write_changed, write_lines
from moses_bridge.formats.moses_ini import TABLE_KIND, MosesIni, read_ini
from moses_bridge.formats.moses_ini_edits import with_absolute_paths, with_path
from moses_bridge.formats.ngram_scorer import as_texts
from moses_bridge.formats.plain_text import (
    FORM_NAME,
    TextForm,
    casing_path,
    copy_form,
    learn_casing,
)
from moses_bridge.formats.words import as_text
from tuning.compare.comparison import Comparison, ResultRow, read_comparison
from tuning.compare.worth import ScoreWorth, Worth
from tuning.experiments.description import Experiment, System, read_experiment
from tuning.experiments.improve_checks import check_inputs, check_room
from tuning.experiments.improve_plan import (
    BASELINE,
    CONTROL,
    LINKS,
    Plan,
    bytes_needed,
    judged,
    make_plan,
    plan_lines,
)
from tuning.experiments.plan import JUDGED
from tuning.experiments.run import run_experiment
from tuning.experiments.settings import LINKS_NAMES, ImproveSettings, RunSettings
from tuning.loop.fingerprints import check_unchanged, fingerprint_commands, fingerprint_ini
from tuning.loop.ini_weights import write_tuned_ini
from tuning.loop.run_directory import INI_NAME, load_run, save_run
from tuning.report.page.inputs import ReportInputs
from tuning.report.page.write import write_report
from tuning.report.verdict import SURE, human_agreement

EXPERIMENT = Path(__file__).with_name("improve.toml")
COMMANDS = Path(sysconfig.get_path("scripts"))
WORK, TABLE = "work", "improved"
# In the folder of the build; its own "corpus" and "model" would be made by rules.
TEXTS, SYSTEM = "texts", "system"


@dataclass(frozen=True)
class Choice:
    """The system with the highest mean dev BLEU.

    Attributes:
        dev: mean dev BLEU of each system that was tried, 0 to 100.
        run: its tuning with the highest dev BLEU.
        judged: lines on what scores are worth, and on systems that were left out for that.
    """

    system: str
    dev: dict[str, float]
    run: Path
    judged: tuple[str, ...] = ()


def improve(settings: ImproveSettings) -> None:
    """Make a better system in OUT, with a table that shows its gain; what is finished is not made again.

    Raises:
        UserError: the system or a text is faulty, or a step failed.
    """
    experiment = read_experiment([EXPERIMENT, *settings.experiments])
    facts = check_inputs(settings)
    plan = make_plan(experiment, settings, facts)
    check_room(settings.out, bytes_needed(experiment, plan, facts))
    print("\n".join([*facts.lines, *plan_lines(settings, plan)]), flush=True)
    if settings.dry_run:
        return
    with held_directory(settings.out):
        text = _improved(settings, experiment, plan)
    print(f"\n{text}", end="")


def _improved(settings: ImproveSettings, experiment: Experiment, plan: Plan) -> str:
    work = settings.out.absolute() / WORK
    _prepare(settings, work, plan)
    worth = _worth(settings, work, plan)
    useless = left_out(experiment, plan, worth)
    lines = (*(f"{name}: {score}" for name, score in worth.items()), *useless.values())
    print("".join(f"{line}\n" for line in lines), end="", flush=True)
    tried = (BASELINE, *(name for name in plan.systems if name not in useless))
    seeds = experiment.seeds.runs
    tables: dict[str, Any] = {"candidates": {"rows": tried, "page": False}}
    runs = [f"runs/{name}-{seed}/weights.json" for name in tried for seed in seeds]
    _make(settings, work, plan, tables, runs)
    choice = replace(choose(work / "runs", tried, seeds), judged=lines)
    # Only now the test text is translated, by the choice, the baseline and the control.
    rows = [BASELINE] if choice.system == BASELINE else [BASELINE, choice.system]
    tables[TABLE] = {"rows": rows, "control": CONTROL, "page": False}
    _make(settings, work, plan, tables, [f"{TABLE}/table.json"])
    install(settings, experiment, choice)
    comparison = read_comparison(settings.out / "table.json")
    text = readme(settings, experiment, choice, comparison)
    write_changed(settings.out / "README.txt", text.encode(errors="surrogateescape"))
    return text


def _worth(settings: ImproveSettings, work: Path, plan: Plan) -> dict[str, ScoreWorth]:
    """The worth of the score of each network, but not of one that is the same for all hypotheses."""
    goals = {name: f"worth/{name}.json" for name in plan.judged}
    _make(settings, work, plan, {}, ["filtered/moses.ini", *goals.values()])
    found = {name: read_record(Worth, work / goal, "worth as JSON") for name, goal in goals.items()}
    scores = ((name, score) for name, worth in found.items() for score in worth.scores)
    return {name: score for name, score in scores if score.name == f"{JUDGED}_0"}


def left_out(experiment: Experiment, plan: Plan, worth: Mapping[str, ScoreWorth]) -> dict[str, str]:
    """The systems that need a score which cannot help, each with a line that says so."""
    return {
        system: f"not tuned: {experiment.systems[system].label}, because {name} cannot help"
        for system in plan.systems
        for name in judged(experiment, system)
        if name in plan.judged and not (name in worth and worth[name].can_help)
    }


def choose(runs: Path, systems: Sequence[str], seeds: Sequence[int]) -> Choice:
    """The choice among tuned systems by dev BLEU; the earlier one of two with the same."""
    paths = {name: [runs / f"{name}-{seed}" for seed in seeds] for name in systems}
    found = {name: {path: load_run(path).dev_bleu for path in paths[name]} for name in systems}
    dev = {name: float(np.mean([*values.values()])) for name, values in found.items()}
    best = max(dev, key=dev.__getitem__)
    return Choice(best, dev, max(found[best], key=found[best].__getitem__))


def _prepare(settings: ImproveSettings, work: Path, plan: Plan) -> None:
    """Lay out texts and system as an experiment has them, and make word links where they are needed."""
    corpus, model = work / TEXTS, work / SYSTEM
    corpus.mkdir(parents=True, exist_ok=True)
    model.mkdir(exist_ok=True)
    for part, prefix in settings.texts.items():
        for suffix in (*settings.languages, "groups"):
            lay_out(Path(f"{prefix}.{suffix}"), corpus / f"{part}.{suffix}")
    ini = with_absolute_paths(read_ini(settings.ini))
    table, place = _table(ini), model / "phrase-table.gz"
    lay_out(table, place)
    lines = with_path(ini, ini.of_kind(TABLE_KIND)[0].name, place).lines
    write_changed(model / INI_NAME, b"".join(line + b"\n" for line in lines))
    links = settings.found_links()
    if LINKS in plan.seconds:
        source, target = settings.languages
        command = ["moses-bridge", "build", "--source-language", source]
        command += ["--target-language", target, "--corpus", f"{corpus}/train"]
        command += ["--out", f"{work}/aligned"]
        _step(work, LINKS, [*command, "--jobs", str(settings.jobs)])
        links = work / "aligned" / LINKS_NAMES[0]
    if links is not None:
        lay_out(links, model / LINKS_NAMES[0])


def _make(
    settings: ImproveSettings, work: Path, plan: Plan, tables: dict[str, Any], goals: Sequence[str]
) -> None:
    decided = work / "decided.toml"
    write_changed(decided, to_toml({"tables": tables} | plan.limits).encode())
    run_experiment(
        [EXPERIMENT, *settings.experiments, decided],
        RunSettings(
            out=work,
            corpus=work / TEXTS,
            model=work / SYSTEM,
            languages=settings.languages,
            goals=tuple(goals),
            jobs=settings.jobs,
        ),
    )


def install(settings: ImproveSettings, experiment: Experiment, choice: Choice) -> None:
    """Write the chosen system into OUT: networks, the whole table, weights, the comparison and its page."""
    out, run = settings.out.absolute(), load_run(choice.run)
    work = out / WORK
    check_unchanged({choice.run: run})
    words = {word for command in run.commands().values() for word in shlex.split(command)}
    for network in experiment.networks:
        if str(work / network) in words:
            shutil.copytree(work / network, out / network, dirs_exist_ok=True)
    ini = settings.ini
    for column in _searched(experiment, choice.system).columns:
        new = out / column / INI_NAME
        command = ["rescorer", "score", _table(read_ini(ini)), "--ini", ini, "--ini-out", new]
        command += ["--model", work / str(experiment.columns[column].network), "--resume"]
        command += ["--out", new.with_name("phrase-table.gz"), "--jobs", settings.jobs]
        _step(work, f"{column} of the whole table", [*map(str, command)])
        ini = new
    weights = run.fixed_search or run.weights
    write_tuned_ini(with_absolute_paths(read_ini(ini)), weights, out / INI_NAME)
    write_form(settings, out)
    names = (each.partition("=") for each in as_texts(run.decoder.get("neural_lm")))
    neural_lms = [f"{name}={_moved(command, work, out)}" for name, _, command in names]
    features = [replace(f, command=_moved(f.command, work, out)) for f in run.nbest_features]
    decoder = run.decoder | {"neural_lm": neural_lms}
    installed = replace(run, ini=str(out / INI_NAME), decoder=decoder, nbest_features=features)
    hashes = fingerprint_ini(read_ini(installed.ini)) | fingerprint_commands(installed.commands())
    save_run(replace(installed, hashes=hashes), out)
    for file in (work / TABLE).glob("table.*"):
        shutil.copy(file, out)
    source, target = (work / TEXTS / f"test.{language}" for language in settings.languages)
    tables, log = [out / "table.json"], work / LOG_NAME
    steps = log if log.exists() else None
    page = ReportInputs(tables=tables, source=source, references=[target], steps=steps)
    write_report(replace(page, title=f"{settings.ini}, improved"), out / "report.html")


def _moved(command: str, work: Path, out: Path) -> str:
    """A command with the networks in another directory, and its program where this package's are."""
    program, *words = shlex.split(command)
    moved = [str(out / Path(word).name) if Path(word).parent == work else word for word in words]
    return shlex.join([str(COMMANDS / Path(program).name), *moved])


def readme(
    settings: ImproveSettings, experiment: Experiment, choice: Choice, comparison: Comparison
) -> str:
    """README.txt: what was chosen and why, its gain, and the command that translates with it."""
    source, target = settings.languages
    by_dev = sorted(choice.dev.items(), key=lambda item: -item[1])
    tried = [f"    {bleu:5.2f}  {experiment.systems[name].label}" for name, bleu in by_dev]
    chosen = experiment.systems[choice.system]
    uses_moses = f"Moses loads {settings.out}/moses.ini."
    if _searched(experiment, choice.system).search:
        uses_moses = (
            "Its networks are part of the search of the built-in decoder; Moses cannot load them."
        )
    elif chosen.reranks:
        uses_moses = f"Moses's search is that of {settings.out}/moses.ini; its lists are reranked."
    plain = []
    if not chosen.reranks:
        plain = [f"Plain text: moses-bridge translate {settings.out} new.txt"]
    lines = [
        f"chosen by dev: {chosen.label}; mean BLEU of {len(experiment.seeds.runs)} tunings:",
        *tried,
        *choice.judged,
        verdict_line(comparison),
        f"{settings.out}/ has moses.ini, weights.json, table.txt, report.html. Translate with it:",
        f"    tuning decode {settings.out} --source new.{source} --out new.{target}",
        f"The text must be tokenised as {settings.dev}.{source} is. {uses_moses}",
        *plain,
        f"{settings.out}/work has all that was tried; nothing else needs it.",
    ]
    return "\n".join([*lines, ""])


def verdict_line(comparison: Comparison) -> str:
    """The gain on the test text, whether it is beyond chance, and the gain of columns of noise."""
    baseline, *others = comparison.rows
    (noise,) = (row for row in others if row.system == comparison.control)
    chosen = next((row for row in others if row is not noise), None)
    if chosen is None or chosen.against_baseline is None:
        return f"test: {baseline.test_bleu:.2f}; of what was tried, nothing is better than your system by dev"
    gain = chosen.against_baseline
    sign = 1 if gain.delta >= 0 else -1
    low, high = sorted(sign * end for end in gain.interval)
    p_value = "p < 0.0001" if gain.corrected_p_value < 1e-4 else f"p {gain.corrected_p_value:.4f}"
    is_sure = gain.corrected_p_value < SURE
    parts = [
        f"test: {chosen.test_bleu:.2f} for {baseline.test_bleu:.2f}: "
        f"{'better' if sign > 0 else 'worse'} than your system by {sign * gain.delta:.2f} BLEU "
        f"({low:.2f} to {high:.2f}), {'sure beyond chance' if is_sure else 'which may be chance'}, {p_value}"
    ]
    lead = chosen.detokenised_bleu - baseline.detokenised_bleu
    if is_sure and lead > 0 and (share := round(human_agreement(lead, "BLEU"))) > 50:
        parts.append(f"people would prefer it in {share}% of cases")
    return "; ".join([*parts, f"columns of noise: {_delta(noise):+.2f}"])


def _searched(experiment: Experiment, system: str) -> System:
    """The system, or the one whose lists it reranks."""
    return experiment.systems[experiment.systems[system].reranks or system]


def _delta(row: ResultRow) -> float:
    return row.against_baseline.delta if row.against_baseline else 0.0


def write_form(settings: ImproveSettings, out: Path) -> None:
    """Say how the text of the system is made, as `moses-bridge corpus` does; else it shows its case itself."""
    text = settings.train or settings.dev
    for folder in (settings.ini.parent, text.parent):
        if (folder / FORM_NAME).exists():
            copy_form(folder, out, settings.languages)
            return
    source, target = settings.languages
    is_lower = all(line == line.lower() for line in map(as_text, read_lines(f"{text}.{source}")))
    write_json(out / FORM_NAME, asdict(TextForm(source, target, "lower" if is_lower else "true")))
    for language in settings.languages if not is_lower else ():
        learn_casing(map(as_text, read_lines(f"{text}.{language}")), casing_path(out, language))


def _table(ini: MosesIni) -> Path:
    return ini.file(ini.of_kind(TABLE_KIND)[0].arguments["path"])


def lay_out(given: Path, place: Path) -> None:
    """Link a file, or compress it once for the same bytes, under the name that the steps read."""
    if place.suffix == ".gz" != given.suffix:
        known, digest = place.with_name(f"{place.name}.sha256"), file_digest(given).encode()
        is_own = place.exists() and not place.is_symlink()
        if not (is_own and known.exists() and known.read_bytes() == digest):
            place.unlink(missing_ok=True)
            write_lines(place, read_lines(given))
            known.write_bytes(digest)
        return
    place.unlink(missing_ok=True)
    if given.exists():
        place.symlink_to(given.resolve())


def _step(work: Path, name: str, command: Sequence[str]) -> None:
    program, *arguments = command
    if run_step([str(COMMANDS / program), *arguments], work / LOG_NAME, name):
        raise UserError(f"{name}: {shlex.join(command)} failed; the lines above say why")
