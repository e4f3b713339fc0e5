from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections import Counter
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from moses_bridge.base.choices import Case, Origin
from moses_bridge.base.errors import ConfigError, InputError, ToolError, UserError
from moses_bridge.base.provenance import file_digest
from moses_bridge.base.textio import read_lines
from moses_bridge.corpus.corpus_config import CorpusConfig
from moses_bridge.corpus.corpus_parts import split_parts
from moses_bridge.corpus.parallel_corpus import normalized, prepare_corpus
from moses_bridge.corpus.text_pair import CorpusPair, TextPair
from tests.moses_bridge.corpus.packages import make_deb

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb here")
SMALL = CorpusConfig(origin="files", n_dev=0, n_test=0, jobs=1)


def write_files(folder: Path, sources: list[str], targets: list[str]) -> tuple[Path, Path]:
    paths = folder / "mine.en", folder / "mine.fr"
    for path, lines in zip(paths, (sources, targets), strict=True):
        path.write_bytes("".join(line + "\n" for line in lines).encode())
    return paths


def lines(path: Path) -> list[str]:
    return [line.decode() for line in read_lines(path)]


def test_own_files_are_tokenised_escaped_and_lowercased_as_moses_does(tmp_path: Path) -> None:
    files = write_files(
        tmp_path,
        ['It isn\'t [here] | \u00a0 R&D, e.g. "GNU/Linux".'],
        ["Ce n'est pas [ici] | R&D, «\u00a0GNU/Linux\u00a0»."],
    )
    report = prepare_corpus("en", "fr", tmp_path / "out", SMALL, *files)
    # tokenizer.perl -l en and -l fr, then lowercase.perl
    assert lines(tmp_path / "out/train.en") == [
        "it isn &apos;t &#91; here &#93; &#124; r &amp; d , e.g. &quot; gnu / linux &quot; ."
    ]
    assert lines(tmp_path / "out/train.fr") == [
        "ce n&apos; est pas &#91; ici &#93; &#124; r &amp; d , « gnu / linux » ."
    ]
    assert lines(tmp_path / "out/train.raw.en") == ['It isn\'t [here] | R&D, e.g. "GNU/Linux".']
    assert report.pairs == {"train": 1, "dev": 0, "test": 0}
    assert report.source_words["train"] == 18
    assert json.loads((tmp_path / "out/corpus.json").read_bytes())["target_words"]["train"] == 18


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("lower", ["the debian file", "debian has the file", "the file of debian"]),
        ("true", ["the Debian file", "Debian has the file", "the file of Debian"]),
        ("keep", ["The Debian file", "Debian has the file", "The file of Debian"]),
    ],
)
def test_words_have_the_case_of_the_settings(
    tmp_path: Path, case: Case, expected: list[str]
) -> None:
    sources = ["The Debian file", "Debian has the file", "The file of Debian"]
    files = write_files(tmp_path, sources, ["le fichier", "Debian l'a", "le fichier de Debian"])
    prepare_corpus("en", "fr", tmp_path, replace(SMALL, case=case), *files)
    assert lines(tmp_path / "train.en") == expected
    assert json.loads((tmp_path / "corpus.json").read_bytes())["case"] == case
    # The first word of a sentence says nothing of its case.
    assert lines(tmp_path / "truecase.en")[0] == "Debian (2/2)"


def test_a_language_without_blanks_has_the_tokenizer_that_is_named(tmp_path: Path) -> None:
    files = write_files(tmp_path, ["one package", "two files"], ["パッケージです", "ファイルです"])
    with pytest.raises(UserError, match=r"no tokenizer of ja.*name one in the settings"):
        prepare_corpus("en", "ja", tmp_path / "out", SMALL, *files)
    assert not (tmp_path / "out").exists()
    upper = "ja=sed 's/です/ &/'"
    for tokenizer, expected in (
        ("ja=characters", ["パッケージ で す", "ファイル で す"]),
        ("ja=none", ["パッケージです", "ファイルです"]),
        (upper, ["パッケージ です", "ファイル です"]),
    ):
        # Experiments name the tokenizers of all languages without blanks.
        config = replace(SMALL, tokenizers=(tokenizer, "zh=characters"))
        report = prepare_corpus("en", "ja", tmp_path / "out", config, *files)
        assert lines(tmp_path / "out/train.ja") == expected
        assert report.tokenizers == {"en": "moses", "ja": tokenizer.partition("=")[2]}
    for wrong, found in (
        ("ja=sed d", "printed 0 lines for 2"),
        ("characters", "LANGUAGE=TOKENIZER"),
        ("jp=none", r"tokenizers: found \['jp'\], expected en or ja"),
    ):
        config = replace(SMALL, tokenizers=("ja=none", wrong))
        with pytest.raises(UserError, match=found):
            prepare_corpus("en", "ja", tmp_path, config, *files)


