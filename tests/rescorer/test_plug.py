"""Architectures and columns from outside the package: the documentation's examples, from another folder."""

from __future__ import annotations

import gc
import gzip
import json
import math
import os
import pickle
import re
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from moses_bridge.base import number_program
from moses_bridge.base.errors import ConfigError, InputError
from rescorer.cli import main
from rescorer.contract.architectures import ARCHITECTURES, Architecture, is_foreign, load
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.object_reference import ObjectReference
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.external_values import scorer_of_command, scorer_of_factory
from rescorer.models.model_directory import load_model, save_model
from rescorer.models.scorer_choice import ScorerChoice
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder
from rescorer.tables.cluster_scoring import packed

DOCS = Path(__file__).parents[2] / "docs"
PAIRS = [(s, t) for s in ("a", "a b", "b c", "c") for t in ("x", "y x", "z z x", "w")]
TABLE = "".join(f"{s} ||| {t} ||| 0.5 0.25 ||| 0-0 |||\n" for s, t in PAIRS).encode()
INI = """[feature]
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path={}
[weight]
TranslationModel0= 0.2 0.2
"""
CONFIG = "n_held_out = 4\nshortlist = 4\n[loop]\nn_epochs = 1\nevaluations_per_epoch = 1\n"
EVIL = "import pathlib\npathlib.Path(__file__).with_name('it_ran').touch()\n"
FAULTY = {
    "raises": "import os\nraise ValueError('boom\\nbang')\n",
    "imports": "\nimport there_is_no_such_module\n",
    "broken": "def f(:\n",
    "leaves": "import sys\nsys.exit(3)\n",
    "other": "ARCHITECTURE = {'data': 'text'}\n",
    "evil": EVIL,
}
FACTORIES = """
import numpy as np

class Scorer:
    shortlist, needs_links = None, False
    def __init__(self, values):
        self.values = lambda batch: values

number = 3
def no_scorer(): return object()
def short(): return Scorer(np.zeros(2))
def words(): return Scorer(["one"] * 16)
def strange(): return Scorer(np.array([0.0] * 4 + [np.nan] + [0.0] * 11))
def raises(): raise KeyError("a key")
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's folder: the examples, copies of two architectures, modules with faults, and texts."""
    folder = tmp_path_factory.mktemp("own")
    for example in (DOCS / "examples").glob("*.py"):
        shutil.copy(example, folder)
    for name in ("encdec", "cslm"):
        copy_of(name, folder)
    for name, code in FAULTY.items():
        (folder / f"{name}.py").write_text(code)
    (folder / "factories.py").write_text(FACTORIES)
    (folder / "table.gz").write_bytes(gzip.compress(TABLE))
    (folder / "moses.ini").write_text(INI.format(folder / "table.gz"))
    (folder / "config.toml").write_text(CONFIG)
    for side in (0, 1):
        lines = "".join(f"{pair[side]}\n" for pair in PAIRS)
        (folder / ("source", "target")[side]).write_text(lines)
    (folder / "list").write_text("0 ||| x |0-0| ||| LM0= 1 ||| 1 ||| 0=0\n")
    return folder


def copy_of(name: str, folder: Path) -> None:
    """An architecture of the package under another name, in a folder."""
    module = ARCHITECTURES[name].partition(":")[0]
    place = Path(import_module(module).__file__ or "")
    copy = folder / f"copied_{name}"
    if place.name == "__init__.py":
        shutil.copytree(place.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        copy.mkdir()
        shutil.copy(place, copy / "__init__.py")
    for path in copy.rglob("*.py"):
        path.write_text(path.read_text().replace(module, copy.name))


@pytest.fixture(autouse=True)
def on_the_path(own: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(own))
    yield
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", "")).startswith(str(own)):
            del sys.modules[name]


def run(*arguments: object, stdin: bytes | None = None) -> Result:
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(main, words, stdin, prog_name="rescorer")


def succeed(*arguments: object, stdin: bytes | None = None) -> Result:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def fault(*arguments: object) -> str:
    """The one line that a command ends with."""
    result = run(*arguments)
    assert (result.exit_code, type(result.exception)) == (1, SystemExit), result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("rescorer: error: ")]
    assert result.stderr.splitlines()[-1] == line
    return line.removeprefix("rescorer: error: ")


