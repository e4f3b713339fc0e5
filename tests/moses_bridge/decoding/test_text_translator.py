"""Plain text translated by a system: as Python, as a command, and line by line from a pipe."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import moses_bridge
from moses_bridge.cli import main
from moses_bridge.formats.plain_text import casing_path, learn_casing

WORDS = {"the": "le", "a": "un", "package": "paquet", "is": "est", "free": "libre", ":": ":"}
ARPA = r"""\data\
ngram 1=8

\1-grams:
-1.5 <unk>
0 <s>
-1.0 </s>
-0.7 le
-0.9 un
-0.8 paquet
-0.9 est
-0.9 libre

\end\
"""
INI = """[distortion-limit]
0
[feature]
UnknownWordPenalty
WordPenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=1 path=table
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=1
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -0.2
TranslationModel0= 0.3
Distortion0= 0.2
LM0= 0.4
"""


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A model as `moses-bridge build` leaves it."""
    rows = [f"{source} ||| {target} ||| 0.5 ||| 0-0" for source, target in sorted(WORDS.items())]
    rows += ["free software ||| logiciel libre ||| 0.9 ||| 0-1 1-0"]
    rows += ["free ||| gratuit ||| 0.1 ||| 0-0"]
    (tmp_path / "table").write_text("\n".join(sorted(rows)) + "\n")
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "moses.ini").write_text(INI)
    (tmp_path / "corpus.json").write_text(json.dumps({"source": "en", "target": "fr"}))
    learn_casing(["le Logiciel"], casing_path(tmp_path, "fr"))
    return tmp_path


def run(*arguments: object, text: bytes = b"") -> Result:
    words = [str(each) for each in ("translate", *arguments)]
    return CliRunner().invoke(main, words, prog_name="moses-bridge", input=text)


def test_lines_are_translated_with_their_tags_placeholders_and_capitals(system: Path) -> None:
    lines = ["The <b>package</b> is Free: %s!", "", "<i>free</i> software <br/>", "GNU/Linux"]
    expected = [
        "Le <b>paquet</b> est libre : %s !",
        "",
        "Logiciel <i>libre</i> <br/>",
        "GNU/Linux",
    ]
    with moses_bridge.load(system, {"jobs": 1}) as translator:
        assert translator.translate(lines) == expected
        assert translator.translate(lines[:1]) == expected[:1]
        note = translator.unknown_words.note()
        with pytest.raises(moses_bridge.UserError, match="one text 'free', expected a list"):
            translator.translate("free")
    # Twice "!", once "software", "gnu", "/" and "linux"; "%s" is meant to be copied.
    assert "(6 of 17)" in note and "'software' (1)" in note and "%s" not in note
    with moses_bridge.load(system, {"jobs": 1, "tags": "drop", "sentences": True}) as translator:
        assert translator.translate(["The <b>package</b>. It is."]) == ["Le paquet. It est."]


def test_unknown_words_known_in_lower_case_are_those_of_all_calls(system: Path) -> None:
    form = {"source": "en", "target": "fr", "case": "keep"}
    (system / "corpus.json").write_text(json.dumps(form))
    with moses_bridge.load(system, {"jobs": 1}) as translator:
        for line in ("The package", "Free"):
            translator.translate([line])
    assert translator.unknown_words.note().endswith("; 2 of them known in lower case")


def test_the_public_names() -> None:
    assert moses_bridge.__all__ == ["UserError", "load"]
    names = (
        "(system: 'Path | str', settings: 'Mapping[str, Any] | None' = None) -> 'TextTranslator'"
    )
    assert str(inspect.signature(moses_bridge.load)) == names


def test_a_wrong_setting_is_refused(system: Path) -> None:
    with pytest.raises(moses_bridge.UserError, match=r"tag.*tags"):
        moses_bridge.load(system, {"tag": "drop"})
    with pytest.raises(moses_bridge.UserError, match="jobs is 0; the smallest value is 1"):
        moses_bridge.load(system, {"jobs": 0})


def test_the_command_writes_lists_and_words(system: Path) -> None:
    (system / "terms").write_text("package\tPAQUET\n")
    (system / "text").write_text("A package\nfree\n")
    given = [system, system / "text", "--glossary", system / "terms", "--jobs", 1]
    given += ["--nbest", system / "list", "--nbest-size", 2]
    result = run(*given, "--out", system / "out")
    assert result.exit_code == 0, result.output
    assert (system / "out").read_text() == "Un PAQUET\nlibre\n"
    rows = [row.split("\t") for row in (system / "list").read_text().splitlines()]
    assert [[*row[:2], row[3]] for row in rows] == [
        ["1", "1", "Un PAQUET"],
        ["2", "1", "libre"],
        ["2", "1", "gratuit"],
    ]
    assert float(rows[1][2]) > float(rows[2][2])
    assert rows[0][4:] == ["a __term0__", "un __term0__", "0-0 1-1"]


def test_a_pipe_is_answered_line_by_line(system: Path) -> None:
    program = Path(sysconfig.get_path("scripts"), "moses-bridge")
    command = [program, "translate", system, "--jobs", "1"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        for line, expected in (("the package", "le paquet"), ("free", "libre")):
            os.write(process.stdin.fileno(), f"{line}\n".encode())
            assert process.stdout.readline().decode() == f"{expected}\n"
        process.stdin.close()
        assert process.wait() == 0


def tuned(system: Path, **record: Any) -> Path:
    """A run directory whose weights prefer the other translation."""
    run_directory = system / "run"
    run_directory.mkdir()
    ini = INI.replace("path=", f"path={system}/")
    (run_directory / "moses.ini").write_text(ini)
    weights = {
        "UnknownWordPenalty0": [1.0],
        "WordPenalty0": [-0.2],
        "TranslationModel0": [-0.3],
        "Distortion0": [0.2],
        "LM0": [0.0],
    }
    content = {"ini": "moses.ini", "weights": weights, "decoder": {}} | record
    (run_directory / "weights.json").write_text(json.dumps(content))
    return run_directory


def test_the_weights_of_a_tuning_are_used(system: Path) -> None:
    result = run(tuned(system), "--jobs", 1, text=b"free\n")
    assert (result.stdout, result.exit_code) == ("gratuit\n", 0)
    result = run(system / "run", "--ini", system / "moses.ini", "--jobs", 1, text=b"free\n")
    assert result.stdout == "gratuit\n"


def test_what_speaks_against_the_weights_is_said(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moses_bridge.load(tuned(system, caution="it is 0: why?"), {"jobs": 1})
    assert f"warning: {system / 'run' / 'weights.json'}: it is 0: why?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ({"decoder": {"neural_lm": ["CSLM0=./evil serve x"]}}, "'./evil serve x'.*--run-commands"),
        ({"nbest_features": [{"name": "A"}]}, "reranks n-best lists: `tuning decode`"),
        ({"decoder": {"stack_size": "x"}}, "stack_size"),
    ],
)
def test_runs_that_cannot_be_translated_with(
    system: Path, record: dict[str, Any], found: str
) -> None:
    with pytest.raises(moses_bridge.UserError, match=found):
        moses_bridge.load(tuned(system, **record))


def test_what_is_missing_or_malformed_is_named(system: Path) -> None:
    result = run(system, "--jobs", 1, text=b"free\n\xff\n")
    assert result.exit_code == 1 and "-:2: found bytes that are invalid start byte" in result.stderr
    (system / "corpus.json").unlink()
    result = run(system, text=b"free\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        f"{system}/moses.ini: found no corpus.json, expected one beside the model" in result.stderr
    )
    assert "nowhere/moses.ini" in run(system / "nowhere").stderr
