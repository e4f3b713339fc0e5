from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.compute import Compute
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.scorers.cslm import Cslm, CslmConfig
from rescorer.scorers.rnnsearch import RnnSearch, RnnSearchConfig
from rescorer.views.alignment import (
    AlignmentError,
    AttentionPictures,
    SentencePair,
    align,
    attention_links,
    attention_reader_of_model,
    read_pairs,
)

PNG = b"\x89PNG\r\n\x1a\n"
SOURCE, TARGET = Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"y"])
TEXTS = {"source": b"a b c\nb zebra\n", "target": b"x y y\n<i> \xff\n", "links": b"0-0 2-2\n1-1\n"}


def save_rnnsearch(folder: Path, context: str) -> Path:
    torch.manual_seed(1)
    network = RnnSearch(RnnSearchConfig(context, 5, 4, 3, 2), len(SOURCE), len(TARGET), 0.0)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    save_model(
        folder / context, "rnnsearch", network, network.config, Shortlists(SOURCE, TARGET), {}
    )
    return folder / context


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in TEXTS.items():
        (tmp_path / name).write_bytes(text)
    return tmp_path


def test_links_matrices_pictures_and_error(folder: Path) -> None:
    reader = attention_reader_of_model(save_rnnsearch(folder, "attention"), Compute(device="cpu"))
    pairs = read_pairs(*(folder / name for name in TEXTS))
    pictures = AttentionPictures(folder / "pictures", [2])
    error = align(reader, pairs, str(folder / "out"), str(folder / "m.gz"), pictures)
    align(reader, pairs, str(folder / "out"), str(folder / "matrix"))
    lines = [json.loads(line) for line in (folder / "matrix").read_bytes().splitlines()]
    assert [line["source"] for line in lines] == [["a", "b", "c"], ["b", "zebra"]]
    assert lines[1]["target"] == ["<i>", "\N{REPLACEMENT CHARACTER}"]
    expected, n_both, n_found = [], 0, 0
    for line, given in zip(lines, ({(0, 0), (2, 2)}, {(1, 1)}), strict=True):
        weights = np.array(line["weights"])
        assert weights.shape == (len(line["target"]) + 1, len(line["source"]) + 1)
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
        best = [int(np.argmax(row)) for row in weights[:-1]]
        links = [(j, i) for i, j in enumerate(best) if j < len(line["source"])]
        expected.append(b" ".join(b"%d-%d" % link for link in links))
        n_both, n_found = n_both + len(given.intersection(links)), n_found + len(links)
    assert (folder / "out").read_bytes().splitlines() == expected
    assert error is not None and error.rate == pytest.approx(1 - 2 * n_both / (n_found + 3))
    assert sorted(path.name for path in (folder / "pictures").iterdir()) == [
        "line-2.png",
        "line-2.svg",
    ]
    assert (folder / "pictures" / "line-2.png").read_bytes().startswith(PNG)
    root = ElementTree.parse(folder / "pictures" / "line-2.svg").getroot()
    texts = [tag.text for tag in root.iter() if tag.tag.endswith("text")]
    assert {"zebra", "<i>", "</s>", "line 2"} <= set(texts)


def test_without_given_links_there_is_no_error_rate(folder: Path) -> None:
    reader = attention_reader_of_model(save_rnnsearch(folder, "attention"), Compute(device="cpu"))
    pairs = [SentencePair([b"a"], [b"x"])]
    assert align(reader, pairs, str(folder / "out"), min_weight=1.0) is None
    assert (folder / "out").read_bytes() == b"\n"
    assert align(reader, [], str(folder / "none")) is None
    assert (folder / "none").read_bytes() == b""


def test_a_picture_of_no_line_is_refused_before_anything_is_written(folder: Path) -> None:
    reader = attention_reader_of_model(save_rnnsearch(folder, "attention"), Compute(device="cpu"))
    with pytest.raises(ConfigError, match="line 3: the text has the lines 1 to 2"):
        align(
            reader,
            read_pairs(folder / "source", folder / "target"),
            str(folder / "out"),
            pictures=AttentionPictures(folder, [1, 3]),
        )
    assert not (folder / "out").exists()