def train(own: Path, out: Path, arch: str, *options: object) -> Path:
    text = own / "target" if "cslm" in arch else own / "table.gz"
    succeed("train", text, "--arch", arch, "--out", out, "--config", own / "config.toml", *options)
    return out


def score(own: Path, out: Path, *options: object, jobs: int = 1) -> bytes:
    succeed("score", own / "table.gz", "--out", out, "--jobs", jobs, *options)
    return out.read_bytes()


def column_of(out: Path) -> list[float]:
    rows = out.read_text().splitlines()
    return [math.log(float(row.split("|||")[2].split()[-1])) for row in rows]


# An architecture from outside


@pytest.mark.slow
def test_the_examples_work_from_another_folder(own: Path, tmp_path: Path) -> None:
    paths = [str(own), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def command(*words: object) -> str:
        arguments = [sys.executable, "-m", "rescorer", *map(str, words)]
        return subprocess.run(
            arguments, cwd=tmp_path, env=environment, capture_output=True, check=True, text=True
        ).stdout

    table, config = own / "table.gz", own / "config.toml"
    command("train", table, "--arch", "my_scorer:", "--out", "bag", "--config", config)
    assert json.loads((tmp_path / "bag/config.json").read_text())["architecture"] == "my_scorer:"
    models = ("--model", "bag", "--trust-code", "--scorer", "my_values:length_scorer")
    command("score", table, *models, "--out", "scored", "--jobs", "2")
    assert column_of(tmp_path / "scored") == pytest.approx([-1, -2, -3, -1] * 4, abs=1e-6)
    lines = command("generate", "bag", own / "source", "-n", "2", "--trust-code").splitlines()
    assert len(lines) >= len(PAIRS)


def test_the_documentation_shows_the_examples_as_they_are() -> None:
    page = (DOCS / "adding_a_scorer.md").read_text()
    for example in (DOCS / "examples").glob("*.py"):
        assert example.read_text() in page


def test_an_example_agrees_with_its_formula(own: Path, tmp_path: Path) -> None:
    """The Elman network (Elman, 1990) written out, word by word, in float64."""
    model = load_model(train(own, tmp_path / "m", "my_scorer:"), trust_code=True)
    scorer = load("my_scorer:").scorer(model, Compute(device="cpu"))
    batch = Batch([s.encode() for s, _ in PAIRS], [t.encode() for _, t in PAIRS])
    weights = {name: tensor.double().numpy() for name, tensor in model.network.state_dict().items()}
    found = scorer.values(batch)
    source_words, target_words = model.shortlists.source_words, model.shortlists.target
    for (source, target), value in zip(PAIRS, found, strict=True):
        ids = source_words.encode_words(source.encode().split())
        bag = weights["source.weight"][ids].mean(axis=0)
        state, log_prob, previous = np.tanh(bag), 0.0, -1
        for word in [*target_words.encode_words(target.encode().split()), target_words.end_id]:
            entering = weights["target.weight"][previous] + bag
            product = weights["recurrent.weight"] @ state + weights["recurrent.bias"]
            state = np.tanh(product + entering)
            logits = weights["output.weight"] @ state + weights["output.bias"]
            log_prob += logits[word] - np.log(np.exp(logits).sum())
            previous = word
        assert value == pytest.approx(log_prob, abs=1e-5)


def test_a_copy_outside_gives_the_bytes_of_the_architecture_inside(
    own: Path, tmp_path: Path
) -> None:
    outputs = []
    for arch, trust in (("encdec", ()), ("copied_encdec:ARCHITECTURE", ("--trust-code",))):
        out = tmp_path / arch.partition(":")[0]
        train(own, out, arch)
        assert json.loads((out / "config.json").read_text())["architecture"] == arch
        table = score(own, out / "scored.gz", "--model", out, *trust)
        generated = succeed("generate", out, own / "source", "-n", "3", *trust).stdout_bytes
        near = succeed("neighbors", out, "--word", "a", *trust).stdout_bytes
        files = [(out / name).read_bytes() for name in ("model.safetensors", "source.vocab")]
        outputs.append((table, generated, near, *files))
    assert outputs[0] == outputs[1]


def test_a_copy_outside_serves_the_same_ngrams(own: Path, tmp_path: Path) -> None:
    answers = []
    words = b"W" + struct.pack("<I", 3) + b"x\nw"
    for arch, trust in (("cslm", ()), ("copied_cslm:", ("--trust-code",))):
        out = train(own, tmp_path / arch.strip(":"), arch)
        (order,) = succeed("serve", out, *trust, stdin=b"").stdout_bytes.split()[2:3]
        ngrams = b"".join(struct.pack("<i", number % 3) for number in range(2 * int(order)))
        stdin = words + b"N" + struct.pack("<I", len(ngrams)) + ngrams
        answers.append(succeed("serve", out, *trust, stdin=stdin).stdout_bytes)
    assert answers[0] == answers[1]
    log_probs = np.frombuffer(answers[0][-8:], "<f4")
    assert (log_probs < 0).all() and np.isfinite(log_probs).all()


def test_a_training_of_a_copy_outside_resumes(own: Path, tmp_path: Path) -> None:
    for arch in ("encdec", "copied_encdec:"):
        train(own, tmp_path / arch.strip(":"), arch, "--epochs", 1)
        train(own, tmp_path / arch.strip(":"), arch, "--epochs", 2, "--resume")
    one, other = (tmp_path / name / "model.safetensors" for name in ("encdec", "copied_encdec"))
    assert one.read_bytes() == other.read_bytes()


def test_a_short_name_is_found_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("my_scorer", "my_scorer:ARCHITECTURE"):
        monkeypatch.setitem(ARCHITECTURES, "bag", place)
        assert isinstance(load("bag"), Architecture)
        assert load("bag") is load("my_scorer:") is load("my_scorer:ARCHITECTURE")
        assert not is_foreign("bag") and is_foreign("my_scorer:")
    own_place = ARCHITECTURES["encdec"]
    assert load(own_place if ":" in own_place else f"{own_place}:") is load("encdec")
    assert not is_foreign(f"{own_place.partition(':')[0]}:")


def test_trust_reaches_the_workers_of_a_cluster(own: Path, tmp_path: Path) -> None:
    model = train(own, tmp_path / "m", "my_scorer:")
    choice = ScorerChoice((model,), None, None, 1, Compute(device="cpu"), trust_code=True)
    sent = pickle.loads(pickle.dumps(packed(choice, choice.named())))
    (named,) = sent.named("cpu")
    batch = Batch([b"a b"], [b"x"])
    assert named.scorer.values(batch) == choice.named()[0].scorer.values(batch)


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("no_such:", "no_such:ARCHITECTURE: Python finds no module 'no_such'; put its folder into"),
        ("my_scorer.part:", "Python finds no module 'my_scorer.part'"),
        ("my_scorer:WRONG", "my_scorer.py has no WRONG"),
        ("my_scorer:BagConfig", "my_scorer:BagConfig is a type, not an Architecture"),
        ("other:", "other:ARCHITECTURE is a dict, not an Architecture"),
        ("raises:", "raises.py:2: found ValueError: boom bang, expected a module that can be"),
        ("imports:", "imports.py:2: found ModuleNotFoundError: No module named 'there_is_no_such"),
        ("broken:", "broken.py:1: found SyntaxError"),
        ("leaves:", "leaves.py:2: found SystemExit: 3"),
        ("../own:", "no object '../own:'; write package.module:NAME"),
        (".own:", "no object '.own:'"),
        (":ARCHITECTURE", "no object ':ARCHITECTURE'"),
        ("encdek", "no architecture 'encdek'; did you mean 'encdec'?"),
        ("my_scorer", "one of your own is package.module:NAME"),
    ],
)
def test_what_is_no_architecture_is_said_in_a_line(
    own: Path, tmp_path: Path, arch: str, message: str
) -> None:
    found = fault("train", own / "table.gz", "--arch", arch, "--out", tmp_path / "m")
    assert message in found
    assert not (tmp_path / "m").exists()


