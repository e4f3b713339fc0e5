"""Each command that README.md and the pages for beginners show is run, in their order, on a tiny corpus.

So is each block of Python (```python) of the page about the public names, in one folder and one namespace.

Blocks of shell (```sh) have one command a line; in blocks of a console (```console) commands begin with "$ "
and what they printed follows; a TOML block that begins with "# NAME.toml" is that file. The commands of a page
run in one folder with what the page says that its reader has. Trainings, tunings and the like get sizes and
limits for seconds at their end (`QUICK`), so that the commands are those of the page and the numbers are not.
"""

from __future__ import annotations

import gzip
import os
import random
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import moses_bridge.cli
import rescorer.cli
import tuning.cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / name
        for name in (
            "index.md",
            "quickstart.md",
            "which.md",
            "from_moses.md",
            "tutorial.md",
            "views.md",
            "pretrained.md",
            "rerank.md",
            "lines.md",
            "combine.md",
            "letters.md",
        )
    ),
]
LISTED = ("dev.en", "dev.fr", "dev.nbest", "test.en", "test.fr", "test.nbest")
PYTHON_PAGE = ROOT / "docs" / "api" / "index.md"
PROGRAMS: dict[str, click.Group] = {
    "moses-bridge": moses_bridge.cli.main,
    "rescorer": rescorer.cli.main,
    "tuning": tuning.cli.main,
}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONGEST_LINE = 120
MOST_LINES = 90  # of the README
# For seconds: a small network, one pass, few iterations. They go behind the options of the page.
QUICK = {
    ("rescorer", "train"): ["--config", "quick-train.toml"],
    ("tuning", "tune"): ["--config", "quick-tune.toml"],
    ("tuning", "compare"): ["--config", "quick-compare.toml"],
    ("tuning", "letters train"): ["--config", "quick-letters.toml"],
    ("rescorer", "preferences"): ["--min-words", "2", "--min-targets", "2"],
    ("rescorer", "map"): ["--words", "20", "--phrases", "20"],
}
SETTINGS = {
    "quick-train.toml": "n_held_out = 10\nloop = { n_epochs = 1 }\n"
    "model = { hidden_width = 8, embedding_width = 8, maxout_width = 4 }\n",
    "quick-tune.toml": "max_iterations = 2\nnbest_size = 5\n"
    "decoder = { stack_size = 5, pop_limit = 10 }\n",
    "quick-compare.toml": "n_samples = 20\n",
    "quick-letters.toml": "[tune]\nmax_iterations = 2\nnbest_size = 20\n"
    "[nnjm]\nn_held_out = 10\nloop = { n_epochs = 1 }\n"
    "model = { first_width = 8, second_width = 8 }\n",
}
# An architecture has settings of its own; these options are of all of them.
QUICK_OTHERS = ["--epochs", "1"]
ASKED_FOR = [
    (["server"], ["serveur"]),
    (["install"], ["installer"]),
    (["can", "be", "used"], ["peut", "être", "utilisé"]),
    (["for", "example"], ["par", "exemple"]),
]
# Fetching text through apt and a whole experiment are not for a test: the command lines are read, no more.
ONLY_READ = {("moses-bridge", "corpus"), ("tuning", "run")}


def commands_of(text: str) -> Iterator[list[str]]:
    """The command lines of a page, each split as a shell would."""
    for kind, body in FENCE.findall(text):
        joined = body.replace("\\\n", " ")
        for line in joined.splitlines():
            if kind == "console":
                if line.startswith("$ "):
                    yield shlex.split(line[2:], comments=True)
            elif kind == "sh":
                words = shlex.split(line, comments=True)
                if words:
                    yield words


def files_of(text: str) -> Iterator[tuple[str, str]]:
    """The settings files of a page, by name."""
    for kind, body in FENCE.findall(text):
        if kind == "toml" and (named := re.match(r"# (\S+\.toml)\n", body)):
            yield named[1], body


def python_blocks_of(text: str) -> list[str]:
    """The blocks of Python of a page, in their order."""
    return [body for kind, body in FENCE.findall(text) if kind == "python"]


def sentence_pair(rng: random.Random) -> tuple[str, str]:
    """A sentence and its translation: words that the pages ask for, then made-up ones; adjectives move."""
    source, target = (list(side) for side in rng.choice(ASKED_FOR))
    for _ in range(rng.randint(1, 4)):
        noun, adjective = rng.randrange(12), rng.randrange(6)
        source += [f"adj{adjective}", f"noun{noun}"]
        target += [f"nom{noun}", f"épithète{adjective}"]
    return " ".join([*source, "."]), " ".join([*target, "."])