def test_cleaning_drops_what_is_no_translation_and_says_why(tmp_path: Path) -> None:
    rows = [
        ("a good pair", "une bonne paire"),
        ("A good  pair!", "encore une bonne paire"),
        ("same text", "Same text."),
        ("", "rien"),
        ("*** 123", "des mots"),
        ("one", "un deux trois quatre"),
        ("one two three four five six seven", "un deux trois quatre cinq six sept"),
        ("three", "un deux trois"),
    ]
    files = write_files(tmp_path, [row[0] for row in rows], [row[1] for row in rows])
    options = CorpusConfig(origin="files", max_words=6, n_dev=0, n_test=0)
    report = prepare_corpus("en", "fr", tmp_path, options, *files)
    assert lines(tmp_path / "train.en") == ["a good pair", "three"]
    assert report.dropped == {
        "no words": 2,
        "ratio": 1,
        "repeated source": 1,
        "too long": 1,
        "untranslated": 1,
    }


def numbered_pairs(n_groups: int, group_size: int) -> list[CorpusPair]:
    return [
        CorpusPair(
            TextPair(f"package{group}", f"s{group} {i}", f"t{group} {i}"), f"s{group} {i}", "t"
        )
        for group in range(n_groups)
        for i in range(group_size)
    ]


@pytest.mark.parametrize(("n_dev", "n_test"), [(10, 20), (7, 11), (0, 5), (0, 0)])
def test_parts_have_the_wanted_sizes_and_share_no_package(n_dev: int, n_test: int) -> None:
    pairs = numbered_pairs(40, 3)
    dropped: Counter[str] = Counter()
    options = CorpusConfig(n_dev=n_dev, n_test=n_test)
    parts = split_parts(pairs, options, dropped)
    assert (len(parts["dev"]), len(parts["test"])) == (n_dev, n_test)
    assert sum(map(len, parts.values())) + dropped.total() == 120
    groups = [{pair.raw.group for pair in part} for part in parts.values()]
    assert len(set.union(*groups)) == sum(map(len, groups))
    assert parts["train"] == [pair for pair in pairs if pair.raw.group in groups[0]]


def test_too_large_parts_shrink_to_half_of_all() -> None:
    parts = split_parts(numbered_pairs(10, 2), CorpusConfig(n_dev=100, n_test=300), Counter())
    # half of 20 pairs, shared 1:3; the pair over in the fourth package of test is in no part
    assert {part: len(pairs) for part, pairs in parts.items()} == {"train": 10, "dev": 2, "test": 7}


def test_pairs_without_a_group_are_for_training_and_change_nothing_else() -> None:
    pairs = numbered_pairs(40, 3)
    more = [CorpusPair(TextPair(None, f"h{i}", "a"), "h", "a") for i in range(50)]
    options = CorpusConfig(n_dev=9, n_test=9)
    without = split_parts(pairs, options, Counter())
    with_more = split_parts(pairs + more, options, Counter())
    assert with_more["dev"] == without["dev"]
    assert with_more["test"] == without["test"]
    assert with_more["train"] == without["train"] + more


def test_smaller_training_sets_are_parts_of_larger_ones_in_order() -> None:
    pairs = numbered_pairs(40, 3)
    sizes = (10, 30)
    small, large = (
        split_parts(pairs, CorpusConfig(n_train=n, n_dev=0, n_test=0), Counter())["train"]
        for n in sizes
    )
    assert (len(small), len(large)) == sizes
    assert [pair for pair in large if pair in small] == small
    assert [pair for pair in pairs if pair in large] == large