# Trust


def foreign(tmp_path: Path, name: str = "evil:ARCHITECTURE") -> Path:
    words = Vocabulary([b"x", b"y"])
    torch.manual_seed(0)
    network = EncoderDecoder(EncDecConfig(4, 4, 4), len(words), len(words))
    save_model(tmp_path / "m", name, network, network.config, Shortlists(words, words), {})
    return tmp_path / "m"


ASKS = {
    "score": "score table.gz --model M --out OUT",
    "nbest": "nbest list --source source --model M --feature NN0 --out OUT",
    "lines": "lines source target --model M --out OUT",
    "serve": "serve M",
    "neighbors": "neighbors M --word a",
    "preferences": "preferences table.gz --model X=M --out OUT.md",
    "map": "map M table.gz --out OUT",
    "generate": "generate M source",
    "decode": "decode M source",
    "perplexity": "perplexity M target --source source",
    "align": "align M source target",
    "expected-bleu": "expected-bleu M list --source source --reference target --out OUT",
    "score of two": "score table.gz --model M --model M --mean word-probs --out OUT --resume",
    "score raw": "score table.gz --model M --unnormalized --out OUT",
    "generate with a table": "generate M source --table table.gz",
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_code_of_a_model_is_not_run_without_trust(own: Path, tmp_path: Path, ask: str) -> None:
    model, out = foreign(tmp_path), tmp_path / "out"
    texts = {name: own / name for name in ("table.gz", "list", "source", "target")}
    places = {**texts, "M": model, "X=M": f"X={model}", "OUT": out, "OUT.md": f"{out}.md"}
    message = fault(*(places.get(word, word) for word in ask.split()))
    assert message == (
        f"{model}/config.json: found the architecture 'evil:ARCHITECTURE', code from outside rescorer, "
        "expected one of rescorer's own. If you trust this code, allow running it with --trust-code"
    )
    assert not (own / "it_ran").exists() and "evil" not in sys.modules
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


def test_each_command_that_loads_a_model_asks_for_trust() -> None:
    names = {name for name, command in main.all_commands().items() if takes_models(command)}
    assert names == {ask.split()[0] for ask in ASKS.values()}
    for name in names:
        assert "trust_code" in {parameter.name for parameter in main.all_commands()[name].params}


def takes_models(command: click.Command) -> bool:
    return bool({"model", "models"} & {parameter.name for parameter in command.params})


def test_trusted_code_is_run_and_its_faults_are_said(own: Path, tmp_path: Path) -> None:
    message = fault("generate", foreign(tmp_path), own / "source", "--trust-code")
    assert message.endswith("evil.py has no ARCHITECTURE")
    (own / "it_ran").unlink()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone:", "gone:ARCHITECTURE: Python finds no module 'gone'"),
        (
            "encdek",
            "config.json: found no known architecture.*There is no architecture 'encdek'; did",
        ),
        ("os.path join:", r"found no known architecture.*There is no object 'os.path join:'"),
        ("raises:", r"raises\.py:2: found ValueError"),
    ],
)
def test_a_model_whose_code_is_not_there_is_refused(
    tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises((ConfigError, InputError), match=message):
        load_model(foreign(tmp_path, name), trust_code=True)


# Columns from outside


def python(path: Path) -> str:
    return shlex.join([sys.executable, str(path)])


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("given", ["--values", "--scorer"])
def test_a_column_from_outside_is_one_like_any_other(
    own: Path, tmp_path: Path, given: str, jobs: int
) -> None:
    """The example gives what `--control length` has: so the tables and inis are the same."""
    place = python(own / "my_values.py") if given == "--values" else "my_values:length_scorer"
    results = []
    for column in (("--control", "length"), (given, place)):
        options = [*column, "--ini", own / "moses.ini", "--ini-out", tmp_path / "ini", "--resume"]
        table = score(own, tmp_path / "out", *options, jobs=jobs)
        results.append((table, (tmp_path / "ini").read_bytes()))
        sidecar = (tmp_path / "out.json").read_text()
        (tmp_path / "ini").unlink(), (tmp_path / "out").unlink(), (tmp_path / "out.json").unlink()
    assert results[0] == results[1]
    assert json.dumps(f"values of {place}") in sidecar


def test_shards_of_a_column_from_a_program_are_merged(own: Path, tmp_path: Path) -> None:
    values = ("--values", python(own / "my_values.py"))
    whole = score(own, tmp_path / "whole", *values)
    parts = [tmp_path / f"part{number}" for number in (1, 2)]
    for number, part in enumerate(parts, start=1):
        score(own, part, *values, "--shard", f"{number}/2")
    succeed("merge", *parts, "--out", tmp_path / "merged")
    assert (tmp_path / "merged").read_bytes() == whole


def test_models_programs_and_functions_give_columns_in_this_order(
    own: Path, tmp_path: Path
) -> None:
    model = train(own, tmp_path / "m", "encdec")
    score(own, tmp_path / "alone", "--model", model)
    length = scorer_of_factory("my_values:length_scorer").scorer
    options = ["--scorer", "my_values:length_scorer", "--values", python(own / "my_values.py")]
    score(own, tmp_path / "all", *options, "--model", model)
    values = [
        line.split("|||")[2].split()[2:] for line in (tmp_path / "all").read_text().splitlines()
    ]
    batch = Batch([s.encode() for s, _ in PAIRS], [t.encode() for _, t in PAIRS])
    expected = [column_of(tmp_path / "alone"), length.values(batch), length.values(batch)]
    np.testing.assert_allclose(np.log(np.array(values, float)).T, expected, atol=1e-5)
    mean = ("--mean", "sentence-log-probs")
    score(own, tmp_path / "mean", "--model", model, *options[2:], *mean)
    np.testing.assert_allclose(
        column_of(tmp_path / "mean"), np.mean(expected[:2], axis=0), atol=1e-5
    )


DIES = """
import os, sys
n_blocks = n_rows = 0
for line in sys.stdin.buffer:
    if line == b"\\n":
        n_blocks += 1
        print(flush=True)
    elif n_blocks and os.path.exists(__file__ + ".dies"):
        sys.exit("out of memory,\\nas it seems")
    else:
        n_rows += 1
        print(f"{-len(line.split(b' ||| ')[1].split()):.17f}")
open(__file__ + ".rows", "w").write(f"{n_rows}")
"""


@pytest.fixture
def long_table(tmp_path: Path) -> Path:
    """Two blocks, of more bytes than a pipe holds, in either direction."""
    rows = [f"s{n // 4} w ||| t{n} u ||| 0.5 ||| 0-0 |||\n" for n in range(12_000)]
    (tmp_path / "table").write_text("".join(rows))
    return tmp_path / "table"


def test_a_run_whose_program_died_is_resumed(long_table: Path, tmp_path: Path) -> None:
    program, dies = tmp_path / "program.py", tmp_path / "program.py.dies"
    program.write_text(DIES)
    dies.touch()
    ask = ("score", long_table, "--jobs", 1, "--out")
    message = fault(*ask, tmp_path / "out", "--values", python(program))
    assert message.startswith(
        f"{long_table}:8193: found the end of the answer instead of the value"
    )
    assert "program.py ended with status 1: as it seems (values of" in message
    assert not (tmp_path / "out").exists()
    dies.unlink()
    succeed(*ask, tmp_path / "out", "--values", python(program), "--resume")
    gc.collect()  # it ends with its scorer
    assert (tmp_path / "program.py.rows").read_text() == f"{12_000 - 8192}"
    succeed(*ask, tmp_path / "expected", "--control", "length")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "expected").read_bytes()