def write_text(folder: Path) -> None:
    rng = random.Random(1)
    folder.mkdir(exist_ok=True)
    for part, n_sentences in {"train": 150, "dev": 6, "test": 6}.items():
        pairs = [sentence_pair(rng) for _ in range(n_sentences)]
        for language, lines in zip(("en", "fr"), zip(*pairs, strict=True), strict=True):
            (folder / f"{part}.{language}").write_text("".join(f"{line}\n" for line in lines))


def write_list(references: Path, nbest: Path) -> None:
    """Two hypotheses of each sentence: the reference from its end, and the reference."""
    with nbest.open("w") as stream:
        for number, line in enumerate(references.read_text().splitlines()):
            turned = " ".join(reversed(line.split()))
            for rank, words in enumerate((turned, line)):
                stream.write(f"{number} ||| {words} ||| LM0= {rank - 9} TM0= {-rank} ||| {-rank}\n")


def run(words: list[str]) -> None:
    program, *arguments = words
    result = CliRunner().invoke(PROGRAMS[program], arguments, prog_name=program)
    assert result.exit_code == 0, f"{shlex.join(words)}\n{result.output}\n{result.exception!r}"


def quickly(words: list[str]) -> list[str]:
    """The options with which a command of a page takes seconds; each process of its own would load networks."""
    command = (words[0], " ".join(words[1:3]) if words[1] == "letters" else words[1])
    _, found, _ = resolved(words)
    has_jobs = any("--jobs" in each.opts for each in found.params) and "--jobs" not in words
    alone = ["--jobs", "1"] if has_jobs else []
    if command == ("rescorer", "train") and "--arch" in words:
        return [*QUICK_OTHERS, *alone]
    return [*QUICK.get(command, []), *alone]


