"""The folder of compiled code: whose it is, what its name says, and that nothing damaged stays in it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import moses_bridge
from moses_bridge.base.compiled import code_folder as module
from moses_bridge.base.compiled.code_folder import PREFIX, SUMS, VARIABLE, add_to_list, verify

PACKAGES = Path(moses_bridge.__file__).resolve().parents[1]


def code_folder() -> Path:
    """That of a new process."""
    folder: Path = module.code_folder.__wrapped__()
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, which is not there yet."""
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_only_the_user_reads_and_writes_it(cache: Path) -> None:
    folder = code_folder()
    assert folder.parent == cache / "rescorer"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    assert code_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_it_is_below_the_folder_that_the_user_names(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = code_folder().name
    monkeypatch.setenv(VARIABLE, str(tmp_path / "own"))
    assert code_folder() == tmp_path / "own" / name
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "own")
    assert code_folder() == tmp_path / "own" / name


def test_a_disk_without_room_has_a_temporary_one_or_none(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """numba would end the work that needs the code."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rooms, disks = {"cache": 1 << 20, "tmp": 1 << 30}, os.statvfs

    def statvfs(folder: Path) -> SimpleNamespace:
        n_bytes = rooms["cache" if cache in Path(folder).parents else "tmp"]
        return SimpleNamespace(f_bavail=n_bytes >> 10, f_frsize=1 << 10)

    monkeypatch.setattr(os, "statvfs", statvfs)
    folder = code_folder()
    assert tmp_path in folder.parents and cache not in folder.parents
    assert os.environ[VARIABLE] == str(folder.parent)
    monkeypatch.setenv(VARIABLE, "")
    rooms["tmp"] = 0
    assert code_folder() is None
    rooms["cache"] = 1 << 30
    assert cache in code_folder().parents
    monkeypatch.setattr(os, "statvfs", disks)


@pytest.mark.parametrize("variable", ["NUMBA_BOUNDSCHECK", "NUMBA_OPT"])
def test_other_settings_of_numba_have_another_one(
    variable: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    without = code_folder()
    monkeypatch.setenv(variable, "1")
    assert code_folder() != without
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    monkeypatch.delenv(variable)
    assert code_folder() == without


@pytest.mark.parametrize(
    ("place", "value"),
    [("numba.__version__", "0.1"), ("numpy.__version__", "1.0"), ("llvmlite.__version__", "0.1")],
)
def test_other_versions_have_another_one(
    place: str, value: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = code_folder()
    monkeypatch.setattr(place, value)
    assert code_folder() != before


def test_another_processor_has_another_one(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = code_folder()
    monkeypatch.setattr(module.binding, "get_host_cpu_name", lambda: "i386")
    assert code_folder() != before

    def unknown() -> None:
        raise RuntimeError

    monkeypatch.setattr(module.binding, "get_host_cpu_features", unknown)
    assert code_folder() != before


def test_that_of_another_user_is_not_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = code_folder()
    uid, others = os.getuid(), iter([os.getuid() + 1])
    monkeypatch.setattr(os, "getuid", lambda: next(others, uid))
    temporary = code_folder()
    assert temporary.parent != folder.parent
    assert temporary.parent == Path(os.environ[VARIABLE])
    assert code_folder() == temporary  # of processes that this one starts


@pytest.mark.parametrize("home", ["/proc/nobody", "", "cache"])
def test_without_a_place_there_is_a_temporary_one(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a home that cannot be written nor the working directory is one."""
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setenv("HOME", "/proc/nobody")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    environment = {**os.environ}
    environment.pop(VARIABLE, None)
    program = "from moses_bridge.base.compiled.code_folder import code_folder; print(code_folder())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    assert Path(done.stdout).parent.parent == tmp_path
    assert not list(tmp_path.iterdir())


def test_one_unused_for_a_month_is_removed(cache: Path) -> None:
    old, used = (cache / "rescorer" / f"{PREFIX}{name}" for name in "ab")
    for folder in (old, used):
        (folder / "decoder").mkdir(parents=True)
    os.utime(old, (0, 0))
    folder = code_folder()
    assert set(folder.parent.iterdir()) == {folder, used}
    os.utime(folder, (0, 0))
    code_folder()
    assert folder.stat().st_mtime > 0


def test_each_byte_of_a_file_is_verified(tmp_path: Path) -> None:
    for name in ("function.nbi", "function.1.nbc"):
        (tmp_path / name).write_bytes(b"kept: " + name.encode())
    add_to_list(tmp_path)
    contents = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(contents) == 3
    for path, content in contents.items():
        for place in range(len(content)):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            verify.__wrapped__(tmp_path)
            assert path.exists() == (path.name == SUMS)
            assert len([*tmp_path.iterdir()]) < len(contents)
            for each in contents:
                each.write_bytes(contents[each])
    verify.__wrapped__(tmp_path)
    assert len([*tmp_path.iterdir()]) == len(contents)


@pytest.mark.parametrize("listed", [b"", b"nonsense", b"\xff\n\n"])
def test_what_is_not_listed_is_removed(listed: bytes, tmp_path: Path) -> None:
    path = tmp_path / "function.nbi"
    path.write_bytes(b"kept")
    (tmp_path / SUMS).write_bytes(listed)
    verify.__wrapped__(tmp_path)
    assert not path.exists()


@pytest.mark.parametrize("name", ["function.nbi", SUMS])
@pytest.mark.parametrize("is_link", [False, True])
def test_what_is_no_file_is_removed(name: str, is_link: bool, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "other.nbi").write_bytes(b"kept")
    if is_link:
        (folder / name).symlink_to("nowhere")
    else:
        (folder / name).mkdir()
    verify.__wrapped__(folder)
    assert not [*folder.glob("*.nbi")] and not (folder / SUMS).is_dir()


def test_what_another_process_keeps_anew_is_listed_anew(tmp_path: Path) -> None:
    path, other = tmp_path / "function.nbi", tmp_path / "other"
    for content in (b"of this process", b"of another one"):
        other.write_bytes(content)
        other.replace(path)
        add_to_list(tmp_path)
        verify.__wrapped__(tmp_path)
        assert path.read_bytes() == content
    n_lines = (tmp_path / SUMS).read_text().count("\n")
    add_to_list(tmp_path)
    assert (tmp_path / SUMS).read_text().count("\n") == n_lines == 2


def test_a_list_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    (tmp_path / SUMS).mkdir()
    (tmp_path / "function.nbi").write_bytes(b"kept")
    add_to_list(tmp_path)


@pytest.mark.slow
def test_a_read_only_package_and_no_home(small_golden: Path, tmp_path: Path) -> None:
    """numba itself ends with a traceback there. A mount namespace makes a directory read-only for root too."""
    package = tmp_path / "packages"
    for name in ("moses_bridge", "rescorer", "tuning"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGES / name, package / name, ignore=ignored)
    mount = f"mount --bind {package} {package} && mount -o remount,ro,bind {package} && "
    if subprocess.run(["unshare", "-m", "sh", "-c", f"{mount} true"], check=False).returncode:
        pytest.skip("directories cannot be mounted here")
    command = f"{sys.executable} -m moses_bridge check phrase-table.gz"
    environment = os.environ | {"PYTHONPATH": str(package), "HOME": str(package)}
    environment.pop(VARIABLE, None)
    told = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} {command}"],
        cwd=small_golden / "decode",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
