"""Parallel text from the archive of Debian or Ubuntu, by origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from moses_bridge.base.choices import Origin
from moses_bridge.base.provenance import digests_by_name, file_digest
from moses_bridge.corpus.debian_archive import SOURCE_PACKAGES, DebianArchive
from moses_bridge.corpus.libreoffice_help import help_package, help_pairs
from moses_bridge.corpus.package_descriptions import description_pairs
from moses_bridge.corpus.text_pair import TextPair


@dataclass(frozen=True)
class ArchiveText:
    """Sentence pairs, not yet cleaned, and what they were read from.

    Attributes:
        pairs: read while they are asked for.
        files: the fetched files.
    """

    pairs: Iterator[TextPair]
    files: list[Path]

    def digests(self) -> dict[str, str]:
        """SHA-256 of the fetched files, by name."""
        return digests_by_name((path, file_digest(path)) for path in self.files)


def archive_text(
    origin: Origin, source: str, target: str, archive: DebianArchive, dropped: Counter[str]
) -> ArchiveText:
    """The text of an origin other than the user's own files, fetched where it is not there.

    Args:
        origin: which text; for "debian+libreoffice" the help has no groups.
        source: source language code.
        target: target language code.
        archive: where it is fetched from.
        dropped: counts the texts left out, by reason.

    Raises:
        ToolError: apt failed.
        UserError: no apt here, no network, or no such index.
    """
    if origin == "debian":
        return _descriptions(source, target, archive, dropped)
    if origin == "libreoffice":
        return _help(source, target, archive)
    descriptions = _descriptions(source, target, archive, dropped)
    help_text = _help(source, target, archive)
    for_training = (replace(pair, group=None) for pair in help_text.pairs)
    return ArchiveText(
        chain(descriptions.pairs, for_training), descriptions.files + help_text.files
    )


def _descriptions(
    source: str, target: str, archive: DebianArchive, dropped: Counter[str]
) -> ArchiveText:
    indexes = archive.descriptions(source), archive.descriptions(target)
    sources = archive.source_packages()
    pairs = description_pairs(*indexes, source, target, dropped, sources)
    return ArchiveText(pairs, [*indexes, archive.folder / SOURCE_PACKAGES])


def _help(source: str, target: str, archive: DebianArchive) -> ArchiveText:
    debs = archive.packages([help_package(language) for language in (source, target)])
    return ArchiveText(help_pairs(debs[0], debs[1], source, target), debs)