def resolved(words: list[str]) -> tuple[str | None, click.Command, list[str]]:
    """The name of a command, itself, and its arguments."""
    program = PROGRAMS[words[0]]
    name, found, arguments = program.resolve_command(click.Context(program), words[1:])
    assert found is not None
    return name, found, arguments


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What somebody with a Moses system has: model, texts for tuning and testing, a trained network."""
    folder = tmp_path_factory.mktemp("system")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_text(folder / "corpus")
        for part in ("dev", "test"):
            for language in ("en", "fr"):
                shutil.copy(f"corpus/{part}.{language}", f"{part}.{language}")
        for name, content in SETTINGS.items():
            Path(name).write_text(content)
        Path("phrases.en").write_text("can be used\nfor example\n")
        for part in ("dev", "test"):
            write_list(Path(f"{part}.fr"), Path(f"{part}.nbest"))
        corpus = ("--corpus", "corpus/train", "--source-language", "en", "--target-language", "fr")
        run(["moses-bridge", "build", *corpus, "--out", "model", "--jobs", "1"])
        train = ["rescorer", "train", "model/phrase-table.gz", "--out", "rnn"]
        run([*train, *quickly(train)])
        for language in ("en", "fr"):
            shutil.copy(f"dev.{language}", f"dom.{language}")
        n_lines = len(Path("dom.en").read_text().splitlines())
        Path("dom.links").write_text("0-0\n" * n_lines)
        for name in ("in", "out", "dev"):
            shutil.copytree("model", name)
    return folder


def write_letters(folder: Path) -> None:
    """Words of two spellings with their sounds, and some of them to try."""
    rng = random.Random(1)
    syllables = [consonant + vowel for consonant in "bcdfgklmnprst" for vowel in "aeiou"]
    words = [rng.choice(syllables) + rng.choice(syllables) for _ in range(200)]
    old = [word.replace("f", "ph").replace("u", "v") for word in words]
    spellings = [f"{source}\t{target}\n" for source, target in zip(old, words, strict=True)]
    sounds = [f"{word}\t{' '.join(word.upper())}\n" for word in words]
    for name, lines in {
        **{"spellings.tsv": spellings[:150], "test.tsv": spellings[140:160]},
        **{"lexicon.tsv": sounds[:150], "lexicon-test.tsv": sounds[140:160]},
        "words.txt": [f"{word}\n" for word in words[140:160]],
    }.items():
        (folder / name).write_text("".join(lines))


def write_pretrained(folder: Path) -> None:
    """A small model of random weights under the names that the page has for pretrained ones."""
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    import transformers
    from ctranslate2.converters import TransformersConverter

    transformers.logging.disable_progress_bar()
    maker = runpy.run_path(str(ROOT / "tests" / "bench" / "marian_model.py"))
    sides = [
        [pair[side] for pair in map(sentence_pair, [random.Random(1)] * 60)] for side in (0, 1)
    ]
    maker["write_marian"](folder / "opus-mt-en-fr", *sides, 60, maker["SMALL"])
    files = ["source.spm", "target.spm", "vocab.json", "tokenizer_config.json"]
    converter = TransformersConverter(str(folder / "opus-mt-en-fr"), copy_files=files)
    converter.convert(str(folder / "opus-ct2"))


def prepared(page: Path, system: Path, folder: Path) -> None:
    """What the reader of a page has before its first command."""
    given = {
        "README.md": ("model", *LISTED),
        "quickstart.md": ("model", "dev.en", "dev.fr", "test.en", "test.fr"),
        "which.md": ("corpus", "model", "dev.en", "dev.fr", "dom.en", "dom.fr", "dom.links"),
        "index.md": ("model", *LISTED),
        "from_moses.md": ("model",),
        "tutorial.md": ("corpus",),  # which its first command fetches
        "views.md": ("corpus", "model", "rnn", "phrases.en"),
        "pretrained.md": ("model", "dev.en", "dev.fr", "dev.nbest", "rnn"),
        "rerank.md": LISTED,
        "lines.md": ("corpus", "model", "rnn", "dev.en", "dev.fr", "dom.en", "dom.fr", "dom.links"),
        "combine.md": ("in", "out", "dev", "dev.fr"),
        "letters.md": (),
    }
    if page.name == "letters.md":
        write_letters(folder)
    if page.name == "pretrained.md":
        write_pretrained(folder)
    for name in (*given[page.name], *SETTINGS):
        place = system / name
        copy = shutil.copytree if place.is_dir() else shutil.copy
        copy(place, folder / name)
    ini = folder / "model" / "moses.ini"  # it names its tables by their whole paths
    if ini.exists():
        ini.write_text(ini.read_text().replace(str(system), str(folder)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_of_a_page_runs(
    page: Path, system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text()
    prepared(page, system, tmp_path)
    monkeypatch.chdir(tmp_path)
    # A command may start another one, as in --neural-lm "NNJM0=rescorer serve nnjm".
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    for name, content in files_of(text):
        Path(name).write_text(content)
    targets = make_targets()
    n_run = 0
    for words in commands_of(text):
        if words[0] == "make":
            assert words[1] in targets, words
            continue
        if "pip" in words[:2]:  # a test installs nothing
            assert "install" in words[1:3], words
            continue
        n_run += 1
        if (words[0], words[1]) in ONLY_READ:
            name, found, arguments = resolved(words)
            found.make_context(name, arguments)
            continue
        run([*words, *quickly(words)])
    assert n_run >= 2


def test_each_block_of_python_of_the_page_runs(
    system: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("phrase-table").write_bytes(
        gzip.decompress((system / "model/phrase-table.gz").read_bytes())
    )
    for name in ("model/moses.ini", "dev.en", "dev.fr", "test.en", "test.fr"):
        shutil.copy(system / name, Path(name).name)
    shutil.copy("test.fr", "test.out")
    write_list(Path("dev.fr"), Path("dev.nbest"))
    blocks = python_blocks_of(PYTHON_PAGE.read_text())
    assert len(blocks) == 6
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert "found 2 sources, 1 targets, expected as many of each" in capsys.readouterr().out
    rows = gzip.decompress(Path("likely.gz").read_bytes()).splitlines()
    assert [len(row.split(b" ||| ")[2].split()) for row in rows] == [5] * len(names["likely"])
    assert len(gzip.decompress(Path("scored.gz").read_bytes()).splitlines()) == len(names["frame"])
    assert Path("comparison/table.json").exists()


def test_a_block_of_python_that_is_wrong_is_noticed() -> None:
    text = (
        "```sh\nmake\n```\n```python\nimport rescorer\n```\n```python\nrescorer.lode('rnn')\n```\n"
    )
    first, second = python_blocks_of(text)
    names: dict[str, Any] = {}
    exec(first, names)
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        exec(second, names)


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text()
    return {
        name
        for names in re.findall(r"^([a-z][\w -]*):(?!=)", text, re.MULTILINE)
        for name in names.split()
    }


def test_what_is_no_command_is_not_taken_for_one() -> None:
    text = "```sh\nmake a  # b\nx y \\\n  z\n```\n```console\n$ c d\nprinted\n```\n```\nno\n```\n"
    assert list(commands_of(text)) == [["make", "a"], ["x", "y", "z"], ["c", "d"]]
    assert list(files_of("```toml\n# a.toml\nb = 1\n```\n```toml\nc = 1\n```\n")) == [
        ("a.toml", "# a.toml\nb = 1\n")
    ]


def test_every_block_of_the_readme_says_what_it_is() -> None:
    """A block without a kind would not be run."""
    for page in PAGES:
        kinds = {kind for kind, _ in FENCE.findall(page.read_text())}
        assert kinds <= {"sh", "console", "toml", "text", "python"}, page


def test_a_command_that_fails_is_noticed() -> None:
    with pytest.raises(AssertionError, match="rescorer score nowhere"):
        run(["rescorer", "score", "nowhere", "--out", "o"])


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > LONGEST_LINE] == []
    assert len(lines) <= MOST_LINES