def test_a_program_may_write_much_to_standard_error(long_table: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"import sys\nprint('x' * 1_000_000, file=sys.stderr)\n{DIES}")
    succeed("score", long_table, "--out", tmp_path / "out", "--values", python(program))
    assert column_of(tmp_path / "out") == pytest.approx([-2] * 12_000, abs=1e-6)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("sys.exit('no memory')", ":1: found the end of the answer.*status 1: no memory"),
        ("print(0); sys.exit(4)", ":2: found the end of the answer.*ended with status 4"),
        ("os.close(1); sys.stdin.read()", ":1: found the end of the answer.*closed its output"),
        ("os.kill(os.getpid(), 9)", ":1: found the end of the answer.*status -9"),
        ("print(0); print(-1); print()", r":3: found no value \(2 came for the 16 lines of its"),
        ("print('0\\n' * 17)", ":16: found '0' behind the value of 'c ||| w', expected an empty"),
        ("print('0\\n' * 16, end=''); sys.exit()", ":16: found the end of the answer"),
        ("print('0\\n-inf')", ":2: found the value '-inf' of 'a ||| y x', expected one finite"),
        ("print('nan')", ":1: found the value 'nan'"),
        ("print('1e999')", ":1: found the value '1e999'"),
        ("print('1_0')", ":1: found the value '1_0'"),
        ("print('-1 -2')", ":1: found the value '-1 -2'"),
        ("print('half')", ":1: found the value 'half'"),
        ("sys.stdout.buffer.write(b'\\xff' * 5000)", ":1: found the value"),
    ],
)
def test_an_answer_that_is_none_is_said_with_its_row(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, message: str
) -> None:
    if program.startswith("os.close(1)"):  # what does not end is waited for
        monkeypatch.setattr(number_program, "PATIENCE_SECONDS", 0.5)
    code = f"import os, sys\n{program}\nsys.stdout.flush()\nsys.stdin.read()\n"
    (tmp_path / "program.py").write_text(code)
    values = ("--values", python(tmp_path / "program.py"))
    found = fault("score", own / "table.gz", "--out", tmp_path / "out", *values, "--jobs", "2")
    assert found.startswith(f"{own}/table.gz:")
    assert len(found) < 1000
    assert re.search(message, found), found
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--values", "there_is_no_such_program -x"), "could not be started: there is no such"),
        (("--values", "cat 'open"), "No closing quotation"),
        (("--values", " "), "found no command"),
        (("--values", "cat", "--control", "length"), "or a control"),
        (("--values", "cat", "--unnormalized"), "only a model has a denominator"),
        (("--values", "cat", "--columns", "sum,unknown-words"), "has no shortlist"),
        (("--values", "cat", "--mean", "sentence-log-probs"), "name two at least"),
        (("--control", "length", "--with-links"), "--with-links is for --values"),
        (("--values", "cat"), "table.gz:1: found the value 'a ||| x' of 'a ||| x'"),
        (("--scorer", "factories"), "no object 'factories'; write package.module:NAME"),
        (("--scorer", "factories:"), "no object 'factories:'"),
        (("--scorer", "gone:make"), "Python finds no module 'gone'"),
        (("--scorer", "raises:make"), "raises.py:2: found ValueError: boom bang"),
        (("--scorer", "factories:none"), "factories.py has no none"),
        (("--scorer", "factories:number"), "factories:number is a int, not a function"),
        (("--scorer", "factories:no_scorer"), "object without values, shortlist, needs_links"),
        (("--scorer", "factories:raises"), "factories:raises() raised KeyError: 'a key'"),
        (("--scorer", "factories:short"), "found values of shape (2,), expected (16,)"),
        (("--scorer", "factories:words"), "factories:words: its values are no numbers"),
        (("--scorer", "factories:strange"), "table.gz:5: found the value nan of 'a b ||| x'"),
    ],
)
def test_what_gives_no_column_is_said_in_a_line(
    own: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    assert message in fault("score", own / "table.gz", "--out", tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("-1.5", "0.2231302"), ("-1e300", "1e-30"), ("1e-400", "1"), ("1e300", "1.651636e+38")],
)
def test_a_value_is_a_natural_logarithm_within_the_limits_of_moses(
    own: Path, tmp_path: Path, answer: str, expected: str
) -> None:
    """exp(-1.5) and exp(88) by a calculator; Moses's limits are those of every column."""
    program = f"sed -u 's/..*/{answer}/'"
    score(own, tmp_path / "out", "--values", program)
    rows = (tmp_path / "out").read_text().splitlines()
    (found,) = {float(row.split("|||")[2].split()[-1]) for row in rows}
    assert found == pytest.approx(float(expected), rel=1e-6)


