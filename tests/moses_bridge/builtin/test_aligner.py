"""Word links: symmetrisation against stored links, the library's models on text whose links are known."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from moses_bridge.base import progress
from moses_bridge.base.choices import Aligner
from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.builtin.aligner import align
from moses_bridge.builtin.symmetrization import Link, grow_diag_final_and, symmetrize
from moses_bridge.formats.alignment import parse_links


def symmetrized_and_stored(golden: Path) -> tuple[list[list[Link]], list[list[Link]]]:
    folder = golden / "extract"
    found = symmetrize(folder / "forward.align.gz", folder / "reverse.align.gz")
    stored = read_lines(folder / "aligned.grow-diag-final-and.gz")
    return [parse_links(line) for line in found], [sorted(parse_links(line)) for line in stored]


def test_all_sentences_have_the_links_of_symal(small_golden: Path) -> None:
    found, stored = symmetrized_and_stored(small_golden)
    assert found == stored


@pytest.mark.parametrize(
    ("forward", "reverse", "expected"),
    [
        (b"", b"", b""),
        (b"0-0 1-1", b"0-0 1-1", b"0-0 1-1"),
        # Beside 0-0, and its target word has no link yet: grown.
        (b"0-0 0-1", b"0-0", b"0-0 0-1"),
        # Diagonal to 0-0.
        (b"0-0 1-1", b"0-0", b"0-0 1-1"),
        # Not a neighbour, but both words are without link: the last step adds it.
        (b"0-0 3-3", b"0-0", b"0-0 3-3"),
        # Not a neighbour, and source word 0 has a link: left out.
        (b"0-0 0-3", b"0-0", b"0-0"),
        # No link in common: the last step takes the forward ones, then what they leave.
        (b"0-0", b"0-1 2-2", b"0-0 2-2"),
        # A chain: 1-1 beside 0-0 comes in, then 2-2 beside it.
        (b"0-0 1-1 2-2", b"0-0", b"0-0 1-1 2-2"),
    ],
)
def test_grow_diag_final_and_by_hand(forward: bytes, reverse: bytes, expected: bytes) -> None:
    links = grow_diag_final_and(parse_links(forward), parse_links(reverse))
    assert links == parse_links(expected)


@pytest.mark.parametrize(
    ("forward", "reverse", "message"),
    [([b"0-0", b"0"], [b"0-0", b"0-0"], "one:2: found the link"), ([b"", b""], [b""], "two:2")],
)
def test_faulty_links_are_told(
    tmp_path: Path, forward: list[bytes], reverse: list[bytes], message: str
) -> None:
    write_lines(tmp_path / "one", forward)
    write_lines(tmp_path / "two", reverse)
    with pytest.raises(InputError, match=message):
        list(symmetrize(tmp_path / "one", tmp_path / "two"))


def write_reversed_text(folder: Path, n_sentences: int) -> tuple[Path, Path]:
    """Each word has one translation; adjacent words of a pair change places."""
    draw = random.Random(3)
    sources, targets = [], []
    for _ in range(n_sentences):
        numbers = draw.sample(range(25), 6)
        moved = [numbers[i ^ 1] for i in range(6)]
        sources.append(b" ".join(b"f%d" % number for number in numbers))
        targets.append(b" ".join(b"\xff%d" % number for number in moved))
    # Lines without words, a non-breaking space inside a word and a form feed break nothing.
    sources += [b"", b"f1", b"f1\xc2\xa0x f2\x0c"]
    targets += [b"e1", b"", b"\xff1 \xff2"]
    write_lines(folder / "f", sources)
    write_lines(folder / "e", targets)
    return folder / "f", folder / "e"


@pytest.mark.parametrize(
    ("aligner", "least"), [("eflomal", 0.95), ("hmm", 0.95), ("fast-align", 0.8)]
)
def test_links_of_a_one_to_one_language_are_found(
    tmp_path: Path, aligner: Aligner, least: float
) -> None:
    source, target = write_reversed_text(tmp_path, 300)
    align(source, target, tmp_path / "links.gz", aligner, jobs=1)
    lines = [set(parse_links(line)) for line in read_lines(tmp_path / "links.gz")]
    truth = {(i, i ^ 1) for i in range(6)}
    n_right = sum(len(links & truth) for links in lines[:300])
    assert n_right / (300 * 6) > least
    assert n_right / sum(map(len, lines[:300])) > least
    assert lines[300:302] == [set(), set()]
    assert len(lines) == 303
    assert all(i < 2 and j < 2 for i, j in lines[302])


def test_links_do_not_depend_on_the_run_or_the_number_of_processes(tmp_path: Path) -> None:
    source, target = write_reversed_text(tmp_path, 100)
    for jobs in (1, 2):
        align(source, target, tmp_path / f"links{jobs}", "eflomal", jobs)
    assert (tmp_path / "links1").read_bytes() == (tmp_path / "links2").read_bytes()


def test_parts_of_a_long_text_are_aligned_by_themselves(tmp_path: Path) -> None:
    source, target = write_reversed_text(tmp_path, 297)
    align(source, target, tmp_path / "links", "eflomal", 1, pairs_at_once=150)
    lines = list(read_lines(tmp_path / "links"))
    assert len(lines) == 300
    for part in (0, 1):
        folder = tmp_path / f"part{part}"
        folder.mkdir()
        for path in (source, target):
            some = list(read_lines(path))[150 * part : 150 * (part + 1)]
            write_lines(folder / path.name, some)
        align(folder / "f", folder / "e", folder / "links", "eflomal", jobs=1)
        assert list(read_lines(folder / "links")) == lines[150 * part : 150 * (part + 1)]


def test_texts_of_different_length_are_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "f", [b"a", b"b"])
    write_lines(tmp_path / "e", [b"x"])
    with pytest.raises(InputError, match="e:2: found the end of the file"):
        align(tmp_path / "f", tmp_path / "e", tmp_path / "links", "eflomal", jobs=1)
    assert not (tmp_path / "links").exists()


@pytest.mark.parametrize(
    ("quiet", "jobs", "shown"),
    [
        (True, 1, []),
        (False, 1, ["source to target", "target to source"]),
        (False, 2, ["source to target"]),  # both at once, and one line on a terminal
    ],
)
def test_processes_are_quiet_and_one_at_a_time_shows_its_progress(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], quiet: bool, jobs: int, shown: list[str]
) -> None:
    write_lines(tmp_path / "text", [b"a b", b"b c"])
    progress.quiet(quiet)
    try:
        align(tmp_path / "text", tmp_path / "text", tmp_path / "links", "fast-align", jobs=jobs)
    finally:
        progress.quiet(False)
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("align")]
    assert [line.split(":")[0].removeprefix("align ") for line in lines] == shown