@pytest.mark.parametrize("name", ["last-state", "cslm"])
def test_a_network_without_attention_is_refused(name: str, folder: Path) -> None:
    if name == "cslm":
        cslm = Cslm(CslmConfig(2, 4, 4, 4), len(TARGET))
        save_model(folder / name, "cslm", cslm, cslm.config, Shortlists(None, TARGET), {})
    else:
        save_rnnsearch(folder, name)
    with pytest.raises(InputError, match="without an attention, expected one with it"):
        attention_reader_of_model(folder / name, Compute(device="cpu"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("target", b"x y y\n", "target:2: found the end of the file, expected a line"),
        ("links", b"0-0\n\n1-1\n", "source:3: found the end of the file"),
        ("source", b"a b c\n \t\n", "source:2: found no words"),
        ("target", b"\ny\n", "target:1: found no words"),
        ("links", b"0-0\n2-0\n", "links:2: found the link 2-0, expected words of a pair of 2"),
        ("links", b"0-3\n0-0\n", "links:1: found the link 0-3"),
        ("links", b"0-0\n0:1\n", "links:2: found the link '0:1'"),
    ],
)
def test_texts_that_do_not_fit_are_refused(
    name: str, text: bytes, message: str, folder: Path
) -> None:
    (folder / name).write_bytes(text)
    with pytest.raises(InputError) as error:
        read_pairs(*(folder / part for part in TEXTS))
    assert message in str(error.value)


# Three target words and </s>; two source words and </s>.
WEIGHTS = np.array(
    [[0.2, 0.7, 0.1], [0.3, 0.3, 0.4], [0.4, 0.35, 0.25], [0.9, 0.05, 0.05]], np.float32
)


def test_each_target_word_with_its_most_attended_source_word() -> None:
    """The second one looks most at </s>, and the last row is that of </s>."""
    assert attention_links(WEIGHTS) == [(1, 0), (0, 2)]


def test_a_link_needs_the_smallest_weight() -> None:
    assert attention_links(WEIGHTS, 0.5) == [(1, 0)]
    assert attention_links(WEIGHTS, 0.71) == []


def test_of_equal_weights_the_first_counts() -> None:
    assert attention_links(np.full((2, 2), 0.5, np.float32)) == [(0, 0)]


def test_by_hand() -> None:
    """|A| = 4, |S| = 3, two in both: AER = 1 - 2 * 2 / 7."""
    error = AlignmentError.of([(0, 0), (1, 1), (2, 1), (3, 3)], [(0, 0), (1, 1), (2, 2)])
    assert error.rate == pytest.approx(3 / 7)
    assert (error.precision, error.recall) == (pytest.approx(1 / 2), pytest.approx(2 / 3))
    assert str(error) == ("AER 42.9%, precision 50.0%, recall 66.7% (4 links, 3 given, 2 in both)")


def test_counts_of_pairs_add_up() -> None:
    """The rate of all links, not the mean of the pairs' rates."""
    total = AlignmentError.of([(0, 0)], [(0, 0)]) + AlignmentError.of([(0, 1)], [(1, 0), (1, 1)])
    assert total == AlignmentError(2, 3, 1)
    assert total.rate == pytest.approx(3 / 5)


def test_a_link_counts_once() -> None:
    assert AlignmentError.of([(0, 0)] * 3, [(0, 0)] * 2) == AlignmentError(1, 1, 1)


def test_without_links_nothing_is_wrong() -> None:
    assert (AlignmentError().rate, AlignmentError().precision) == (0, 1)
    missed = AlignmentError.of([], [(0, 0)])
    assert (missed.rate, missed.precision, missed.recall) == (1, 1, 0)
