"""Commands that are killed again and again, and run again until they end: what they write has the same bytes.

Those with --resume go on where they were killed, `build`, `translate` and `compare` with the files that are
complete; the others begin anew. The scoring of tables and the training of networks are in test_faults.py.
"""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from moses_bridge.base.command import CommandGroup
from moses_bridge.cli import main as moses_bridge
from rescorer.cli import main as rescorer
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder
from rescorer.scorers.rnnsearch import RnnSearch, RnnSearchConfig
from rescorer.scorers.zoo.cptm import Cptm, CptmConfig
from tests.faults.conftest import N_POINTS, Commands, Interrupted
from tuning.cli import main as tuning

N_KILLS = max(1, N_POINTS // 2)  # of each command
GROUPS: dict[str, CommandGroup] = {
    "moses-bridge": moses_bridge,
    "rescorer": rescorer,
    "tuning": tuning,
}
LANGUAGES = "--source-language en --target-language fr"
DEV = "--source {s}/dev.en --reference {s}/dev.fr"
TEST = "--source {s}/test.en --reference {s}/test.fr"
# What each writes is in {out}, and {s} is what `system` has; "run" is copied into {out} where COPIED says so.
RESUMED = {
    "tuning tune": f"--ini {{s}}/model/moses.ini {DEV} --out {{out}}/run --config {{s}}/tune.toml "
    "--jobs 1 --resume",
    "tuning rerank": f"{{s}}/run {DEV} --out {{out}}/run --jobs 1 --resume",
    "tuning scan": f"{{s}}/run --column LM0 {DEV} --out {{out}}/scan --config {{s}}/scan.toml --jobs 1 "
    "--resume",
    "rescorer expected-bleu": "{s}/cptm {s}/run/iter03.nbest.gz "
    f"{DEV} --out {{out}}/model --config {{s}}/bleu.toml --device cpu --resume",
    "rescorer nbest": "{s}/run/iter01.nbest.gz --source {s}/dev.en --model {s}/encdec --feature NN0 "
    "--out {out}/new.nbest.gz --device cpu --resume",
    "rescorer lines": "{s}/train.en {s}/train.fr --model {s}/encdec --out {out}/values.gz --device cpu "
    "--resume",
}
CONTINUED = {
    "moses-bridge build": f"--corpus {{s}}/train {LANGUAGES} --out {{out}}/model --jobs 1",
    "tuning decode": "{out}/run --source {s}/test.en --jobs 1",
    "tuning compare": f"A={{out}}/run {TEST} --out {{out}}/table --jobs 1",
}
COPIED = {"tuning decode", "tuning compare"}
BEGUN_ANEW = {
    "moses-bridge corpus": f"{LANGUAGES} --source {{s}}/train.en --target {{s}}/train.fr "
    "--out {out}/corpus --config {s}/corpus.toml --jobs 1",
    "moses-bridge select": "{s}/train.en --domain {s}/dev.en --out {out}/chosen.gz --share 0.5",
    "moses-bridge filter": "--ini {s}/model/moses.ini --source {s}/test.en --out {out}/filtered",
    "moses-bridge prune": "{s}/model/phrase-table.gz --out {out}/table.gz --share 0.5 "
    "--ini {s}/model/moses.ini --ini-out {out}/moses.ini",
    "moses-bridge decode": "--ini {s}/model/moses.ini --source {s}/test.en --out {out}/test.fr "
    "--nbest {out}/test.nbest.gz --jobs 1",
    "rescorer merge": "{s}/part1.gz {s}/part2.gz --out {out}/merged.gz",
    "rescorer generate": "{s}/encdec {s}/train.en --out {out}/targets.gz -n 3 --device cpu",
    "rescorer decode": "{s}/encdec {s}/dev.en --out {out}/dev.fr --nbest {out}/dev.nbest.gz --device cpu",
    "rescorer map": "{s}/encdec {s}/model/phrase-table.gz --out {out}/map --words 20 --phrases 20 "
    "--device cpu",
    "rescorer neighbors": "{s}/encdec {s}/model/phrase-table.gz --phrase s1 --cache {out}/vectors "
    "--device cpu",
    "rescorer align": "{s}/search {s}/dev.en {s}/dev.fr --out {out}/links --matrix {out}/weights.gz "
    "--device cpu",
}
ELSEWHERE = {"rescorer score", "rescorer train"}
WITH_PICTURES = {"tuning scan"}  # slow
# The log of steps, curves for TensorBoard, the state of a training: they have times, which no two runs share.
WITH_TIMES = ("steps.jsonl", "events.out.tfevents.", "training.safetensors")
SETTINGS = {
    "tune.toml": "max_iterations = 3\nnbest_size = 20\nstart_spread = 0.5\n"
    "decoder = { stack_size = 20, pop_limit = 40, segmentation = true }\n",
    "scan.toml": "grid = [0.2]\nmax_adaptations = 2\n",
    "bleu.toml": "lists_per_update = 5\nn_held_out = 3\n"
    "loop = { n_epochs = 30, checkpoint_minutes = 0.001 }\n",
    "corpus.toml": "n_dev = 20\nn_test = 20\n",
}


def write_texts(folder: Path) -> None:
    """Sentences of 20 words, each translated by one of two, and now and then moved."""
    rng = random.Random(1)
    for part, n_sentences in {"train": 300, "dev": 30, "test": 30}.items():
        sources = [
            [rng.randrange(20) for _ in range(rng.randint(3, 9))] for _ in range(n_sentences)
        ]
        lines = {"en": [[f"s{word}" for word in words] for words in sources], "fr": []}
        for words in sources:
            target = [f"t{word}{rng.choice('aab')}" for word in words]
            if rng.random() < 0.3:
                target[0], target[1] = target[1], target[0]
            lines["fr"].append(target)
        for language, sentences in lines.items():
            text = "".join(" ".join(words) + "\n" for words in sentences)
            (folder / f"{part}.{language}").write_text(text)


def save_models(folder: Path) -> None:
    """Networks of three kinds with random weights, for the words of the texts."""
    torch.manual_seed(1)
    sources = Vocabulary([b"s%d" % number for number in range(20)])
    targets = Vocabulary([b"t%d%c" % (number, kind) for number in range(20) for kind in b"ab"])
    shortlists = Shortlists(sources, targets)
    encdec = EncoderDecoder(EncDecConfig(16, 8, 8), len(sources), len(targets))
    encdec.initialise(None)
    save_model(folder / "encdec", "encdec", encdec, encdec.config, shortlists, {})
    sizes = RnnSearchConfig(hidden_width=8, embedding_width=8, attention_width=8, maxout_width=8)
    search = RnnSearch(sizes, len(sources), len(targets), dropout=0.0)
    save_model(folder / "search", "rnnsearch", search, search.config, shortlists, {})
    cptm = Cptm(CptmConfig(hidden_width=5, code_width=5), len(sources) + len(targets) - 2)
    save_model(folder / "cptm", "cptm", cptm, cptm.config, shortlists, {"seed": 7})


def command_line(name: str, system: Path, out: Path) -> list[str]:
    """The command with its arguments."""
    arguments = (RESUMED | CONTINUED | BEGUN_ANEW)[name]
    return [*name.split(), *shlex.split(arguments.format(s=system, out=out))]


@pytest.fixture(scope="module")
def system(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, a model, a tuned run, networks and two parts of a table."""
    folder = tmp_path_factory.mktemp("system")
    write_texts(folder)
    save_models(folder)
    for name, text in SETTINGS.items():
        (folder / name).write_text(text)
    for name in ("moses-bridge build", "tuning tune"):
        commands.prepare(*command_line(name, folder, folder))
    table = folder / "model" / "phrase-table.gz"
    score = ("rescorer", "score", table, "--control", "random", "--jobs", "1")
    for number in (1, 2):
        part = folder / f"part{number}.gz"
        assert commands.run(*score, "--shard", f"{number}/2", "--out", part) == 0
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """All that is not hidden and has no times."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        is_hidden = any(part[0] == "." for part in name.parts)
        if path.is_file() and not is_hidden and not path.name.startswith(WITH_TIMES):
            found[str(name)] = re.sub(rb'"minutes": [\d.e-]+', b"", path.read_bytes())
    return found


def outputs_of(
    name: str, system: Path, commands: Commands, folder: Path
) -> tuple[Interrupted, Iterator[dict[str, bytes]]]:
    given = None
    if name in COPIED:
        given = folder / "given"
        (given / "run").mkdir(parents=True)
        for path in (system / "run").iterdir():
            (given / "run" / path.name).write_bytes(path.read_bytes())
    runs = folder / "runs"
    job = Interrupted(commands, command_line(name, system, runs / "out"), runs, given)
    return job, (content(place) for place in job.outputs(N_KILLS))


def assert_the_same_again(name: str, system: Path, commands: Commands, folder: Path) -> None:
    before = content(system)
    job, found = outputs_of(name, system, commands, folder)
    first, *others = found
    assert first and others
    for other in others:
        job.assert_same(first, other)
    assert {path: data for path, data in content(system).items() if path in before} == before


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in WITH_PICTURES else [])
        for name in (*RESUMED, *CONTINUED)
    ],
)
def test_commands_that_go_on(name: str, system: Path, commands: Commands, tmp_path: Path) -> None:
    assert_the_same_again(name, system, commands, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", BEGUN_ANEW)
def test_commands_that_begin_anew(
    name: str, system: Path, commands: Commands, tmp_path: Path
) -> None:
    assert_the_same_again(name, system, commands, tmp_path)


def test_all_commands_that_resume_are_counted() -> None:
    found = {
        f"{program} {name}"
        for program, group in GROUPS.items()
        for name, command in group.all_commands().items()
        if any("--resume" in parameter.opts for parameter in command.params)
    }
    assert found == {*RESUMED, *ELSEWHERE}