def test_a_program_is_given_word_links_where_they_are_asked_for(own: Path, tmp_path: Path) -> None:
    program = "sed -u 's/^[^|]* ||| [^|]* ||| 0-0$/-2/; s/^[^|]* ||| [^|]*$/-1/'"
    for options, value in (((), -1), (("--with-links",), -2)):
        score(own, tmp_path / "out", "--values", program, *options)
        assert column_of(tmp_path / "out") == pytest.approx([value] * 16, abs=1e-6)
    (tmp_path / "bare").write_text("a ||| x ||| 0.5\n")
    ask = ("score", tmp_path / "bare", "--out", tmp_path / "none", "--values", program)
    assert "found no word links" in fault(*ask, "--with-links")


def test_each_thread_has_a_program_and_all_end_with_the_scorer(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\nfor line in sys.stdin: print(os.getpid() if line != '\\n' else '', flush=True)"
    )
    scorer = scorer_of_command(python(program)).scorer
    batch = Batch([b"a"], [b"x"])
    with ThreadPoolExecutor(3) as pool:
        numbers = {int(values[0]) for values in pool.map(scorer.values, [batch] * 30)}
    assert 1 <= len(numbers) <= 3
    assert scorer.values(Batch([], [])).shape == (0,)
    del scorer
    for number in numbers:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


