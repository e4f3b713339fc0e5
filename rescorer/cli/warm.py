"""The command warm: it compiles what the others need, by running them on a few words."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.util import find_spec
from multiprocessing import get_context
from runpy import run_module
from tempfile import NamedTemporaryFile

from moses_bridge.base.command import command
from moses_bridge.base.errors import MODULES, Extra, ToolError, UserError
from moses_bridge.base.machine import n_processors
from moses_bridge.base.programs import error_tail, worker_pool
from moses_bridge.base.progress import Progress
from moses_bridge.base.textio import temporary_directory

SOURCE, TARGET = "a b .\nb a .\n" * 4, "x y .\ny x .\n" * 4
WORDS = (("a", "x"), ("b", "y"), ("a", "z"), (".", "."))
FILES: Mapping[str, str] = {
    "text.en": SOURCE,
    "text.fr": TARGET,
    "nnjm.toml": "self_normalisation = 0.1\n",
    "links": "0-0 1-1 2-2\n" * 8,
    "phrase-table": "".join(
        f"{source} ||| {target} ||| 0.5 0.4 0.5 0.4 ||| 0-0 ||| 2 2 1\n" for source, target in WORDS
    ),
    # For `vocabulary.MANY_PHRASES`.
    "many-rows": "a ||| x ||| 0.5 0.4 0.5 0.4 ||| 0-0 ||| 2 2 1\n" * 1000,
    "reordering-table": "".join(
        f"{source} ||| {target} ||| 0.2 0.2 0.6 0.2 0.2 0.6\n" for source, target in WORDS
    ),
    "lm.arpa": "\\data\\\nngram 1=7\nngram 2=2\n\n\\1-grams:\n-9\t<s>\t-0.1\n-1\t</s>\n-3\t<unk>\n-1\tx\t-0.1\n"
    "-1\ty\t-0.1\n-2\tz\n-1\t.\t-0.1\n\n\\2-grams:\n-0.5\tx y\n-0.2\t. </s>\n\n\\end\\\n",
    "moses.ini": """\
[input-factors]
0

[mapping]
0 T 0

[distortion-limit]
6

[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path={folder}/phrase-table input-factor=0 \
output-factor=0
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff input-factor=0 \
output-factor=0 path={folder}/reordering-table
Distortion
KENLM name=LM0 factor=0 path={folder}/lm.arpa order=2

[weight]
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0= 0.2 0.2 0.2 0.2
LexicalReordering0= 0.3 0.3 0.3 0.3 0.3 0.3
Distortion0= 0.3
LM0= 0.5
""",
}
TUNING = (
    "tuning tune --ini {folder}/moses.ini --source {folder}/text.en --reference {folder}/text.fr "
    "--max-iterations 2 --nbest-size 5 --jobs 1"
)
# The installed packages, not those of the working directory, whose code has another folder.
PYTHON = (sys.executable, "-P", "-m")
TRAINING = "rescorer train --epochs 1"
# Those of one chain use the same compiled code or the output of an earlier one; chains run side by side.
CHAINS = (
    (
        f"{TUNING} --out {{folder}}/mert --optimizer mert",
        f"{TUNING} --out {{folder}}/kbmira --optimizer kbmira",
        f"{TUNING} --out {{folder}}/pro --optimizer pro",
        f"{TUNING} --out {{folder}}/xbleu --optimizer xbleu",
    ),
    (
        f"{TRAINING} {{folder}}/phrase-table --out {{folder}}/rnn",
        "rescorer score {folder}/many-rows --model {folder}/rnn --out {folder}/scored",
        "moses-bridge build --corpus {folder}/text --source-language en --target-language fr "
        "--out {folder}/model",
        "tuning evaluate {folder}/text.fr --reference {folder}/text.fr",
        f"{TRAINING} {{folder}}/text.fr --source {{folder}}/text.en --links {{folder}}/links --arch nnjm "
        "--config {folder}/nnjm.toml --out {folder}/nnjm",
        f"{TUNING} --out {{folder}}/search "
        "--neural-lm 'NNJM0={python} rescorer serve {folder}/nnjm --unnormalized'",
    ),
)


# What the commands of a program need beside what a column needs.
EXTRAS: Mapping[str, Extra] = {"tuning": "report", "moses-bridge": "build"}


def compile_all(n_jobs: int | None = None) -> None:
    """Run the commands whose code is compiled at first use, each on a few words.

    Commands whose packages are not installed are left out.

    Args:
        n_jobs: number of processes; None for one per processor.

    Raises:
        ToolError: a command failed.
        UserError: a process died.
    """
    chains = [[line for line in chain if _is_installed(line)] for chain in CHAINS]
    with (
        temporary_directory("warm") as folder,
        Progress("compile", sum(map(len, chains)), "commands") as progress,
        ThreadPoolExecutor(n_jobs or n_processors()) as pool,
    ):
        for name, text in FILES.items():
            content = text.replace("{folder}", str(folder))
            (folder / name).write_text(content, encoding="utf-8")
        for done in [pool.submit(_run, chain, str(folder), progress) for chain in chains]:
            done.result()


def _is_installed(line: str) -> bool:
    extra = EXTRAS.get(line.split()[0])
    return extra is None or all(map(find_spec, MODULES[extra]))


def _run(chain: Sequence[str], folder: str, progress: Progress) -> None:
    """Run the commands of a chain in one process, where each finds what those before it loaded and compiled."""
    places = {"folder": folder, "python": shlex.join(PYTHON)}
    with (
        NamedTemporaryFile(dir=folder) as messages,
        worker_pool(1, get_context("spawn"), _write_to, (messages.name,)) as process,
    ):
        for line in chain:
            words = [part.format_map(places) for part in shlex.split(line)]
            try:
                status = process.submit(_run_here, words).result()
            except BrokenProcessPool:
                raise UserError(f"{shlex.join(words)}: the process died") from None
            if status != 0:
                raise ToolError(words, status, error_tail(messages))
            progress.update()


def _write_to(path: str) -> None:
    with open(path, "wb") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())


def _run_here(words: Sequence[str]) -> int:
    sys.argv = list(words)
    try:
        run_module(words[0].replace("-", "_"), run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@command
def warm() -> None:
    """Compile what other commands need.

    Otherwise each compiles its own part at its first use. It takes about a minute, once.
    """
    compile_all()