def test_training_texts_of_several_sizes_begin_each_other(tmp_path: Path) -> None:
    files = write_files(
        tmp_path, [f"house {n} of {n * n}" for n in range(200)], [f"maison {n}" for n in range(200)]
    )
    config = replace(SMALL, n_dev=20, n_test=30, near_copy=0.0, train_sizes=(5, 25, 100))
    out = tmp_path / "out"
    report = prepare_corpus("en", "fr", out, config, *files)
    assert report.pairs["train"] == len(lines(out / "train.en")) == 150
    assert report.documents == {"train": 15, "dev": 2, "test": 3}
    for name in ("{}.en", "{}.fr", "{}.raw.en", "{}.raw.fr", "{}.groups"):
        small, middle, large = (
            lines(out / name.format(f"train-{size}")) for size in config.train_sizes
        )
        assert (len(small), len(middle), len(large)) == (5, 25, 100)
        assert large[:25] == middle and middle[:5] == small
        assert not Counter(large) - Counter(lines(out / name.format("train")))
    # ten lines of own files are a document
    assert sorted(Counter(lines(out / "train-25.groups")).values()) == [5, 10, 10]
    with pytest.raises(UserError, match="150 pairs are left for training, but train_sizes has 200"):
        prepare_corpus("en", "fr", out, replace(config, train_sizes=(5, 200)), *files)


def test_no_text_of_a_size_replaces_a_given_file(tmp_path: Path) -> None:
    files = write_files(tmp_path, ["one house"], ["une maison"])
    mine = files[0].rename(tmp_path / "train-1.en")
    with pytest.raises(ConfigError, match=r"train-1\.en"):
        prepare_corpus("en", "fr", tmp_path, replace(SMALL, train_sizes=(1,)), mine, files[1])


