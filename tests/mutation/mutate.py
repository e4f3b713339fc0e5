"""Mutation testing: change a module in one place at a time and see whether its tests notice.

    python tests/mutation/mutate.py [PATH ...] [--faults] [--survivors] [--out DIR]

Cosmic Ray makes the mutants. They are tested in a copy of the tree, by processes forked from one that
has loaded the large libraries, so that a mutant costs what its tests take and no import of PyTorch.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
import tomllib
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COPIED = ("moses_bridge", "rescorer", "tuning", "tests", "pyproject.toml")
LIBRARIES = ("pytest", "hypothesis.extra.numpy", "numba", "numpy", "scipy.stats")
LIBRARIES_OF = {
    "rescorer": ("torch",),
    "tuning": ("pandas", "sacrebleu", "sacremoses", "sklearn.linear_model", "scipy.optimize"),
}
# pytest says that it cannot rewrite the assertions of what is loaded, and hypothesis is a plugin of it.
PYTEST = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")

# One replacement for an operator, one that is hard to notice: the others would fail with it.
REPLACED = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Div",
    "Div": "Mul",
    "FloorDiv": "Div",
    "Mod": "Mul",
    "Pow": "Mul",
    "BitOr": "BitAnd",
    "BitAnd": "BitOr",
    "BitXor": "BitOr",
    "RShift": "LShift",
    "LShift": "RShift",
}
COMPARED = {
    "Eq": "NotEq",
    "NotEq": "Eq",
    "Lt": "LtE",
    "LtE": "Lt",
    "Gt": "GtE",
    "GtE": "Gt",
    "Is": "IsNot",
    "IsNot": "Is",
}
OPERATORS = (
    *(f"ReplaceBinaryOperator_{old}_{new}" for old, new in REPLACED.items()),
    *(f"ReplaceComparisonOperator_{old}_{new}" for old, new in COMPARED.items()),
    "ReplaceUnaryOperator_Delete_USub",
    "ReplaceUnaryOperator_Delete_Invert",
    "ReplaceUnaryOperator_Delete_Not",
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "NumberReplacer",
    "RemoveDecorator",
    "ZeroIterationForLoop",
)

# An endless loop is a mutant that was noticed. So much more time of a processor than the tests of the
# module take, and so much more of a clock for what waits: other programs may use the processors too.
PATIENCE = 5
SECONDS_MORE = 20
CLOCK = 10


@dataclass(frozen=True)
class Mutant:
    """A module with one change: the line, how it reads before and after, and the text of the module."""

    line: int
    change: str
    code: str

    @property
    def key(self) -> tuple[int, str]:
        """What it is called from one run to the next."""
        return self.line, self.change


@dataclass(frozen=True)
class Suite:
    """The tests of a module; see modules.toml."""

    tests: Sequence[str]
    jit: bool = True
    last: str = ""

    def halves(self) -> list[list[str]]:
        """Arguments that choose the tests of each half: the slow ones run if the others pass."""
        return [["-k", f"not ({self.last})"], ["-k", self.last]] if self.last else [[]]


class Tree:
    """A copy of the packages and tests in which modules are changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        shutil.rmtree(path, ignore_errors=True)
        for name in COPIED:
            source, copy = ROOT / name, path / name
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "bench"))
            else:
                shutil.copy2(source, copy)

    def passes(self, suite: Suite, seconds: float | None = None) -> bool:
        """Whether all the tests pass, each half in a process of its own, in so many seconds of a processor."""
        for arguments in suite.halves():
            child = os.fork()
            if not child:
                self._run_tests([*suite.tests, *arguments], suite.jit, seconds)
            if _status(child, None if seconds is None else CLOCK * seconds) != 0:
                return False
        return True

    def _run_tests(self, arguments: list[str], jit: bool, seconds: float | None) -> None:
        status = 3
        try:
            os.setsid()
            if seconds is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (round(seconds), round(seconds)))
            os.chdir(self.path)
            sys.path.insert(0, str(self.path))
            os.environ["PYTHONPATH"] = str(self.path)
            log = os.open(self.path / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            numba, pytest = importlib.import_module("numba"), importlib.import_module("pytest")
            numba.config.DISABLE_JIT = int(not jit)
            status = int(pytest.main([*PYTEST, *arguments]))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def write(self, path: str, code: str) -> None:
        """Change a module; byte code of the same size and second would be taken for it otherwise."""
        target = self.path / path
        target.write_text(code)
        for stale in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
            stale.unlink()


def _status(child: int, seconds: float | None) -> int:
    """Exit status of a process, whose group is killed after so many seconds of a clock."""
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if end is not None and time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            end = None
        time.sleep(0.02)


def mutants(path: str) -> Iterator[Mutant]:
    """Every mutant of a module; those with one meaning once."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    code = (ROOT / path).read_text()
    seen = {_meaning(code)}
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        places = [p for node in ast_nodes(get_ast(code)) for p in operator.mutation_positions(node)]
        for number, ((line, _), _) in enumerate(places):
            try:
                changed = mutate_code(code, operator, number)
                meaning = _meaning(changed)
            except (AttributeError, SyntaxError):  # the first: an exception's name with a dot
                continue
            if meaning not in seen:
                seen.add(meaning)
                yield Mutant(line, _changed_line(code, changed), changed)


def _meaning(code: str) -> str:
    """The syntax tree without what no test of the module is asked to notice.

    Annotations of functions are for readers and type checkers; the defaults and limits of settings
    stand in docs/settings.md, and a test compares them with it. mypy sees that a frozen object is
    changed. Whether a line on standard error is flushed is seen by who waits for it.
    """
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.keyword) and node.arg in ("frozen", "flush"):
            node.value = ast.Constant(None)
        elif isinstance(node, ast.ClassDef) and node.name.endswith("Config"):
            node.body = [each for each in node.body if not isinstance(each, ast.AnnAssign)]
    return ast.dump(tree)


def _changed_line(code: str, changed: str) -> str:
    pairs = zip(code.splitlines(), changed.splitlines(), strict=False)
    return next(f"{old.strip()}  ->  {new.strip()}" for old, new in pairs if old != new)


def listed_modules() -> list[str]:
    """The modules that modules.toml names, by their paths."""
    listed = tomllib.loads((HERE / "modules.toml").read_text())
    found = (path for folder in listed["folders"] for path in sorted((ROOT / folder).glob("*.py")))
    paths = [path.relative_to(ROOT).as_posix() for path in found if path.name != "__init__.py"]
    return [path for path in (*paths, *listed["modules"]) if path not in listed["left_out"]]


def suite_of(path: str) -> Suite:
    """The tests of a module: the file in its place under tests/, and what modules.toml adds."""
    listed = tomllib.loads((HERE / "modules.toml").read_text())["exception"]
    exception = next((each for each in listed if each["path"] == path), {})
    module = Path(path)
    mirror = Path("tests") / module.with_name(f"test_{module.name}")
    own = [mirror.as_posix()] if (ROOT / mirror).is_file() else []
    tests = [*own, *exception.get("further", [])]
    return Suite(tests, exception.get("jit", True), exception.get("last", ""))


def test_module(path: str, out: Path, not_killed_alone: bool) -> None:
    """Test the mutants of a module and keep how each fared, in a JSON file named by the module."""
    suite = suite_of(path)
    record = out / f"{path.removesuffix('.py').replace('/', '.')}.json"
    tree = Tree(out / record.stem)
    seconds = _seconds_of(tree, suite)
    waiting = {mutant.key: mutant for mutant in mutants(path)}
    killed = {}
    if not_killed_alone and record.exists():
        entries = json.loads(record.read_text())
        earlier = {(entry["line"], entry["change"]): entry["killed"] for entry in entries}
        killed = {key: was for key, was in earlier.items() if key in waiting}
    # Survivors of the last time come before what was not tested then.
    for mutant in sorted(waiting.values(), key=lambda mutant: mutant.key not in killed):
        if killed.get(mutant.key):
            continue
        tree.write(path, mutant.code)
        killed[mutant.key] = not tree.passes(suite, PATIENCE * seconds + SECONDS_MORE)
        if not killed[mutant.key]:
            print(f"  survives: {path}:{mutant.line}: {mutant.change}", flush=True)
        entries = [
            {"line": line, "change": change, "killed": was}
            for (line, change), was in killed.items()
        ]
        record.write_text(json.dumps(entries, indent=1) + "\n")
    shutil.rmtree(tree.path)
    n_killed = sum(killed.values())
    print(f"{path}: {len(waiting)} mutants, {n_killed} killed", flush=True)


def _seconds_of(tree: Tree, suite: Suite) -> float:
    """Seconds of a processor that the tests of the unchanged module take, compiled as for each mutant."""
    for _ in range(2):
        begin = _processor_seconds()
        if not tree.passes(suite):
            sys.exit((tree.path / "log").read_text() + "the tests fail without any mutation")
    return _processor_seconds() - begin


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_faults(out: Path) -> bool:
    """Put each named fault into the code; whether the tests find all of them."""
    tree, missed = Tree(out / "faults"), 0
    for fault in tomllib.loads((HERE / "faults.toml").read_text())["fault"]:
        code = (ROOT / fault["path"]).read_text()
        if code.count(fault["old"]) != 1:
            sys.exit(f"{fault['path']} does not have the line {fault['old']!r} once")
        suite = Suite(fault["tests"])
        if not tree.passes(suite):
            sys.exit((tree.path / "log").read_text() + "the tests fail without any fault")
        tree.write(fault["path"], code.replace(fault["old"], fault["new"]))
        is_found = not tree.passes(suite)
        tree.write(fault["path"], code)
        missed += not is_found
        print(f"{'found' if is_found else 'NOT FOUND'}: {fault['name']}", flush=True)
    shutil.rmtree(tree.path)
    return not missed


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutation testing; see tests/mutation/README.md.")
    parser.add_argument(
        "paths", nargs="*", help="modules that have tests; by default those of modules.toml"
    )
    parser.add_argument("--faults", action="store_true", help="the named faults alone")
    parser.add_argument(
        "--survivors", action="store_true", help="not what was killed the last time"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutation")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    wanted = options.paths or listed_modules()
    untested = [path for path in wanted if not (ROOT / path).is_file() or not suite_of(path).tests]
    if untested:
        sys.exit(f"no module, or one without tests in its place: {', '.join(untested)}")
    # PyTorch's threads do not live on in a forked process.
    os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    for package in {path.split("/")[0] for path in wanted}:
        for library in (*LIBRARIES, *LIBRARIES_OF.get(package, ())):
            importlib.import_module(library)
    if options.faults:
        sys.exit(not test_faults(out))
    for path in wanted:
        test_module(path, out, options.survivors)


if __name__ == "__main__":
    main()
