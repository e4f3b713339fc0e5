"""What a column needs is installed without extras, and what a missing extra is for says how to install it."""

from __future__ import annotations

import ast
import gzip
import json
import pickle
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import rescorer
import tuning
from moses_bridge.base.errors import MODULES, MissingExtraError, UserError, extra_named

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = frozenset().union(*MODULES.values())
BINARY_MODEL = ROOT / "tests" / "data" / "kenlm" / "small.probing.gz"
OWN = {"moses_bridge", "rescorer", "tuning"}

# Runs command lines in a process that finds no module of an extra.
WITHOUT_EXTRAS = """
import json, sys
from importlib import import_module
from importlib.machinery import PathFinder

BLOCKED, COMMANDS = json.loads(sys.argv[1])
find_spec = PathFinder.find_spec

def find_others(name, path=None, target=None):
    return None if name.split(".")[0] in BLOCKED else find_spec(name, path, target)

PathFinder.find_spec = find_others
from click.testing import CliRunner

for command, *arguments in COMMANDS:
    main = import_module(command.replace("-", "_") + ".cli").main
    result = CliRunner().invoke(main, arguments, prog_name=command)
    print(json.dumps([result.exit_code, result.output, repr(result.exception)]))
"""


def without_extras(folder: Path, *commands: str) -> list[tuple[int, str]]:
    """The exit code and the output of each command line."""
    given = json.dumps([sorted(EXTRAS), [command.split() for command in commands]])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, given], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return [(code, output or error) for code, output, error in results]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extras")
    pairs = [(s, t) for s in ("a", "a b", "b c") for t in ("x", "y x", "z z x")]
    rows = [f"{s} ||| {t} ||| 0.5 0.25 ||| 0-0 ||| 2 4 1\n" for s, t in pairs]
    (folder / "table").write_text("".join(rows))
    (folder / "text").write_text("a b\nb c\n")
    without_words = bytearray(gzip.decompress(BINARY_MODEL.read_bytes()))
    without_words[100] = 0  # as build_binary -v writes it; KenLM alone reads it
    (folder / "lm.binary").write_bytes(without_words)
    (folder / "settings").write_text(
        "n_held_out = 3\nshortlist = 6\nloop = { n_epochs = 1, evaluations_per_epoch = 1 }\n"
        "model = { hidden_width = 6, embedding_width = 5, maxout_width = 4 }\n"
    )
    return folder


def test_a_column_needs_no_extra(folder: Path) -> None:
    results = without_extras(
        folder,
        "rescorer --help",
        "moses-bridge --help",
        "tuning --help",
        "rescorer train table --config settings --out rnn",
        "rescorer score table --model rnn --out scored",
    )
    assert [code for code, _ in results] == [0] * 5, results
    assert len((folder / "scored").read_text().split("\n")[0].split(" ||| ")[2].split()) == 3
    assert (folder / "rnn" / "training.jsonl").exists()
    assert not list((folder / "rnn").glob("events*"))


def test_a_missing_extra_is_an_error_with_the_command_to_type(folder: Path) -> None:
    commands = {
        "moses-bridge build --source-language en --target-language fr --corpus text --out model": "build",
        "tuning evaluate text --reference text": "report",
        "rescorer map rnn table --out map": "views",
        "rescorer score table --model rnn --ray local --out more": "cluster",
        "rescorer perplexity lm.binary text": "kenlm",
    }
    for extra, (code, output) in zip(
        commands.values(), without_extras(folder, *commands), strict=True
    ):
        expected = rf"^[\w-]+: error: (\w+) is not installed: pip install 'rescorer\[{extra}\]'"
        found = re.search(expected, output)
        assert code == 1 and found and found[1] in MODULES[extra], output
        assert len(output.splitlines()) == 1, output


def test_python_callers_get_the_same_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a\n")
    for module in ("pandas", "tuning.report.results"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=r"^pandas is not installed: .*'rescorer\[views\]'"):
        rescorer.read_table(tmp_path / "text")
    monkeypatch.delitem(sys.modules, "tuning.report.results")
    with pytest.raises(UserError, match=r"^pandas is not installed: .*'rescorer\[report\]'"):
        tuning.evaluate(tmp_path / "text", tmp_path / "text")


def test_other_missing_modules_are_not_hidden() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"), extra_named("views"):
        import nowhere  # type: ignore[import-not-found]  # noqa: F401
    error = pickle.loads(pickle.dumps(MissingExtraError("thot", "build")))
    assert (error.module, error.extra) == ("thot", "build")
    assert str(error) == "thot is not installed: pip install 'rescorer[build]'"


def test_extras_have_the_packages_of_their_modules() -> None:
    """The table in the code, against pyproject.toml and what is installed."""
    distributions = packages_distributions()
    for extra, modules in MODULES.items():
        declared = {name_of(line) for line in PROJECT["optional-dependencies"][extra]}
        for module in modules & distributions.keys():
            assert normal(distributions[module][0]) in declared, (extra, module)
        assert len(declared) == len(modules), extra
    wanted = {
        line
        for extra in MODULES
        if extra not in ("kenlm", "hf", "ct2")
        for line in PROJECT["optional-dependencies"][extra]
    }
    assert set(PROJECT["optional-dependencies"]["all"]) == wanted


def test_what_the_code_imports_is_a_dependency_or_of_an_extra() -> None:
    core = {name_of(line) for line in PROJECT["dependencies"]}
    imported = {name for package in OWN for name in imports_of(ROOT / package)}
    # By Jinja2, transformers, numba, and PyTorch's builds for GPUs.
    brought = {"markupsafe", "huggingface_hub", "llvmlite", "triton"}
    found = imported - set(sys.stdlib_module_names) - OWN - core - brought
    assert found == EXTRAS


def imports_of(folder: Path) -> set[str]:
    """The first parts of the names that the modules of a folder import, without those for types alone."""
    found = set[str]()
    for path in folder.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for_types = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if id(node) in for_types:
                continue
            if isinstance(node, ast.Import):
                found |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    return found


def name_of(requirement: str) -> str:
    """The name of a package in a line of pyproject.toml."""
    return normal(re.split(r"[<>=\[; ]", requirement)[0])


def normal(name: str) -> str:
    """The name in the spelling of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()