def edits(left: list[str], right: list[str]) -> int:
    """Levenshtein's distance as it is defined, by recursion on the last words."""

    @cache
    def of(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        change = of(i - 1, j - 1) + (left[i - 1] != right[j - 1])
        return min(change, of(i - 1, j) + 1, of(i, j - 1) + 1)

    return of(len(left), len(right))


def is_near(one: CorpusPair, other: CorpusPair, percent: int) -> bool:
    words = one.source.split(), other.source.split()
    longest = max(map(len, words))
    return 100 * (longest - edits(*words)) >= percent * longest


def similar_pairs(n_groups: int, seed: int = 1) -> list[CorpusPair]:
    """Descriptions of few words, some of them alike; each fifth pair has no package."""
    rng = random.Random(seed)
    pairs = []
    for number in range(n_groups * 3):
        source = " ".join(f"w{rng.randrange(8)}" for _ in range(rng.randint(3, 9)))
        group = None if number % 5 == 0 else f"package{number // 3}"
        pairs.append(CorpusPair(TextPair(group, f"{number} {source}", "T"), source, "t"))
    return pairs


@pytest.mark.parametrize("percent", [60, 70])
def test_dev_and_test_have_no_near_copy_in_train_nor_test_in_dev(percent: int) -> None:
    pairs, dropped = similar_pairs(100), Counter[str]()
    config = CorpusConfig(n_dev=8, n_test=12, near_copy=percent / 100, jobs=1)
    parts = split_parts(pairs, config, dropped)
    assert {part: len(found) for part, found in parts.items() if part != "train"} == {
        "dev": 8,
        "test": 12,
    }
    for part, others in (("test", parts["train"] + parts["dev"]), ("dev", parts["train"])):
        for pair in parts[part]:
            assert not any(is_near(pair, other, percent) for other in others)
    assert dropped["near copies in dev or test"] > 5
    assert sum(map(len, parts.values())) + dropped.total() == len(pairs)
    whole = split_parts(pairs, replace(config, near_copy=0.0), Counter())
    others = whole["train"] + whole["dev"]
    assert any(is_near(pair, other, percent) for pair in whole["test"] for other in others)


def test_what_is_held_out_does_not_depend_on_the_size_of_the_training_text() -> None:
    pairs = similar_pairs(200)
    config = CorpusConfig(n_dev=20, n_test=30, jobs=1)
    all_pairs, few = (split_parts(pairs, replace(config, n_train=n), Counter()) for n in (0, 50))
    assert (few["test"], few["dev"]) == (all_pairs["test"], all_pairs["dev"])
    assert len(few["train"]) == 50


def test_a_text_of_one_pattern_leaves_short_parts_and_most_of_its_training_text() -> None:
    """A quarter may be left out; each fifth sentence of the others is one of a kind."""
    pairs = [
        CorpusPair(
            TextPair(f"p{i}", f"s{i}", "T"),
            f"a{i} b{i} c{i} d{i}" if i % 5 == 0 else f"this is file number {i} of all files",
            "t",
        )
        for i in range(200)
    ]
    dropped: Counter[str] = Counter()
    parts = split_parts(pairs, CorpusConfig(n_dev=20, n_test=80, jobs=1), dropped)
    assert 50 <= dropped["near copies in dev or test"] <= 52
    assert 0 < len(parts["test"]) < 30
    assert parts["dev"]
    assert len(parts["train"]) > 100


def test_a_part_of_near_copies_alone_is_an_error() -> None:
    pairs = [
        CorpusPair(TextPair(f"p{i}", f"s{i}", "T"), f"this is file number {i} of all files", "t")
        for i in range(40)
    ]
    with pytest.raises(UserError, match=r"is left for test: each one .*near_copy = 0\.7"):
        split_parts(pairs, CorpusConfig(n_dev=4, n_test=4, jobs=1), Counter())
    kept = split_parts(pairs, CorpusConfig(n_dev=4, n_test=4, near_copy=0, jobs=1), Counter())
    assert len(kept["test"]) == 4


def test_packages_of_one_source_stay_together_and_the_report_has_the_near_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two packages a source, whose second sentence is the first one with one word of four changed."""
    monkeypatch.setenv("PATH", "/nonexistent")
    download = tmp_path / "download"
    download.mkdir()
    names = [f"lib{n}{end}" for n in range(30) for end in ("", "-dev")]
    for language in ("en", "fr"):
        stanzas = [
            f"Package: {name}\nDescription-md5: {name}\nDescription-{language}: "
            f"{language}{name[3:-4] if name.endswith('-dev') else name[3:]}a "
            f"{language}{number // 2}b {language}{number // 2}c {name}{language}\n"
            for number, name in enumerate(names)
        ]
        text = "\n".join(stanzas).encode()
        (download / f"Translation-{language}.gz").write_bytes(gzip.compress(text))
    sources = "".join(f"{name}\tsource{number // 2}\n" for number, name in enumerate(names))
    (download / "source-packages.gz").write_bytes(gzip.compress(sources.encode()))
    config = CorpusConfig(n_dev=8, n_test=10, jobs=1)
    report = prepare_corpus("en", "fr", tmp_path, config)
    groups = lines(tmp_path / "test.groups")
    assert len(groups) == 10
    assert sorted(Counter(groups).values()) == [2] * 5
    assert all(f"lib{group[6:]}" in line.replace("- ", "") for group, line in zip(
        groups, lines(tmp_path / "test.raw.en"), strict=True
    ))  # fmt: skip
    assert report.pairs == {"train": 42, "dev": 8, "test": 10}
    of_parts = [set(lines(tmp_path / f"{part}.groups")) for part in ("train", "dev", "test")]
    assert [len(found) for found in of_parts] == [21, 4, 5] and len(set().union(*of_parts)) == 30
    assert report.near_copies == {"0.5": 0.0, "0.7": 0.0, "0.8": 0.0}
    (download / "source-packages.gz").write_bytes(gzip.compress(b"lib0 source0\n"))
    with pytest.raises(
        InputError, match=r"source-packages\.gz:1: found 'lib0 source0', expected a pa"
    ):
        prepare_corpus("en", "fr", tmp_path, config)


def test_another_seed_chooses_other_packages() -> None:
    first, second = (
        split_parts(numbered_pairs(40, 3), CorpusConfig(n_dev=9, n_test=9, seed=seed), Counter())
        for seed in (1, 2)
    )
    assert first["test"] != second["test"]


def test_normalisation_looks_at_words_alone() -> None:
    assert normalized('The "Quick"  brown-fox_.') == normalized("the quick BROWN fox")
    assert normalized("C++") == "c"


def test_same_input_gives_same_bytes_whatever_the_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_files(
        tmp_path,
        [f"File {i} isn't {i * i}." for i in range(3000)],
        [f"Le fichier {i} n'est pas {i * i}." for i in range(3000)],
    )
    monkeypatch.setattr("moses_bridge.corpus.parallel_corpus.FEWEST_LINES_FOR_PROCESSES", 2000)
    outputs = []
    for jobs in (1, 2):
        options = CorpusConfig(origin="files", n_dev=100, n_test=100, n_train=1500, jobs=jobs)
        out = tmp_path / f"out{jobs}"
        prepare_corpus("en", "fr", out, options, *files)
        outputs.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 18


def test_an_interruption_leaves_no_finished_looking_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_files(tmp_path, ["one house"], ["une maison"])
    out = tmp_path / "out"
    prepare_corpus("en", "fr", out, SMALL, *files)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("moses_bridge.corpus.parallel_corpus.write_lines", interrupt)
    with pytest.raises(KeyboardInterrupt):
        prepare_corpus("en", "fr", out, SMALL, *files)
    assert not (out / "train.en").exists()


def test_a_missing_line_and_a_wrong_encoding_are_named(tmp_path: Path) -> None:
    short = write_files(tmp_path, ["a b", "c d"], ["e f"])
    with pytest.raises(InputError, match=r"mine\.fr:2: found the end of the file"):
        prepare_corpus("en", "fr", tmp_path / "out", SMALL, *short)
    short[1].write_bytes(b"bien\n\xe9t\xe9\n")
    with pytest.raises(InputError, match=r"mine\.fr:2: .*expected UTF-8"):
        prepare_corpus("en", "fr", tmp_path / "out", SMALL, *short)


@pytest.mark.parametrize(
    ("source", "target", "origin", "files", "message"),
    [
        ("english", "fr", "files", 2, "'english' is no language code"),
        ("en", "pt-BR", "files", 2, "write it as en, fr or pt_BR"),
        ("en", "en", "files", 2, "are both 'en'"),
        ("en", "fr", "files", 1, "needs a source file and a target file"),
        ("en", "fr", "debian", 2, "the origin is 'debian'"),
    ],
)
def test_languages_and_files_must_fit(
    tmp_path: Path, source: str, target: str, origin: str, files: int, message: str
) -> None:
    paths = write_files(tmp_path, ["a house"], ["une maison"])[:files]
    options = CorpusConfig(origin=origin)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=message):
        prepare_corpus(source, target, tmp_path / "out", options, *paths)


@pytest.mark.parametrize(
    "change",
    [{"n_dev": -1}, {"max_words": 0}, {"max_ratio": 0.5}, {"near_copy": 1.1}],
)
def test_sizes_must_make_sense(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        CorpusConfig(**change)  # type: ignore[arg-type]


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    files = write_files(tmp_path, ["same"], ["same"])
    with pytest.raises(UserError, match=r"no sentence pair .*untranslated"):
        prepare_corpus("en", "fr", tmp_path / "out", SMALL, *files)


def test_indexes_that_are_there_are_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    stanza = "Package: {}\nDescription-md5: {}\nDescription-{}: {}\n {}\n\n"
    rows = [
        ("zoo", "m2", "animals in a house", "animaux dans une maison"),
        ("abc", "m1", "letters of the alphabet", "lettres de l'alphabet"),
    ]
    download = tmp_path / "download"
    download.mkdir()
    for language, column in (("en", 2), ("fr", 3)):
        text = "".join(
            stanza.format(row[0], row[1], language, row[column], f"{language} {row[0]} long text.")
            for row in rows
        )
        (download / f"Translation-{language}.gz").write_bytes(gzip.compress(text.encode()))
    (download / "source-packages.gz").write_bytes(gzip.compress(b"abc\tabc\nzoo\tanimals\n"))
    report = prepare_corpus("en", "fr", tmp_path, CorpusConfig(n_dev=0, n_test=0, jobs=1))
    assert lines(tmp_path / "train.raw.en") == [
        "letters of the alphabet",
        "en abc long text.",
        "animals in a house",
        "en zoo long text.",
    ]
    assert report.pairs["train"] == 4
    assert report.documents["train"] == 2
    path = download / "source-packages.gz"
    assert report.fetched["source-packages.gz"] == sha256(path.read_bytes()).hexdigest()
    assert sorted(report.fetched) == [
        "Translation-en.gz",
        "Translation-fr.gz",
        "source-packages.gz",
    ]


def write_fetched(folder: Path, files: dict[str, dict[str, bytes]]) -> None:
    """Packages that need not be fetched any more."""
    folder.mkdir(parents=True)
    for package, contents in files.items():
        make_deb(folder, package, contents).rename(folder / f"{package}_1_all.deb")


def pages(language: str, texts: list[str]) -> dict[str, bytes]:
    """Pages of help with two paragraphs each."""
    paragraphs = [f'<p id="par_id{n}">{text}</p>' for n, text in enumerate(texts)]
    return {
        f"usr/share/libreoffice/help/{language}/p{n:02}.html": "".join(
            paragraphs[n : n + 2]
        ).encode()
        for n in range(0, len(texts), 2)
    }


@needs_dpkg
def test_the_help_makes_a_corpus_with_the_digests_of_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From fetched packages, without apt and network; the same bytes each time."""
    texts = {
        "en-us": [f"The file {n} of {n * n} is {n * 7}." for n in range(40)],
        "fr": [f"Le fichier {n} de {n * n} est {n * 7}." for n in range(40)],
    }
    write_fetched(
        tmp_path / "out/download",
        {f"libreoffice-help-{code}": pages(code, lines) for code, lines in texts.items()},
    )
    monkeypatch.setenv("PATH", os.path.dirname(shutil.which("dpkg-deb") or ""))
    config = CorpusConfig(
        origin="libreoffice", n_dev=4, n_test=6, train_sizes=(3, 9), near_copy=0.0, jobs=1
    )
    report = prepare_corpus("en", "fr", tmp_path / "out", config)
    assert report.pairs == {"train": 30, "dev": 4, "test": 6}
    assert report.documents == {"train": 15, "dev": 2, "test": 3}
    names = ["libreoffice-help-en-us_1_all.deb", "libreoffice-help-fr_1_all.deb"]
    assert report.fetched == {name: file_digest(tmp_path / "out/download" / name) for name in names}
    first = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("t*")}
    assert prepare_corpus("en", "fr", tmp_path / "out", config) == report
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "out").glob("t*")}


