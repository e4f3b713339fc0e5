"""Each fault that `tuning run improve` finds before its first minute of work."""

from __future__ import annotations

import dataclasses
import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from moses_bridge.base.errors import UserError
from moses_bridge.formats.moses_ini_edits import new_ini, write_ini
from tuning.experiments.improve_checks import check_inputs, check_room
from tuning.experiments.settings import ImproveSettings

ROW = "%s ||| %s ||| 0.5 0.5 0.5 0.5 ||| 0-0 ||| 1 1 1\n"
Edit = Callable[[Path], object]


def made_system(folder: Path) -> ImproveSettings:
    """A table of three words, a language model that nobody reads, and texts of four, two and two sentences."""
    model = folder / "model"
    model.mkdir()
    files = [model / name for name in ("phrase-table.gz", "reordering.gz", "lm.arpa.gz")]
    with gzip.open(files[0], "wt") as rows:
        rows.writelines(ROW % pair for pair in (("a", "x"), ("b", "y"), ("c", "z")))
    for file in files[1:]:
        file.touch()
    write_ini(new_ini(*files, 5), model / "moses.ini")
    texts = {
        "train.en": "a b &apos;\nb a c\nc c\na\n",
        "train.fr": "x y &apos;\ny x z\nz z\nx\n",
        "dev.en": "a a b e\ne f\n",
        "dev.fr": "x x y u\nu v\n",
        "test.en": "f b\na\n",
        "test.fr": "z y\nx\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return ImproveSettings(
        ini=model / "moses.ini",
        train=folder / "train",
        dev=folder / "dev",
        test=folder / "test",
        languages=("en", "fr"),
        out=folder / "better",
        jobs=1,
    )


@pytest.fixture
def settings(tmp_path: Path) -> ImproveSettings:
    return made_system(tmp_path)


def replaced(name: str, old: str, new: str) -> Edit:
    def edit(folder: Path) -> None:
        file = folder / name
        text = file.read_bytes().decode()
        assert old in text
        file.write_bytes(text.replace(old, new).encode())

    return edit


def rewritten_table(text: str) -> Edit:
    return lambda folder: (folder / "model/phrase-table.gz").write_bytes(
        gzip.compress(text.encode())
    )


def test_a_model_that_moses_could_not_name_is_refused(settings: ImproveSettings) -> None:
    model = settings.ini.parent.rename(settings.ini.parent.with_name("my model"))
    ini = model / settings.ini.name
    ini.write_text(ini.read_text().replace(f"{settings.ini.parent}/", ""))
    with pytest.raises(UserError, match="expected one without blanks and '#', which Moses cuts"):
        check_inputs(dataclasses.replace(settings, ini=ini))


@pytest.mark.parametrize("name", ["a b", "a#b", "a\nb", "caf\udce9", "e\u0301", "a'b"])
def test_a_folder_that_make_could_not_name_is_refused(settings: ImproveSettings, name: str) -> None:
    """Also where it is above the working directory."""
    for out in (settings.out.with_name(name), settings.out.with_name(name) / "better"):
        with pytest.raises(UserError, match="expected letters, digits and"):
            check_inputs(dataclasses.replace(settings, out=out))


def test_a_good_system_is_counted_and_described(settings: ImproveSettings) -> None:
    facts = check_inputs(settings)
    assert (facts.n_rows, facts.n_words, facts.n_dev, facts.n_test) == (3, 9, 2, 2)
    assert facts.has_usual_features and facts.n_documents == 2
    settings.dev.with_name("dev.groups").write_text("one\none\n")
    assert check_inputs(settings).n_documents == 1
    assert facts.lines[0].startswith(f"{settings.ini}: about 3 rows; ")
    assert "TranslationModel0 (4)" in facts.lines[0]
    (dev,) = (line for line in facts.lines if line.startswith(str(settings.dev)))
    assert dev.endswith("2 sentence pairs; 50.0% of the source words are unknown: 'e' 2, 'f' 1")
    assert any(line.startswith("50.0% of the test sentences are similar") for line in facts.lines)


def test_faults_that_stop_nothing_are_noted(settings: ImproveSettings) -> None:
    path = settings.dev.with_name("dev.en")
    path.write_bytes(path.read_bytes().replace(b"\n", "\N{NO-BREAK SPACE}\r\n".encode(), 1))
    lines = check_inputs(settings).lines
    assert (
        sum("a blank that separates no words; in the text U+00A0 1 times" in line for line in lines)
        == 1
    )


def test_a_training_text_with_both_forms_allows_both(
    settings: ImproveSettings, tmp_path: Path
) -> None:
    replaced("train.en", "c c", "c '")(tmp_path)
    replaced("train.fr", "z z", "Z z")(tmp_path)
    replaced("dev.en", "e f", "E '")(tmp_path)
    replaced("test.en", "f b", "f &apos;")(tmp_path)
    assert check_inputs(settings).n_dev == 2


