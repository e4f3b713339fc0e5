"""Parallel text from the archive of Debian or Ubuntu, by origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from moses_bridge.base.choices import Origin
from moses_bridge.base.errors import UserError
from moses_bridge.base.provenance import digests_by_name, file_digest
from moses_bridge.corpus.debian_archive import SOURCE_PACKAGES, DebianArchive
from moses_bridge.corpus.libreoffice_help import help_package, help_pairs
from moses_bridge.corpus.manual_pages import manual_packages, page_pairs
from moses_bridge.corpus.package_descriptions import description_pairs
from moses_bridge.corpus.program_texts import program_packages, program_pairs
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
        origin: which text; for "debian+libreoffice" and "libreoffice for debian" the help has no groups.
        source: source language code.
        target: target language code.
        archive: where it is fetched from.
        dropped: counts the texts left out, by reason.

    Raises:
        ToolError: apt failed.
        UserError: no apt here, no network, no such index, or none of the packages with such text.
    """
    if origin == "manpages":
        offered = archive.source_packages()
        debs = _fetched(archive, manual_packages((source, target), offered), "manual pages")
        return ArchiveText(page_pairs(debs, source, target, dropped), debs)
    if origin == "programs":
        debs = _fetched(archive, program_packages(archive.source_packages()), "programs")
        return ArchiveText(program_pairs(debs, source, target, dropped), debs)
    if origin == "debian":
        return _descriptions(source, target, archive, dropped)
    if origin == "libreoffice":
        return _help(source, target, archive)
    descriptions = _descriptions(source, target, archive, dropped)
    help_text = _help(source, target, archive)
    return ArchiveText(
        _one_after_another(descriptions.pairs, help_text.pairs),
        descriptions.files + help_text.files,
    )


def _fetched(archive: DebianArchive, names: list[str], text: str) -> list[Path]:
    if not names:
        raise UserError(f"the archive of this machine has none of Debian's packages with {text}")
    return archive.packages(names)


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


def _one_after_another(
    descriptions: Iterator[TextPair], help_text: Iterator[TextPair]
) -> Iterator[TextPair]:
    """The help behind the descriptions, for training alone."""
    yield from descriptions
    yield from (replace(pair, group=None) for pair in help_text)