@pytest.mark.parametrize("origin", ["debian", "libreoffice", "debian+libreoffice"])
def test_without_network_apt_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: Origin
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    scripts = {"apt-config": "", "apt-get": "echo 'E: Could not resolve example.org'; exit 100\n"}
    for name, script in scripts.items():
        (programs / name).write_text("#!/bin/sh\n" + script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    with pytest.raises(ToolError, match="Could not resolve example"):
        prepare_corpus("en", "fr", tmp_path / "out", CorpusConfig(origin=origin))


@needs_dpkg
def test_the_help_beside_descriptions_is_for_training_alone(tmp_path: Path) -> None:
    download = tmp_path / "download"
    texts = {"en-us": ["A page of help."], "fr": ["Une page d'aide."]}
    write_fetched(
        download, {f"libreoffice-help-{code}": pages(code, text) for code, text in texts.items()}
    )
    stanza = "Package: abc\nDescription-md5: m1\nDescription-{}: {}\n\n"
    for language, title in (("en", "letters"), ("fr", "lettres de l'alphabet")):
        text = stanza.format(language, title)
        (download / f"Translation-{language}.gz").write_bytes(gzip.compress(text.encode()))
    (download / "source-packages.gz").write_bytes(gzip.compress(b"abc\tabc\n"))
    config = CorpusConfig(origin="debian+libreoffice", n_dev=0, n_test=0, max_ratio=9.0, jobs=1)
    report = prepare_corpus("en", "fr", tmp_path, config)
    assert lines(tmp_path / "train.raw.en") == ["letters", "A page of help."]
    assert lines(tmp_path / "train.groups") == ["abc", ""]
    assert len(report.fetched) == 5