def test_without_a_training_text_words_are_known_to_the_table(settings: ImproveSettings) -> None:
    facts = check_inputs(dataclasses.replace(settings, train=None))
    assert facts.n_words == 0
    assert any(line.endswith("are unknown: 'e' 2, 'f' 1") for line in facts.lines)
    assert not any("similar to a training sentence" in line for line in facts.lines)


FAULTS: dict[str, tuple[Edit, str]] = {
    "missing text": (lambda folder: (folder / "dev.fr").unlink(), "dev.fr: found no such file"),
    "unequal length": (
        lambda folder: (folder / "test.fr").write_text("z y\n"),
        "test.fr:2: found the end, expected a line",
    ),
    "one sentence": (
        lambda folder: [(folder / f"test.{side}").write_text("a\n") for side in ("en", "fr")],
        "test.en: found 1 sentences, expected two or more",
    ),
    "bars": (replaced("train.fr", "z z", "z ||| z"), "train.fr:3: found '|||'"),
    "plain quotes": (
        replaced("test.en", "a\n", "a '\n"),
        "test.en:2: found quotes or brackets plain, expected the other form",
    ),
    "capitals": (
        replaced("dev.fr", "u v", "U v"),
        "dev.en:2: found capitals, expected the other form",
    ),
    "missing table": (
        lambda folder: (folder / "model/phrase-table.gz").unlink(),
        "phrase-table.gz', expected that of TranslationModel0",
    ),
    "too few scores": (
        rewritten_table(ROW % ("a", "x") + "b ||| y ||| 0.5 0.5\n"),
        "phrase-table.gz:2: found 2 scores",
    ),
    "binary table": (
        replaced("model/moses.ini", "PhraseDictionaryMemory", "PhraseDictionaryCompact"),
        "moses.ini: found no PhraseDictionaryMemory, expected a phrase table as text",
    ),
    "weights": (
        replaced("model/moses.ini", "0.2 0.2 0.2 0.2", "0.2 0.2"),
        "moses.ini: found 2 weights of TranslationModel0, expected 4",
    ),
    "dev in train": (
        lambda folder: [
            shutil.copy(folder / f"train.{s}", folder / f"dev.{s}") for s in ("en", "fr")
        ],
        "dev.en: found 100% near copies of training sentences",
    ),
    "something else in out": (
        lambda folder: [(folder / "better").mkdir(), (folder / "better/mine").touch()],
        "better: found something else",
    ),
    "links": (
        lambda folder: (folder / "model/aligned.grow-diag-final-and").write_text("0-0\n"),
        "grow-diag-final-and: found 1 lines, expected 4",
    ),
    "documents": (
        lambda folder: (folder / "dev.groups").write_text("one\ntwo\ntwo\n"),
        "dev.groups: found 3 lines, expected 2, as the dev text",
    ),
}


@pytest.mark.parametrize(("edit", "message"), FAULTS.values(), ids=list(FAULTS))
def test_each_fault_is_one_line(
    settings: ImproveSettings, tmp_path: Path, edit: Edit, message: str
) -> None:
    edit(tmp_path)
    with pytest.raises(UserError) as error:
        check_inputs(settings)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_all_faults_of_files_are_told_at_once(settings: ImproveSettings, tmp_path: Path) -> None:
    for name in ("dev.en", "test.fr", "model/lm.arpa.gz"):
        (tmp_path / name).unlink()
    with pytest.raises(UserError) as error:
        check_inputs(settings)
    assert len(str(error.value).splitlines()) == 3


def test_a_language_without_rules_is_told(settings: ImproveSettings, tmp_path: Path) -> None:
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.fr").rename(tmp_path / f"{part}.tlh")
    facts = check_inputs(dataclasses.replace(settings, languages=("en", "tlh")))
    assert facts.lines[-1].startswith("tlh: Moses's tokenizer has no rules for it")


def test_a_system_of_other_features_cannot_translate_folds(
    settings: ImproveSettings, tmp_path: Path
) -> None:
    replaced("model/moses.ini", "PhrasePenalty0= 0.2\n", "")(tmp_path)
    replaced("model/moses.ini", "PhrasePenalty\n", "")(tmp_path)
    assert not check_inputs(settings).has_usual_features


def test_a_disk_without_room_is_refused(tmp_path: Path) -> None:
    check_room(tmp_path / "not" / "there", 1)
    with pytest.raises(UserError, match=r"GB of free disk, expected 1000000000\.0 GB"):
        check_room(tmp_path, 10**18)
