"""Which files make a run directory belong to a model."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from moses_bridge.errors import InputError
from tuning.run_directory import fingerprint_ini


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