def test_a_program_that_gives_no_answer_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives one when that is noted."""
    noted = tmp_path / "noted"
    monkeypatch.setattr(number_program, "NOTE_SECONDS", 0.2)
    monkeypatch.setattr(number_program, "print_note", noted.write_text)
    wait = f"until [ -e {noted} ]; do sleep .02; done"
    scorer = scorer_of_command(f"sh -c '{wait}; echo -3; echo'").scorer
    assert scorer.values(Batch([b"a"], [b"x"])).tolist() == [-3]
    assert "no answer to a block of 1 lines" in noted.read_text()


def test_the_fingerprint_is_that_of_the_program(tmp_path: Path) -> None:
    program, found = tmp_path / "program.py", []
    for code in ("one", "other"):
        program.write_text(code)
        found += [scorer_of_command(python(program)).fingerprint]
        found += [scorer_of_command(python(program), with_links=True).fingerprint]
    assert len(set(found)) == 4


@pytest.mark.parametrize(
    ("text", "default", "expected"),
    [("a.b:C", "", "a.b:C"), ("a:", "D", "a:D"), ("a_1.b2:_c", "D", "a_1.b2:_c")],
)
def test_a_reference_is_read_as_it_is_written(text: str, default: str, expected: str) -> None:
    assert str(ObjectReference.parse(text, default)) == expected


@pytest.mark.parametrize(
    "text", ["", ":", "a", "a:", "a:b.c", "a-b:c", "a..b:c", "1a:b", "a:b\n", "a :b"]
)
def test_another_form_is_no_reference(text: str) -> None:
    with pytest.raises(ConfigError, match=r"no object .*; write package\.module:NAME"):
        ObjectReference.parse(text)
