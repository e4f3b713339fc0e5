"""The files inside a Debian package."""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from moses_bridge.base.errors import ToolError
from moses_bridge.corpus.debian_archive import find_apt


def files_of_deb(deb: Path, wanted: re.Pattern[str]) -> Iterator[tuple[re.Match[str], bytes]]:
    """Yield the regular files of a package whose paths fit a pattern, in the package's order; no links.

    Args:
        deb: the package.
        wanted: fits a path from its beginning; paths have no "./" and no "/" in front.

    Yields:
        The match and the file's bytes.

    Raises:
        ToolError: dpkg-deb cannot read the package.
        UserError: there is no dpkg-deb.
    """
    command = [find_apt("dpkg-deb"), "--fsys-tarfile", str(deb)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for member in archive:
                    match = wanted.match(member.name.removeprefix("./"))
                    content = archive.extractfile(member) if match and member.isfile() else None
                    if match and content:
                        yield match, content.read()
            process.stdout.read()
        except tarfile.TarError as error:
            reason = process.stderr.read().decode(errors="replace") or str(error)
            raise ToolError(command, process.wait(), reason) from error
