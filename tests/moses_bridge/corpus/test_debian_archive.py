from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from moses_bridge.base.errors import ToolError, UserError
from moses_bridge.corpus.debian_archive import DebianArchive

# A stand-in for apt: `update` writes what the case wants, `indextargets` lists it.
FAKE_APT = """#!/bin/sh
lists="{folder}/apt/state/lists"
case "$*" in
*update*) {update} ;;
*indextargets*) for f in $lists/*Translation-fr; do echo "Translations|fr|$f"; done
    for f in $lists/*Packages; do echo "Packages||$f"; done ;;
*download*) {download} ;;
esac
"""


def fake_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: str = ":", download: str = ":"
) -> DebianArchive:
    folder, programs = tmp_path / "download", tmp_path / "bin"
    programs.mkdir()
    script = FAKE_APT.format(folder=folder, update=update, download=download)
    for name, text in (("apt-get", script), ("apt-config", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return DebianArchive(folder, ["fr", "xx"])


def test_without_apt_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"no apt-config on this machine.*files of your own"):
        DebianArchive(tmp_path / "download", ["en", "fr"]).descriptions("en")


def test_a_language_without_index_is_told_with_those_that_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = r"printf ' 0f 12 main/i18n/Translation-ja.xz\n 0f 9 main/i18n/Translation-de.bz2\n'"
    archive = fake_apt(tmp_path, monkeypatch, f"{release} > $lists/x_InRelease")
    with pytest.raises(UserError, match=r"no package descriptions in 'fr'; it has de, ja$"):
        archive.descriptions("fr")


def test_a_failed_network_is_told_in_apts_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = "echo 'W: Failed to fetch http://example.org/InRelease'"
    with pytest.raises(UserError, match=r"apt fetched no indexes: W: Failed to fetch http://exam"):
        fake_apt(tmp_path, monkeypatch, update).descriptions("fr")


def test_a_failing_apt_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update = "echo 'E: The list of sources could not be read.' >&2; exit 100"
    with pytest.raises(ToolError, match=r"status 100: E: The list of sources could not be read"):
        fake_apt(tmp_path, monkeypatch, update).descriptions("fr")


def test_a_package_is_fetched_once_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = fake_apt(tmp_path, monkeypatch, download="echo deb > help-fr_1_all.deb")
    assert [path.name for path in archive.packages(["help-fr"])] == ["help-fr_1_all.deb"]
    monkeypatch.setenv("PATH", "/nonexistent")
    assert archive.packages(["help-fr"])[0].read_bytes() == b"deb\n"


def test_a_broken_download_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    download = "echo half > help-fr_1_all.deb; echo 'E: no such file' >&2; exit 100"
    archive = fake_apt(tmp_path, monkeypatch, download=download)
    with pytest.raises(ToolError, match="E: no such file"):
        archive.packages(["help-fr"])
    assert [path.name for path in archive.folder.iterdir()] == ["apt"]


def test_a_failed_update_is_told_even_if_there_is_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corpus from half of the indexes, or from old ones, would be kept as if it were whole."""
    update = "echo index > $lists/main_i18n_Translation-fr; echo 'E: no Release file'; exit 100"
    archive = fake_apt(tmp_path, monkeypatch, update)
    with pytest.raises(ToolError, match="status 100: E: no Release file"):
        archive.descriptions("fr")
    assert not (archive.folder / "Translation-fr.gz").exists()


def test_apt_keeps_its_sandbox_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = fake_apt(tmp_path, monkeypatch, download="stat -c %U . > help-fr_1_all.deb")
    owner = archive.packages(["help-fr"])[0].read_text().strip()
    assert "Sandbox" not in (archive.folder / "apt/apt.conf").read_text()
    users = {user.pw_name for user in pwd.getpwall()}
    if os.geteuid() == 0 and "_apt" in users:
        assert owner == "_apt"
    else:
        assert owner == pwd.getpwuid(os.geteuid()).pw_name


PACKAGES = """\
Package: libfoo1
Source: foo (1.2-3)
Version: 1.2-3+b1
Description: a library
 Source: this line is text

Package: foo
Version: 1.2-3

Package: python3-bar
Source: bar

Package: libfoo1
Source: foo-old
"""


def test_the_sources_of_packages_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Debian's policy, 5.6.1: no field Source means the same name; a version may follow in brackets."""
    (tmp_path / "index").write_text(PACKAGES)
    update = f"cp {tmp_path}/index $lists/main_Packages"
    archive = fake_apt(tmp_path, monkeypatch, update)
    expected = {"foo": "foo", "libfoo1": "foo", "python3-bar": "bar"}
    assert archive.source_packages() == expected
    monkeypatch.setenv("PATH", "/nonexistent")
    assert archive.source_packages() == expected


def test_no_index_of_packages_is_told_in_apts_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = "echo 'W: Failed to fetch http://example.org/InRelease'"
    with pytest.raises(UserError, match=r"apt fetched no indexes: W: Failed to fetch http://exam"):
        fake_apt(tmp_path, monkeypatch, update).source_packages()
