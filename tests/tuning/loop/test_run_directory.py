"""What a run says of itself, and which files make its directory belong to a model."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.provenance import file_digest
from moses_bridge.formats.moses_ini import read_ini
from tuning.loop import fingerprints
from tuning.loop.fingerprints import (
    check_unchanged,
    fingerprint_commands,
    fingerprint_ini,
    refuse_commands,
)
from tuning.loop.list_features import NBestFeature
from tuning.loop.run_directory import (
    Iteration,
    TuningRun,
    Weights,
    best_iteration,
    caution_of,
    claim,
    load_run,
    optimised_digest,
    read_optimised,
    save_run,
)


def write_ini(folder: Path, path: str) -> Path:
    ini = folder / "moses.ini"
    ini.write_text(f"[feature]\nPhraseDictionaryMemory name=T0 num-features=1 path={path}\n")
    return ini


def sha(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize(
    ("named", "files"),
    [
        ("table.gz", {"table.gz": b"1"}),
        ("table", {"table.minphr": b"2"}),
        ("probing", {"probing/binfile.dat": b"3", "probing/vocab": b"4"}),
    ],
)
def test_file_prefix_and_directory_are_hashed(
    tmp_path: Path, named: str, files: dict[str, bytes]
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    ini = write_ini(tmp_path, str(tmp_path / named))
    expected = {f"T0/{Path(name).name}": sha(content) for name, content in files.items()}
    assert fingerprint_ini(read_ini(ini)) == {"ini": sha(ini.read_bytes())} | expected


def test_two_features_with_files_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    lines = ["[feature]"]
    for name in ("A", "B"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "table.gz").write_bytes(name.encode())
        lines.append(f"PhraseDictionaryMemory name={name}0 path={tmp_path / name / 'table.gz'}")
    (tmp_path / "moses.ini").write_text("\n".join(lines) + "\n")
    hashes = fingerprint_ini(read_ini(tmp_path / "moses.ini"))
    assert hashes["A0/table.gz"] == sha(b"A")
    assert hashes["B0/table.gz"] == sha(b"B")


def test_a_missing_table_is_an_error(tmp_path: Path) -> None:
    ini = write_ini(tmp_path, str(tmp_path / "none.gz"))
    with pytest.raises(InputError, match=r"none\.gz, expected a file, a directory or their prefix"):
        fingerprint_ini(read_ini(ini))


A, B, C = ({"LM0": [weight]} for weight in (0.25, 0.5, 0.75))


def run_of(
    weights: Weights, decoded: list[Weights], pool_bleu: tuple[float | None, ...] = ()
) -> TuningRun:
    """A run that decoded with some weights; the columns that are constant are numbered by iteration."""
    run = TuningRun("ini", weights, 20.0, 1, 100, {})
    for number, each in enumerate(decoded):
        optimised = pool_bleu[number] if pool_bleu else None
        constant = [f"C{number}"]
        run.iterations.append(Iteration(each, 20.0, 1.0, 30.0, optimised, constant=constant))
    return run


@pytest.mark.parametrize(
    ("weights", "decoded", "kept", "left_start"),
    [(A, [A, B, A], 1, False), (B, [A, B, B], 2, True), (C, [A, B], 0, True), (C, [], 0, False)],
)
def test_which_iteration_was_kept(
    weights: Weights, decoded: list[Weights], kept: int, left_start: bool
) -> None:
    run = run_of(weights, decoded)
    assert (run.kept, run.left_start) == (kept, left_start)


def test_constant_columns_are_those_of_the_last_pool_that_was_optimised() -> None:
    assert run_of(A, [A, B, C, A], (21.0, 22.0, 0.0, None)).constant == ["C2"]
    assert run_of(A, [A], (None,)).constant == []


def test_of_equally_good_iterations_the_first_is_the_best() -> None:
    values = (21.0, 22.0, 22.0, 20.0)
    assert best_iteration([Iteration(A, value, 1.0, 30.0) for value in values]) == 1


@pytest.mark.parametrize(
    ("kept", "others", "sign", "caution"),
    [
        (20.0, {"one": 21.0, "two": 20.5}, 1, ""),
        (20.0, {"one": 21.25, "two": 21.5}, 1, "two had 21.50, 1.50 better; so what"),
        (20.0, {"one": 18.5, "two": 90.0}, -1, "one had 18.50, 1.50 better; so what"),
        (20.0, {"one": 19.0, "two": 90.0}, -1, ""),
        (0.0, {"one": 0.0}, 1, "it is 0: are the references of this text, and tokenised like it?"),
        (0.0, {"one": 90.0}, -1, ""),
    ],
)
def test_weights_worse_by_more_than_a_point_are_cautioned_against(
    kept: float, others: dict[str, float], sign: int, caution: str
) -> None:
    assert caution_of(kept, others, sign, "; so what") == caution


def test_runs_with_other_tables_have_other_networks() -> None:
    run = run_of(A, [A])
    run.hashes = {"ini": "1", "source": "2", "T0/table.gz": "3", "LM0/lm": "4"}
    assert run.network == (("LM0/lm", "4"), ("T0/table.gz", "3"))


def test_the_commands_of_a_run_are_those_of_lists_and_of_the_search() -> None:
    run = run_of(A, [A])
    run.nbest_features = [NBestFeature("RNN0", "score m")]
    run.decoder["neural_lm"] = ["A0=serve a=b", "B0=serve b"]
    assert run.commands() == {"RNN0": "score m", "A0": "serve a=b", "B0": "serve b"}
    run.decoder.clear()
    assert run.commands() == {"RNN0": "score m"}


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = run_of(B, [A, B], (21.0, None))
    run.nbest_features = [NBestFeature("RNN0", "score m")]
    run.decoder["neural_lm"] = ()
    save_run(run, tmp_path)
    assert load_run(tmp_path) == run
    (tmp_path / "weights.json").write_text('{"LM0": [0.5]}')
    with pytest.raises(InputError, match=r"weights\.json: found unknown key 'LM0'.* expected the"):
        load_run(tmp_path)


def test_a_directory_belongs_to_one_run(tmp_path: Path) -> None:
    claim(tmp_path, {"seed": 1, "texts": ("a", "b")}, resume=False)
    claim(tmp_path, {"seed": 1, "texts": ("a", "b")}, resume=True)
    with pytest.raises(ConfigError, match="there is a run already; continue it with --resume"):
        claim(tmp_path, {"seed": 1, "texts": ("a", "b")}, resume=False)
    with pytest.raises(
        ConfigError, match=r"--resume continues .* --overwrite replaces it: give one"
    ):
        claim(tmp_path, {"seed": 1, "texts": ("a", "b")}, resume=True, overwrite=True)
    with pytest.raises(ConfigError, match="a run with other more, seed; remove it"):
        claim(tmp_path, {"seed": 2, "texts": ("a", "b"), "more": 1}, resume=True)
    with pytest.raises(ConfigError, match="a run with other texts; remove it"):
        claim(tmp_path, {"seed": 1}, resume=True)


def test_files_that_commands_name_are_hashed(tmp_path: Path) -> None:
    (tmp_path / "model" / "deep").mkdir(parents=True)
    for name, text in (("a", b"1"), ("model/b", b"2"), ("model/deep/c", b"3"), ("d", b"4")):
        (tmp_path / name).write_bytes(text)
    commands = {
        "X0": f"{tmp_path}/a {tmp_path}/model -v --text={tmp_path}/d",
        "Y0": f"{tmp_path}/a ''",
    }
    assert fingerprint_commands(commands) == {
        f"X0/{tmp_path}/a": sha(b"1"),
        f"X0/{tmp_path}/model/b": sha(b"2"),
        f"X0/{tmp_path}/model/deep/c": sha(b"3"),
        f"X0/{tmp_path}/d": sha(b"4"),
        f"Y0/{tmp_path}/a": sha(b"1"),
    }


def test_a_directory_of_thousands_of_files_is_not_read(tmp_path: Path) -> None:
    """A word of a command that is "..", say: the files below it would be read for minutes."""
    large = tmp_path / "large"
    large.mkdir()
    for number in range(1000):
        (large / str(number)).touch()
    assert len(fingerprint_commands({"X0": f"score {large}"})) == 1000
    (large / "one more").mkdir()
    for make in (
        lambda: fingerprint_commands({"X0": f"score --model={large}"}),
        lambda: fingerprint_ini(read_ini(write_ini(tmp_path, str(large)))),
    ):
        with pytest.raises(ConfigError, match=r"large: found more than 1,000 files .* smaller"):
            make()


def test_of_many_changed_files_some_are_named(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    for number in range(30):
        (tmp_path / "model" / f"{number:02}").touch()
    run = run_of(A, [A])
    run.ini = str(write_ini(tmp_path, str(tmp_path / "model")))
    run.hashes = fingerprint_ini(read_ini(run.ini)) | {"ini": "0"}
    for path in (tmp_path / "model").iterdir():
        path.write_bytes(b"other")
    with pytest.raises(ConfigError) as raised:
        check_unchanged({tmp_path: run})
    named = ", ".join(f"T0/{number:02}" for number in range(10))
    assert f"{tmp_path}: {named} and 21 others changed since the tuning" in str(raised.value)


def test_what_nothing_reads_of_a_model_may_change(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "model_card.md", "events.out.tfevents.12.training"):
        (model / name).write_bytes(b"1")
    ini = tmp_path / "moses.ini"
    ini.write_text("[feature]\nDistortion\n[weight]\nDistortion0= 1\n")
    run = run_of({"Distortion0": [0.5]}, [])
    run.ini, run.nbest_features = str(ini), [NBestFeature("X0", f"score {model}")]
    run.hashes = {"ini": sha(ini.read_bytes())} | fingerprint_commands(run.commands())
    (model / "model_card.md").write_bytes(b"2")
    (model / "events.out.tfevents.12.training").rename(model / "events.out.tfevents.34.training")
    check_unchanged({tmp_path: run})
    (model / "config.json").write_bytes(b"2")
    with pytest.raises(ConfigError, match=r": X0/.*config\.json changed since the tuning"):
        check_unchanged({tmp_path: run})


def test_a_model_of_several_runs_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    model.write_bytes(b"1")
    ini = tmp_path / "moses.ini"
    ini.write_text("[feature]\nDistortion\n[weight]\nDistortion0= 1\n")
    runs = {tmp_path / str(number): run_of({"Distortion0": [0.5]}, []) for number in range(3)}
    for run in runs.values():
        run.ini, run.nbest_features = str(ini), [NBestFeature("X0", f"score {model}")]
        run.hashes = {"ini": sha(ini.read_bytes()), f"X0/{model}": sha(b"1")}
    runs[tmp_path / "2"].hashes = {}  # as of a version that kept none
    read: list[Path] = []
    monkeypatch.setattr(
        fingerprints, "file_digest", lambda path: read.append(path) or file_digest(path)
    )
    check_unchanged(runs)
    assert read == [ini, model]


def test_commands_of_runs_are_refused(tmp_path: Path) -> None:
    plain, other = run_of(A, [A]), run_of(A, [A])
    other.nbest_features = [NBestFeature("RNN0", "score m")]
    refuse_commands({tmp_path / "plain": plain})
    with pytest.raises(ConfigError, match=r"other: the feature RNN0 .* from the command 'score m'"):
        refuse_commands({tmp_path / "plain": plain, tmp_path / "other": other})


def test_a_file_that_cannot_be_read_has_no_hash(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a readable file"):
        file_digest(tmp_path)


ITERATION = {"weights": A, "bleu": 20.0, "length_ratio": 1.0, "oracle_bleu": 30.0}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"decoder": [1]}, r"found \[1\] in 'decoder', expected a table"),
        ({"decoder": None}, "found None in 'decoder', expected a table"),
        ({"decoder": {"neural_lm": [["a"]]}}, "found .'a'. in 'neural_lm', expected str"),
        ({"decoder": {"neural_lm": ["A0='a"]}}, "expected NAME=COMMAND: No closing quotation"),
        ({"decoder": {"stack_size": "x"}}, "found 'x' in 'stack_size', expected int"),
        ({"hashes": ["a"]}, "in 'hashes', expected a table"),
        ({"weights": 5}, "found 5 in 'weights', expected a table"),
        ({"weights": {"LM0": 5}}, "found 5 in 'weights: LM0', expected a list"),
        ({"weights": {"LM0": [float("nan")]}}, r"nan in 'weights\.LM0\[0\]', expected a finite"),
        ({"dev_bleu": float("inf")}, "found inf in 'dev_bleu', expected a finite number"),
        ({"iterations": [{**ITERATION, "bleu": float("nan")}]}, r"nan in 'iterations\[0\]\.bleu'"),
        ({"weights": {"LM0": [10**400]}}, "in 'weights: LM0', expected a number of at most 64"),
        ({"dev_bleu": "x"}, "found 'x' in 'dev_bleu', expected float"),
        ({"nbest_size": "x"}, "found 'x' in 'nbest_size', expected int"),
        ({"nbest_size": 0}, "nbest_size is 0; the smallest value is 1"),
        ({"ini": 5}, "found 5 in 'ini', expected str"),
        ({"ini": "a\0b"}, r"found 'a\\x00b' in 'ini', expected the name of a file"),
        ({"fixed_search": [1]}, r"found \[1\] in 'fixed_search', expected a table"),
        ({"iterations": [{"bleu": 1}]}, "the key 'weights' is missing"),
        ({"iterations": [{**ITERATION, "frozen": "LM0_0"}]}, "found 'LM0_0' in 'iterations: fro"),
        ({"nbest_features": [{"name": "A0"}]}, "the key 'command' is missing"),
    ],
)
def test_a_value_of_a_wrong_type_is_named(
    tmp_path: Path, changes: dict[str, object], fault: str
) -> None:
    save_run(run_of(A, [A]), tmp_path)
    path = tmp_path / "weights.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(InputError, match=rf"weights\.json: found .*{fault.removeprefix('found ')}"):
        load_run(tmp_path)


def test_a_run_that_nests_without_end_or_is_a_pipe_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested more than 100 deep"):
        load_run(tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="found a directory, a pipe or a device"):
        load_run(tmp_path)


def test_the_record_of_what_a_run_is_made_of_must_be_a_table(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[1]")
    with pytest.raises(InputError, match=r"run\.json: found \[1\], expected the inputs of a run"):
        claim(tmp_path, {"seed": 1}, resume=True)


def test_a_feature_of_the_ini_without_a_weight_is_refused(tmp_path: Path) -> None:
    ini = tmp_path / "moses.ini"
    ini.write_text(
        "[feature]\nDistortion\nWordPenalty\n[weight]\nDistortion0= 1\nWordPenalty0= 1\n"
    )
    run = run_of({"Distortion0": [0.5]}, [])
    run.ini, run.hashes = str(ini), {"ini": sha(ini.read_bytes())}
    with pytest.raises(InputError, match=r"weights\.json: found no weight of WordPenalty0, expect"):
        check_unchanged({tmp_path: run})
    run.weights["WordPenalty0"] = [0.5]
    check_unchanged({tmp_path: run})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[1]", r"found \[1\], expected what the optimiser found"),
        ('{"bleu": 1.0}', "the key 'weights' is missing"),
        ('{"bleu": "x", "weights": {"LM0": [1]}}', "found 'x' in 'bleu', expected float"),
        ('{"bleu": 1, "weights": {"LM0": [1, 2]}}', "found weights of other features"),
        ('{"bleu": 1, "weights": {"LM0": [Infinity]}}', r"found inf in 'weights\.LM0\[0\]'"),
        ('{"bleu": NaN, "weights": {"LM0": [1]}}', "found nan in 'bleu', expected a finite"),
    ],
)
def test_what_an_optimiser_found_is_checked(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "iter01.optimised.json"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"optimised\.json: .*{fault}"):
        read_optimised(path, A)


def test_what_an_optimiser_found_from_other_weights_or_with_other_numbers_is_refused(
    tmp_path: Path,
) -> None:
    path, start = tmp_path / "iter01.optimised.json", {"LM0": [0.25]}
    record = {"bleu": 30.5, "weights": A, "restarts": [30.5, 29.0], "frozen": []}
    record["digest"] = optimised_digest(record, start)
    path.write_text(json.dumps(record))
    assert read_optimised(path, start).weights == A
    with pytest.raises(InputError, match="found other numbers than were written"):
        read_optimised(path, {"LM0": [0.5]})
    path.write_text(json.dumps(record | {"bleu": 30.6}))
    with pytest.raises(InputError, match="Remove the file to repeat the optimisation"):
        read_optimised(path, start)
