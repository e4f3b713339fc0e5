"""Word links: symmetrisation against stored links, the library's models on text whose links are known."""

from __future__ import annotations

import math
import os
import random
from pathlib import Path

import pytest
import thot.alignment

from moses_bridge.base import progress
from moses_bridge.base.choices import Aligner
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.builtin import aligner as module
from moses_bridge.builtin.aligner import (
    Link,
    LinkReport,
    align,
    grow_diag_final_and,
    link_text,
    symmetrize,
    train_aligner,
)
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
    align(source, target, tmp_path / "links", "eflomal", 1, pairs_at_once=299)
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


KINDS = ("eflomal", "hmm", "fast-align")


@pytest.fixture(scope="module", params=KINDS)
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An aligner of each kind, trained on 300 pairs."""
    folder = tmp_path_factory.mktemp(request.param)
    source, target = write_reversed_text(folder, 300)
    out: Path = folder / request.param
    train_aligner(source, target, out, request.param)
    return out


def write_new_text(folder: Path) -> tuple[Path, Path]:
    """Fifty pairs of the same language, none of them in the training, and four that are odd."""
    draw = random.Random(4)
    numbers = [draw.sample(range(25), 6) for _ in range(50)]
    odd_sources = [b"", b"f1", b"f3 new f4", b"f1 " * 1025]
    odd_targets = [b"\xff1", b"", b"\xff3 \xff4", b"\xff1"]
    sources = [b" ".join(b"f%d" % number for number in line) for line in numbers]
    targets = [b" ".join(b"\xff%d" % line[i ^ 1] for i in range(6)) for line in numbers]
    write_lines(folder / "new.f", sources + odd_sources)
    write_lines(folder / "new.e", targets + odd_targets)
    return folder / "new.f", folder / "new.e"


def test_a_kept_aligner_links_new_pairs(kept: Path, tmp_path: Path) -> None:
    source, target = write_new_text(tmp_path)
    report = link_text(source, target, kept, tmp_path / "links.gz", tmp_path / "scores")
    lines = [set(parse_links(line)) for line in read_lines(tmp_path / "links.gz")]
    truth = {(i, i ^ 1) for i in range(6)}
    n_right = sum(len(links & truth) for links in lines[:50])
    assert n_right > 0.9 * 300 and n_right > 0.9 * sum(map(len, lines[:50]))
    assert lines[50:52] == [set(), set()] and lines[53] == set()
    scores = [
        [float(score) for score in line.split(b"\t")] for line in read_lines(tmp_path / "scores")
    ]
    assert len(lines) == len(scores) == 54
    assert scores[50] == scores[51] == scores[53] == [-math.inf, -math.inf]
    # Twelve words a pair, and those of the odd ones; only "new" is unknown.
    assert report == LinkReport(54, 3, 600 + 1 + 1 + 5 + 1026, 1)
    # The unknown word is the least probable thing in the text.
    assert min(score[1] for score in scores[:50]) > scores[52][1] > -math.inf


def test_a_side_may_be_as_long_as_the_library_takes(kept: Path, tmp_path: Path) -> None:
    most = 200 if kept.name == "hmm" else 1024
    write_lines(tmp_path / "f", [b"f1 " * most, b"f1 " * (most + 1), b"f1", b"f1"])
    write_lines(tmp_path / "e", [b"\xff1", b"\xff1", b"\xff1 " * most, b"\xff1 " * (most + 1)])
    report = link_text(tmp_path / "f", tmp_path / "e", kept, tmp_path / "l", tmp_path / "s")
    scores = [float(line.split(b"\t")[0]) for line in read_lines(tmp_path / "s")]
    assert [math.isfinite(score) for score in scores] == [True, False, True, False]
    assert report.n_unlinked == 2


def test_names_may_have_bytes_outside_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"a\xff")
    folder.mkdir()
    source, target = write_reversed_text(folder, 30)
    train_aligner(source, target, folder / "kept", "fast-align")
    assert link_text(source, target, folder / "kept", folder / "links").n_pairs == 33


def test_parameters_have_no_sentence_of_the_text(kept: Path) -> None:
    for prefix in ("source-to-target", "target-to-source"):
        for suffix in (".src", ".trg", ".aligns"):
            assert (kept / f"{prefix}{suffix}").read_bytes() == b""


def test_blocks_do_not_show(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = write_new_text(tmp_path)
    for size in (10_000, 7):
        monkeypatch.setattr(module, "PAIRS_IN_BLOCK", size)
        link_text(source, target, kept, tmp_path / f"links{size}", tmp_path / f"scores{size}")
    for name in ("links", "scores"):
        assert (tmp_path / f"{name}7").read_bytes() == (tmp_path / f"{name}10000").read_bytes()


@pytest.fixture(scope="module")
def fast_align(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("aligner")
    source, target = write_reversed_text(folder, 100)
    train_aligner(source, target, folder / "kept", "fast-align")
    return folder / "kept"


def test_scores_are_sums_over_the_words_of_the_other_side(fast_align: Path, tmp_path: Path) -> None:
    """Dyer et al. (2013): the best source word of each target word, times the probability of the length."""
    write_lines(tmp_path / "f", [b"f7 f3 f9"])
    write_lines(tmp_path / "e", [b"\xff3 \xff7"])
    link_text(tmp_path / "f", tmp_path / "e", fast_align, tmp_path / "links", tmp_path / "scores")
    model = thot.alignment.FastAlignModel()
    assert model.load(str(fast_align / "source-to-target"))
    words = [list(read_lines(fast_align / name)) for name in ("source.words", "target.words")]
    sources = [
        0,
        *(model.get_src_word_index(str(words[0].index(w) + 1)) for w in (b"f7", b"f3", b"f9")),
    ]
    targets = [model.get_trg_word_index(str(words[1].index(w) + 1)) for w in (b"\xff3", b"\xff7")]
    total = model.sentence_length_log_prob(3, 2)
    for j, target in enumerate(targets, start=1):
        total += max(
            model.alignment_log_prob(j, 3, 2, i) + model.translation_log_prob(source, target)
            for i, source in enumerate(sources)
        )
    (line,) = read_lines(tmp_path / "scores")
    assert float(line.split(b"\t")[0]) == pytest.approx(total / 2, abs=1e-5)


def test_of_a_long_text_every_second_pair_is_trained_on(tmp_path: Path) -> None:
    source, target = write_reversed_text(tmp_path, 97)
    train_aligner(source, target, tmp_path / "some", "fast-align", most_pairs=60)
    for path in (source, target):
        write_lines(path, list(read_lines(path))[::2])
    train_aligner(source, target, tmp_path / "all", "fast-align")
    # The library writes hash tables in any order: the links show that the parameters are the same.
    for name in ("some", "all"):
        link_text(
            source, target, tmp_path / name, tmp_path / f"{name}.links", tmp_path / f"{name}.scores"
        )
    for kind in ("links", "scores"):
        assert (tmp_path / f"some.{kind}").read_bytes() == (tmp_path / f"all.{kind}").read_bytes()


def test_texts_in_the_wrong_order_are_refused(fast_align: Path, tmp_path: Path) -> None:
    source, target = write_new_text(tmp_path)
    with pytest.raises(InputError, match=r"new.e: found words that .* Exchange the texts"):
        link_text(target, source, fast_align, tmp_path / "links", tmp_path / "scores")
    assert not (tmp_path / "links").exists() and not (tmp_path / "scores").exists()
    # Sentences that are not translated are no exchange.
    assert link_text(target, target, fast_align, tmp_path / "links").n_pairs == 54


def test_a_shorter_text_leaves_no_links(fast_align: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "f", [b"f1", b"f2"])
    write_lines(tmp_path / "e", [b"\xff1"])
    with pytest.raises(InputError, match="e:2: found the end of the file"):
        link_text(
            tmp_path / "f", tmp_path / "e", fast_align, tmp_path / "links", tmp_path / "scores"
        )
    assert not (tmp_path / "links").exists() and not (tmp_path / "scores").exists()


def test_changed_or_missing_parameters_are_refused(fast_align: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    source, target = write_new_text(tmp_path)
    with pytest.raises(InputError, match=r"aligner.json: .*a JSON file"):
        link_text(source, target, copy, tmp_path / "links")
    for path in fast_align.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ConfigError, match=r"source.words is named twice"):
        link_text(source, target, copy, copy / "source.words")
    with (copy / "target-to-source.fa_lexnd").open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(InputError, match=r"target-to-source.fa_lexnd: found other bytes"):
        link_text(source, target, copy, tmp_path / "links")
    assert not (tmp_path / "links").exists()


def test_training_refuses_a_text_without_words_and_a_directory_with_files(tmp_path: Path) -> None:
    """A pipe has none when it is read for the second time."""
    source, target = write_reversed_text(tmp_path, 10)
    write_lines(tmp_path / "empty", [b""] * 13)
    with pytest.raises(InputError, match=r"empty: found no words, .*read twice"):
        train_aligner(source, tmp_path / "empty", tmp_path / "new", "fast-align")
    with pytest.raises(ConfigError, match="files in it"):
        train_aligner(source, target, tmp_path, "fast-align")
    assert not (tmp_path / "new").exists()
