from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import moses_bridge.builtin.build
import moses_bridge.decoding.decoder
from moses_bridge.base.config import from_mapping, load_toml
from moses_bridge.base.config_text import commented_toml
from moses_bridge.cli import main
from moses_bridge.decoding.interface import DecoderConfig

COMMANDS = [
    "corpus",
    "select",
    "folds",
    "join-folds",
    "build",
    "align",
    "lexicon",
    "filter",
    "prune",
    "combine",
    "mix-models",
    "score-nbest",
    "check",
    "decode",
    "translate",
    "config",
    "step",
    "steps",
]
READ = {
    ("join-folds", "folds/folds"),
    ("lexicon", "model"),
}  # inputs of the examples, without suffix
TABLE = b"a ||| x ||| 0.5 1\na b ||| y ||| 0.5 1\nc ||| y ||| 0.5 1\n"
INI = """\
[feature]
PhraseDictionaryMemory name=TM num-features=2 path=table.gz
[weight]
TM= 0.2 0.2
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(
        main, [str(argument) for argument in arguments], prog_name="moses-bridge"
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small model and an input; the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.gz").write_bytes(gzip.compress(TABLE))
    (tmp_path / "moses.ini").write_text(INI)
    (tmp_path / "input").write_bytes(b"a b\n")
    return tmp_path


def test_all_commands_are_listed() -> None:
    assert sorted(main.all_commands()) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_in_each_help_is_a_right_command_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(name, "--help")
    assert result.exit_code == 0
    example = re.search(r"Example:\n((?:.*\\\n)*.*)", result.output)
    assert example is not None
    program, verb, *arguments = shlex.split(example[1].replace("\\\n", " "))
    assert (program, verb) == ("moses-bridge", name)
    for argument in arguments:
        if "." in argument or (name, argument) in READ:
            Path(argument).parent.mkdir(parents=True, exist_ok=True)
            Path(argument).touch()
    main.all_commands()[name].make_context(name, arguments)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["corpus", "--source-language", "en"], "--target-language"),
        (["build", "--corpus", "x"], "--source"),
        (["filter"], "--ini"),
        (["check", "nowhere"], "nowhere"),
        (["check", "--num-scores", "0", "moses.ini"], "--num-scores"),
        (["decode", "--ini", "moses.ini", "--source", "input", "--decoder", "best"], "best"),
        (["decode", "--ini", "moses.ini", "--source", "input", "--jobs", "0"], "--jobs"),
        (["transform"], "transform"),
        (["prune", "moses.ini", "--out", "."], "is a directory"),
        (["config", "moses.ini", "--out", "input"], "is a file"),
    ],
)
def test_wrong_command_lines(folder: Path, arguments: list[str], found: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert found in result.stderr


def test_the_prefix_of_a_corpus_may_be_a_directory_too(folder: Path) -> None:
    languages = ["--source-language", "en", "--target-language", "fr"]
    context = main.all_commands()["build"].make_context(
        "build", ["--corpus", str(folder), *languages, "--out", "model"]
    )
    assert context.params["corpus_prefix"] == folder


def test_check_of_a_good_table(folder: Path) -> None:
    result = run("check", "table.gz", "--num-scores", 2)
    assert result.exit_code == 0
    assert "3 rows, 3 sources, 2 scores a row" in result.output


def test_check_names_faults_and_fails(folder: Path) -> None:
    result = run("check", "table.gz", "--num-scores", 4)
    assert result.exit_code == 1
    faults = [line for line in result.output.split("\n") if line.startswith("table.gz:")]
    assert [fault.split(":")[1] for fault in faults] == ["1", "2", "3"]
    assert "found 2 scores, expected 4" in faults[0]


def test_check_reads_standard_input() -> None:
    result = CliRunner().invoke(main, ["check", "-"], input=TABLE)
    assert result.exit_code == 0
    assert "3 rows" in result.output


def test_filter(folder: Path) -> None:
    result = run("filter", "--ini", "moses.ini", "--source", "input", "--out", "out")
    assert result.exit_code == 0, result.output
    rows = gzip.decompress((folder / "out" / "table.gz").read_bytes()).split(b"\n")
    assert rows == [*TABLE.split(b"\n")[:2], b""]
    assert "path=table.gz" in (folder / "out" / "moses.ini").read_text()


def test_faults_of_files_end_with_status_1(folder: Path) -> None:
    (folder / "moses.ini").write_text(INI.replace("0.2 0.2", "0.2"))
    result = run("filter", "--ini", "moses.ini", "--source", "input", "--out", "out")
    assert result.exit_code == 1
    assert result.stderr == (
        "moses-bridge: error: moses.ini: found 1 weights of TM, expected 2, its num-features\n"
    )


def test_config(folder: Path) -> None:
    (folder / "e.toml").write_text("[corpus]\nn_dev = 5\n[tune]\n")
    assert run("config", "e.toml", "--out", "parts").exit_code == 0
    assert sorted(os.listdir("parts")) == ["corpus.toml", "tune.toml"]


def test_corpus_of_ones_own_files(folder: Path) -> None:
    numbers = [f"{number}{unit}" for number in "abcdefghij" for unit in "klmnopqrst"]
    Path("own.en").write_text("".join(f"The {number} is here.\n" for number in numbers))
    Path("own.fr").write_text("".join(f"Le {number} est ici.\n" for number in numbers))
    Path("c.toml").write_text("n_dev = 10\nn_test = 20\n")
    command = (
        *(
            "corpus",
            "--source-language",
            "en",
            "--target-language",
            "fr",
            "--out",
            "corpus",
            "--config",
            "c.toml",
        ),
        *("--source", "own.en", "--target", "own.fr", "--jobs", 1),
    )
    refused = run(*command)
    assert refused.exit_code == 1
    assert "no sentence is left for test: each one is a near copy" in refused.output
    Path("c.toml").write_text("n_dev = 10\nn_test = 20\nnear_copy = 0.0\n")
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert "train: 70 pairs, 350 words of en, 350 of fr\n" in result.output
    assert (
        "note: too few pairs for figures that mean anything: train 70, dev 10, test 20; "
        in result.stderr
    )
    assert "dev: 10 pairs" in result.output
    shares = "100.0% (>= 0.5), 100.0% (>= 0.7), 100.0% (>= 0.8)"  # one word of five is another
    near = f"test sentences with a near copy in train, by similarity: {shares}\n"
    assert near in result.output
    lines = Path("corpus/train.fr").read_text().split("\n")
    assert len(lines) == 71
    assert all(re.fullmatch(r"le \w\w est ici \.", line) for line in lines[:-1])


def test_build_passes_its_options_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        moses_bridge.builtin.build, "build_model", lambda *options: given.append(options)
    )
    Path("b.toml").write_text("lm_order = 3\nlm_prune = [0, 1]\n")
    result = run(
        *(
            "build",
            "--corpus",
            "c/train",
            "--source-language",
            "en",
            "--target-language",
            "fr",
            "--out",
            "model",
        ),
        *("--links", "input", "--config", "b.toml", "--smoothing", "none", "--jobs", 3),
    )
    assert result.exit_code == 0, result.output
    options = moses_bridge.builtin.build.BuildConfig(lm_order=3, lm_prune=(0, 1), smoothing="none")
    assert given == [(Path("c/train"), "en", "fr", Path("model"), options, Path("input"), 3, None)]


class RecordingDecoder:
    """Takes down what it is asked for."""

    def __init__(self, ini: Path, options: DecoderConfig, jobs: int) -> None:
        self.asked: list[Any] = [ini, options, jobs]

    def __enter__(self) -> RecordingDecoder:
        return self

    def __exit__(self, *_: object) -> None: ...

    def decode(
        self,
        source: Path,
        out: Path,
        weights: Mapping[str, Sequence[float]] | None,
        nbest: Path | None,
        nbest_size: int,
    ) -> None:
        self.asked += [source, out, weights, nbest, nbest_size]
        decoders.append(self)


decoders: list[RecordingDecoder] = []


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[RecordingDecoder]:
    monkeypatch.setattr(moses_bridge.decoding.decoder, "open_decoder", RecordingDecoder)
    decoders.clear()
    return decoders


def test_decode_by_default(folder: Path, recorded: list[RecordingDecoder]) -> None:
    result = run("decode", "--ini", "moses.ini", "--source", "input")
    assert result.exit_code == 0, result.output
    (decoder,) = recorded
    jobs = len(os.sched_getaffinity(0))
    assert decoder.asked == [
        *(Path("moses.ini"), DecoderConfig(), jobs),
        *(Path("input"), Path("-"), None, None, 100),
    ]


def test_options_of_decode_go_before_those_of_the_file(
    folder: Path, recorded: list[RecordingDecoder]
) -> None:
    Path("d.toml").write_text("stack_size = 50\npop_limit = 70\ntable_limit = 5\n")
    Path("w.json").write_text(json.dumps({"weights": {"TM": [1, 2]}}))
    result = run(
        *("decode", "--ini", "moses.ini", "--source", "input", "--out", "out"),
        *("--nbest", "n.gz", "--nbest-size", 7, "--decoder", "builtin", "--stack", 9),
        *("--weights", "w.json", "--config", "d.toml", "--jobs", 1),
    )
    assert result.exit_code == 0, result.output
    (decoder,) = recorded
    options = DecoderConfig(stack_size=9, pop_limit=70, table_limit=5, kind="builtin")
    assert decoder.asked == [
        *(Path("moses.ini"), options, 1),
        *(Path("input"), Path("out"), {"TM": (1, 2)}, Path("n.gz"), 7),
    ]


def test_decode_with_a_wrong_setting(folder: Path) -> None:
    Path("d.toml").write_text("stack = 50\n")
    result = run("decode", "--ini", "moses.ini", "--source", "input", "--config", "d.toml")
    assert result.exit_code == 1
    assert result.stderr == (
        "moses-bridge: error: d.toml: unknown key 'stack'; did you mean 'stack_size'?\n"
    )


MODEL = (
    "--corpus",
    "c/train",
    "--source-language",
    "en",
    "--target-language",
    "fr",
    "--out",
    "model",
)


@pytest.mark.parametrize(
    ("before", "after"),
    [([], []), (MODEL, []), ([], MODEL), ([], ["--links", "input"])],
    ids=["alone", "after the others", "before the others", "without what is required"],
)
def test_print_config_stands_anywhere(
    folder: Path, before: Sequence[str], after: Sequence[str]
) -> None:
    Path("b.toml").write_text("lm_order = 3\n")
    expected = commented_toml(moses_bridge.builtin.build.BuildConfig(lm_order=3, smoothing="none"))
    given = ["--config", "b.toml", "--smoothing", "none"]
    for arguments in ([*given, "--print-config"], ["--print-config", *given]):
        result = run("build", *before, *arguments, *after)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == expected
    assert not Path("model").exists()


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (["corpus"], {}),
        (["corpus", "--from", "files", "--jobs", 2], {"origin": "files", "jobs": 2}),
        (["corpus", "--source", "input"], {"origin": "files"}),
        (["build", "--smoothing", "none"], {"smoothing": "none"}),
        (
            ["decode", "--stack", 7, "--cube-pruning-pop-limit", 8, "--decoder", "builtin"],
            {"stack_size": 7, "pop_limit": 8, "kind": "builtin"},
        ),
        (["decode", "--neural-lm", "CSLM0=cat"], {"neural_lm": ["CSLM0=cat"]}),
    ],
)
def test_an_option_sets_its_key(
    folder: Path, arguments: list[object], changed: dict[str, Any]
) -> None:
    defaults = tomllib.loads(run(arguments[0], "--print-config").stdout)
    result = run(*arguments, "--print-config")
    assert tomllib.loads(result.stdout) == defaults | changed


def test_what_is_printed_gives_the_same_settings(folder: Path) -> None:
    printed = run("decode", "--stack", 7, "--print-config").stdout
    Path("d.toml").write_text(printed)
    assert run("decode", "--config", "d.toml", "--print-config").stdout == printed
    assert from_mapping(DecoderConfig, load_toml("d.toml"), "file") == DecoderConfig(stack_size=7)


@pytest.mark.parametrize(
    ("arguments", "status", "found"),
    [
        (["build", "--config", "b.toml"], 1, "b.toml: lm_order is 0; the smallest value is 1"),
        (["build", "--config", "nowhere.toml"], 2, "'nowhere.toml' does not exist"),
        (["build", "--smoothing", "some"], 2, "'some' is not one of"),
        (["build", "--wrong"], 2, "No such option"),
        (["filter"], 2, "No such option"),
    ],
)
def test_print_config_of_what_is_wrong(
    folder: Path, arguments: list[str], status: int, found: str
) -> None:
    Path("b.toml").write_text("lm_order = 0\n")
    for place in (1, len(arguments)):
        result = run(*arguments[:place], "--print-config", *arguments[place:])
        assert (result.exit_code, result.stdout) == (status, "")
        assert found in result.stderr


def test_align_trains_links_and_counts(folder: Path) -> None:
    Path("f").write_text("a b\nb\na\n" * 9)
    Path("e").write_text("x y\ny\nx\n" * 9)
    trained = run(
        "align", "f", "e", "--out", "kept", "--kind", "fast-align", "--links-out", "links"
    )
    assert trained.exit_code == 0, trained.output
    Path("new.f").write_text("b a c\n\n")
    Path("new.e").write_text("y x\n\n")
    given = ["new.f", "new.e", "--aligner", "kept"]
    result = run("align", *given, "--links-out", "new.links", "--scores-out", "new.scores")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines()[-1] == (
        "2 sentence pairs linked, but for 1 with a side that is empty or too long; "
        "1 of 5 words are unknown to the aligner"
    )
    assert Path("links").read_text().splitlines()[:3] == ["0-0 1-1", "0-0", "0-0"]
    assert len(Path("new.scores").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([], "give --out to train an aligner, or --aligner to use a trained one"),
        (["--out", "new", "--aligner", "."], "give --out to train an aligner, or --aligner"),
        (["--aligner", "."], "--aligner and --scores-out need --links-out"),
        (["--out", "new", "--scores-out", "scores"], "--aligner and --scores-out need --links-out"),
    ],
)
def test_align_needs_one_aligner_and_a_place_for_links(
    folder: Path, given: list[str], found: str
) -> None:
    result = run("align", "input", "input", *given)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"moses-bridge: error: {found}")
    assert result.stderr.count("\n") == 1 and not Path("new").exists()


def test_lexicon_prints_the_coverage(folder: Path) -> None:
    Path("f").write_text("a b\n")
    Path("e").write_text("x z\n")
    Path("links").write_text("0-0\n")
    cover = ["--cover", "f", "e"]
    result = run(
        "lexicon", "links", "--texts", "f", "e", "--out", "-", "--format", "marian", *cover
    )
    assert result.stdout == "x a 1.0000000\n"
    assert result.stderr.splitlines() == [
        "-: 1 pairs",
        "50.00% of 2 reference words covered, by 1.0 words a sentence",
    ]
