"""Folds of a parallel text by document, and lists joined again; expected files are written by hand."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.cli import main
from moses_bridge.corpus.folds import FoldedText, cut_folds, join_folds


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines))
    return path


def text_of(folder: Path, groups: list[str] | None, n_lines: int = 8) -> FoldedText:
    """Sentence i is "s<i>" with the translation "t<i>" and the link "i-i"."""
    write(folder / "text.en", *(f"s{i}" for i in range(n_lines)))
    write(folder / "text.fr", *(f"t{i}" for i in range(n_lines)))
    links = write(folder / "links", *(f"{i}-{i}" for i in range(n_lines)))
    documents = None if groups is None else write(folder / "groups", *groups)
    return FoldedText(folder / "text", "en", "fr", documents, links)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_without_documents_folds_are_contiguous(tmp_path: Path) -> None:
    assert cut_folds(text_of(tmp_path, None, 5), tmp_path / "out", 2) == [3, 2]
    out = tmp_path / "out"
    assert lines(out / "folds") == ["1", "1", "1", "2", "2"]
    assert lines(out / "1" / "fold.en") == ["s0", "s1", "s2"]
    assert lines(out / "1" / "rest.fr") == ["t3", "t4"]
    assert lines(out / "2" / "fold.fr") == ["t3", "t4"]
    assert lines(out / "2" / "rest.links") == ["0-0", "1-1", "2-2"]
    assert not (out / "1" / "fold.links").exists()


@pytest.mark.parametrize("seed", range(4))
def test_a_document_is_in_one_fold_and_folds_are_balanced(tmp_path: Path, seed: int) -> None:
    groups = ["a", "a", "b", "c", "b", "a", "d", "d", "e", "f", "c"]
    sizes = cut_folds(text_of(tmp_path, groups, 11), tmp_path / "out", 3, seed)
    folds = lines(tmp_path / "out" / "folds")
    of_document = defaultdict(set)
    for group, fold in zip(groups, folds, strict=True):
        of_document[group].add(fold)
    assert all(len(found) == 1 for found in of_document.values())
    assert [folds.count(str(number)) for number in (1, 2, 3)] == sizes
    # Each document goes to the smallest fold so far, and the largest document has 3 sentences.
    assert max(sizes) - min(sizes) <= 3
    for number in "123":
        folder = tmp_path / "out" / number
        inside = [f"s{i}" for i, fold in enumerate(folds) if fold == number]
        assert lines(folder / "fold.en") == inside
        assert lines(folder / "rest.en") == [f"s{i}" for i in range(11) if f"s{i}" not in inside]


@pytest.mark.parametrize("seed", range(8))
def test_folds_are_balanced_by_sentences_not_by_documents(tmp_path: Path, seed: int) -> None:
    groups = [f"long{i // 20}" for i in range(100)] + [f"short{i}" for i in range(35)]
    sizes = cut_folds(text_of(tmp_path, groups, 135), tmp_path / "out", 2, seed)
    assert sum(sizes) == 135 and max(sizes) - min(sizes) <= 20


def test_sentences_without_a_document_are_cut_by_place(tmp_path: Path) -> None:
    groups = ["", "a", "", "", "b", ""]
    cut_folds(text_of(tmp_path, groups, 6), tmp_path / "out", 2)
    folds = lines(tmp_path / "out" / "folds")
    assert [folds[place] for place in (0, 2, 3, 5)] == ["1", "1", "2", "2"]
    assert {folds[1], folds[4]} == {"1", "2"}


def test_lists_of_folds_are_joined_under_the_numbers_of_the_text(tmp_path: Path) -> None:
    folds = write(tmp_path / "folds", "2", "1", "2", "1")
    first = write(
        tmp_path / "1", "0 ||| x  ||| LM0= -1 ||| -2 ||| 0=0", "1 ||| y ||| LM0= -1 ||| -3"
    )
    second = write(tmp_path / "2", "1 ||| z ||| LM0= -5 ||| -4")
    arguments = ["join-folds", str(folds), str(first), str(second), "--out", str(tmp_path / "out")]
    told = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert told.exit_code == 0 and "3 translations" in told.output
    assert lines(tmp_path / "out") == [
        "1 ||| x  ||| LM0= -1 ||| -2 ||| 0=0",
        "3 ||| y ||| LM0= -1 ||| -3",
        "2 ||| z ||| LM0= -5 ||| -4",
    ]


def test_the_command_cuts_what_it_is_given(tmp_path: Path) -> None:
    text = text_of(tmp_path, ["a", "b", "c", "d"], 4)
    arguments = ["--corpus", str(text.prefix), "--source-language", "en", "--target-language", "fr"]
    options = ["--groups", str(text.groups), "--folds", "4", "--out", str(tmp_path / "out")]
    told = CliRunner().invoke(main, ["folds", *arguments, *options], catch_exceptions=False)
    assert told.exit_code == 0 and told.output == "sentences of each fold: 1, 1, 1, 1\n"
    assert sorted(lines(tmp_path / "out" / "folds")) == ["1", "2", "3", "4"]
    assert not (tmp_path / "out" / "1" / "rest.links").exists()


def test_too_few_documents_and_folds_are_refused(tmp_path: Path) -> None:
    text = text_of(tmp_path, ["a", "b", "a", "b"], 4)
    with pytest.raises(InputError, match="at least one for each of 3 folds"):
        cut_folds(text, tmp_path / "out", 3)
    for number in (1, 101):
        with pytest.raises(ConfigError, match=f"found {number} folds, expected 2 to 100"):
            cut_folds(text, tmp_path / "out", number)
    assert not (tmp_path / "out").exists()


def test_groups_of_another_text_are_refused(tmp_path: Path) -> None:
    text = text_of(tmp_path, ["a", "b", "a"], 4)
    with pytest.raises(InputError, match="the end of the file"):
        cut_folds(text, tmp_path / "out", 2)


def test_an_input_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    for language in ("en", "fr"):
        write(tmp_path / "1" / f"rest.{language}", "a", "b")
    with pytest.raises(ConfigError, match="named twice"):
        cut_folds(FoldedText(tmp_path / "1" / "rest", "en", "fr"), tmp_path, 2)


@pytest.mark.parametrize(
    ("folds", "entry", "message"),
    [
        (["1", "x"], "0 ||| a ||| LM0= 1 ||| 1", "f:2: .* the number of a fold, 1 to 100"),
        (["1", "0"], "0 ||| a ||| LM0= 1 ||| 1", "f:2: .*the number of a fold"),
        (["101"], "0 ||| a ||| LM0= 1 ||| 1", "f:1: .*the number of a fold"),
        (["100"], "0 ||| a ||| LM0= 1 ||| 1", "f: found 100 folds, expected 1, one for each"),
        (["1", "1"], "2 ||| a ||| LM0= 1 ||| 1", "l:1: found the sentence id 2, .*an id below 2"),
        (["1", "2"], "0 ||| a ||| LM0= 1 ||| 1", "1, one for each list"),
        (["1", "1"], "0 ||| a", "at least 4"),
    ],
)
def test_lists_that_do_not_fit(tmp_path: Path, folds: list[str], entry: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        join_folds(write(tmp_path / "f", *folds), [write(tmp_path / "l", entry)], tmp_path / "out")
    assert not (tmp_path / "out").exists()
