from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, ToolError, UserError
from moses_bridge.formats import ngram_scorer
from moses_bridge.formats.ngram_scorer import (
    NO_ID,
    NeuralLm,
    ScorerProcess,
    ScorerProcesses,
    begin_estimates,
    serve_ngrams,
)


@pytest.mark.parametrize("text", ["CSLM0", "=cat", "CSLM0=", "CS LM=cat", "A='cat", "A_0=cat"])
def test_a_name_and_a_command_are_needed(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected (NAME=COMMAND|letters and digits)"):
        NeuralLm.parse(text)


class Scorer:
    """Words are numbered by their first byte; a value is the sum of the numbers, half of it a guess."""

    order, start_id, end_id, open_id = 2, 5, 7, 9

    def __init__(self, reads_source: bool = False) -> None:
        self.reads_source = reads_source

    def read(self, sources: Sequence[bytes]) -> int:
        return sum(len(source.split()) + 1 for source in sources)

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        return np.array([word[0] for word in words], np.int32)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        return -ngrams.sum(axis=1).astype(np.float32)

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        return self.log_probs(ngrams) / 2


def served(scorer: Scorer, requests: bytes) -> tuple[bytes, bytes]:
    """The greeting and the answers."""
    answers = io.BytesIO()
    serve_ngrams(scorer, io.BytesIO(requests), answers)
    greeting, _, rest = answers.getvalue().partition(b"\n")
    return greeting, rest


def test_the_protocol_byte_by_byte() -> None:
    ngram = np.array([1, 3], "<i4").tobytes()
    requests = b"W\x03\0\0\0b\nq" + b"N\x08\0\0\0" + ngram + b"E\x08\0\0\0" + ngram
    greeting, rest = served(Scorer(), requests)
    assert greeting == b"ngram-scorer 2 2 5 7 9 0"
    assert np.frombuffer(rest[:8], "<i4").tolist() == [ord("b"), ord("q")]
    assert np.frombuffer(rest[8:], "<f4").tolist() == [-4, -2]


def test_a_scorer_that_sees_the_source_is_asked_for_places() -> None:
    """Two sentences, one of them empty, have the places 0 1 2 and 3."""
    row = np.array([3, 1, 3], "<i4").tobytes()
    greeting, rest = served(Scorer(True), b"S\x05\0\0\0a b\n\n" + b"N\x0c\0\0\0" + row)
    assert greeting == b"ngram-scorer 2 2 5 7 9 1"
    assert np.frombuffer(rest[:4], "<i4").tolist() == [4]
    assert np.frombuffer(rest[4:], "<f4").tolist() == [-7]


@pytest.mark.parametrize("sees_source", [False, True])
@pytest.mark.parametrize(
    ("requests", "message"),
    [
        (b"Q\x04\0\0\0abcd", "found a request 'Q', expected one of W, S, N and E"),
        (b"\n", r"found a request '\\n', expected one of W, S, N and E"),
        (b"W", "found a request W that breaks off after 0 bytes, expected 4"),
        (b"E\x08\0", "found a request E that breaks off after 2 bytes, expected 4"),
        (b"W\x64\0\0\0abc", "found a request W that breaks off after 3 bytes, expected 100"),
        (b"S\x08\0\0\0a\nb", "found a request S that breaks off after 3 bytes, expected 8"),
        (b"S\x03\0\0\0a\nb", "found the end of a request S after 'b', expected a newline"),
        (b"N\x05\0\0\0abcde", "found a request N of 5 bytes, expected [23] int32 an n-gram"),
        (b"E\x04\0\0\0abcd", "found a request E of 4 bytes, expected [23] int32 an n-gram"),
        (b"N\x08\0\0\0abcd", "found a request N that breaks off after 4 bytes, expected 8"),
        (b"N\xff\xff\xff\0", "found a request N that breaks off after 0 bytes"),
    ],
)
def test_a_malformed_or_cut_request_is_an_error_and_gets_no_answer(
    sees_source: bool, requests: bytes, message: str
) -> None:
    answers = io.BytesIO()
    with pytest.raises(UserError, match=message):
        serve_ngrams(Scorer(sees_source), io.BytesIO(requests), answers)
    greeting = b"ngram-scorer 2 2 5 7 9 %d\n" % sees_source
    assert answers.getvalue() == greeting


# The other side of the protocol in a few lines of the shell: one word, one value, whatever is asked.
SHELL = r"""printf '{greeting}\n'; head -c 6 > /dev/null; printf '\003\000\000\000';
head -c 13 > /dev/null; printf '\000\000\200\277'; cat > /dev/null"""


@pytest.mark.parametrize(
    ("greeting", "open_id"), [("ngram-scorer 1 2 0 0", NO_ID), ("ngram-scorer 2 2 0 0 4 0", 4)]
)
def test_any_program_that_speaks_the_protocol_will_do(greeting: str, open_id: int) -> None:
    with ScorerProcess(["sh", "-c", SHELL.replace("{greeting}", greeting)]) as scorer:
        assert (scorer.order, scorer.start_id, scorer.end_id) == (2, 0, 0)
        assert (scorer.open_id, scorer.reads_source) == (open_id, False)
        assert scorer.encode([b"w"]).tolist() == [3]
        assert scorer.log_probs(np.zeros((1, 2), np.int32)).tolist() == [-1.0]
        assert scorer.estimates(np.zeros((0, 2), np.int32)).tolist() == []


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["/nonexistent/scorer"], "could not be started"),
        (["sh", "-c", "echo hello"], "expected a line ngram-scorer 2"),
        (["sh", "-c", "echo ngram-scorer 2 5 0 0"], "expected a line ngram-scorer 2"),
        (["sh", "-c", "echo ngram-scorer"], "expected a line ngram-scorer 2"),
        (["sh", "-c", "echo ngram-scorer 1 2 x 0"], "expected a line ngram-scorer 2"),
        (["sh", "-c", "echo ngram-scorer 1 2 0 99999999999"], "expected a line ngram-scorer 2"),
        (
            ["sh", "-c", "echo ngram-scorer 2 0 0 0 0 0"],
            "found the ORDER 0 .* expected .* 1 to 999",
        ),
        (["sh", "-c", "echo ngram-scorer 1 -3 0 0"], "found the ORDER -3 "),
        (["sh", "-c", "echo loaded >&2; echo ngram-scorer 1 1000 0 0"], "the ORDER 1000 .*loaded$"),
        (["sh", "-c", "echo no model here >&2; exit 3"], "status 3: no model here"),
    ],
)
def test_a_program_that_is_no_scorer_is_reported(command: list[str], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        ScorerProcess(command)


def test_an_answer_that_breaks_off_is_reported() -> None:
    greeting = ["sh", "-c", "echo ngram-scorer 1 2 0 0; head -c 6 > /dev/null; printf ab"]
    with ScorerProcess(greeting) as scorer, pytest.raises(ToolError, match="breaks off"):
        scorer.encode([b"w"])


def test_a_silent_command_is_told_of_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing until that is told."""
    notes, told = list[str](), tmp_path / "told"

    def note(text: str) -> None:
        notes.append(text)
        told.touch()

    monkeypatch.setattr(ngram_scorer, "NOTE_SECONDS", 0.1)
    monkeypatch.setattr(ngram_scorer, "print_note", note)
    wait = f"until rm {told} 2>&-; do sleep .02; done"
    steps = (wait, "echo ngram-scorer 1 2 0 0", "head -c 6 > /dev/null", wait)
    slow = "; ".join([*steps, r"printf '\003\000\000\000'"])
    with ScorerProcess(["sh", "-c", slow]) as scorer:
        assert scorer.encode([b"w"]).tolist() == [3]
    greeting, answer = notes
    assert "sleep .02" in greeting and "no greeting for 0 s; a scorer must answer each" in greeting
    assert "no answer for 0 s" in answer


def test_other_source_places_are_reported() -> None:
    command = r"echo ngram-scorer 2 2 0 0 0 1; head -c 9 > /dev/null; printf '\005\000\000\000'"
    with ScorerProcess(["sh", "-c", command]) as scorer, pytest.raises(ToolError) as message:
        scorer.read([b"a b"])
    assert "found 5 source places, expected 3" in str(message.value)


SERVED = """import sys
sys.path.insert(0, {folder!r})
from test_ngram_scorer import Scorer
from moses_bridge.formats.ngram_scorer import serve_ngrams
serve_ngrams(Scorer(), sys.stdin.buffer, sys.stdout.buffer)
"""


def test_a_process_computes_while_one_does_not_wait() -> None:
    program = SERVED.format(folder=str(Path(__file__).parent))
    ngrams = np.arange(200_000, dtype=np.int32).reshape(-1, 2)  # more than a pipe holds
    with ScorerProcess([sys.executable, "-c", program]) as scorer:
        answer = begin_estimates(scorer, ngrams)
        expected = Scorer().estimates(ngrams)
        np.testing.assert_allclose(answer(), expected)
        np.testing.assert_allclose(scorer.estimates(ngrams), expected)
        assert len(begin_estimates(scorer, ngrams[:0])()) == 0
    np.testing.assert_allclose(begin_estimates(Scorer(), ngrams)(), expected)


def test_a_process_is_kept_until_it_is_ended(tmp_path: Path) -> None:
    ends = tmp_path / "ends"
    script = f"echo ngram-scorer 1 2 0 0; cat > /dev/null; echo end >> {ends}"
    command = ("sh", "-c", script)
    with ScorerProcesses() as scorers:
        first = scorers.of(command)
        assert scorers.of(command) is first
        assert scorers.of((*command, "another")) is not first
        scorers.end()
        assert ends.read_text() == "end\n" * 2
        assert scorers.of(command) is not first
    assert ends.read_text() == "end\n" * 3


def test_what_cannot_be_started_is_not_kept() -> None:
    with ScorerProcesses() as scorers:
        for _ in range(2):
            with pytest.raises(ToolError, match="could not be started"):
                scorers.of(("/nonexistent/scorer",))
