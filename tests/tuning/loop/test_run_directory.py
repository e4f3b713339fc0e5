"""What a run says of itself, and which files make its directory belong to a model."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from moses_bridge.errors import ConfigError, InputError
from tuning.loop.nbest_choice import NBestFeature
from tuning.loop.run_directory import (
    Iteration,
    TuningRun,
    Weights,
    best_iteration,
    claim,
    file_hash,
    fingerprint_commands,
    fingerprint_ini,
    load_run,
    refuse_commands,
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
    assert fingerprint_ini(ini) == {"ini": sha(ini.read_bytes())} | expected


def test_two_features_with_files_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    lines = ["[feature]"]
    for name in ("A", "B"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "table.gz").write_bytes(name.encode())
        lines.append(f"PhraseDictionaryMemory name={name}0 path={tmp_path / name / 'table.gz'}")
    (tmp_path / "moses.ini").write_text("\n".join(lines) + "\n")
    hashes = fingerprint_ini(tmp_path / "moses.ini")
    assert hashes["A0/table.gz"] == sha(b"A")
    assert hashes["B0/table.gz"] == sha(b"B")


def test_a_missing_table_is_an_error(tmp_path: Path) -> None:
    ini = write_ini(tmp_path, str(tmp_path / "none.gz"))
    with pytest.raises(InputError, match=r"none\.gz, expected a file, a directory or their prefix"):
        fingerprint_ini(ini)


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
    [
        (A, [A, B, A], 1, False),
        (B, [A, B, B], 2, True),
        (C, [A, B], 0, True),
        (C, [], 0, False),
    ],
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
    with pytest.raises(InputError, match=r"weights\.json: found 'nbest_features', expected the"):
        load_run(tmp_path)


def test_a_directory_belongs_to_one_run(tmp_path: Path) -> None:
    claim(tmp_path, {"seed": 1, "texts": ("a", "b")}, resume=False)
    claim(tmp_path, {"seed": 1, "texts": ("a", "b")}, resume=True)
    with pytest.raises(ConfigError, match="there is a run already; continue it with --resume"):
        claim(tmp_path, {"seed": 1, "texts": ("a", "b")}, resume=False)
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


def test_commands_of_runs_are_refused(tmp_path: Path) -> None:
    plain, other = run_of(A, [A]), run_of(A, [A])
    other.nbest_features = [NBestFeature("RNN0", "score m")]
    refuse_commands({tmp_path / "plain": plain})
    with pytest.raises(ConfigError, match=r"other: the feature RNN0 .* from the command 'score m'"):
        refuse_commands({tmp_path / "plain": plain, tmp_path / "other": other})


def test_a_file_that_cannot_be_read_has_no_hash(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a readable file"):
        file_hash(tmp_path)
