"""Parallel text from manual pages: the same page in two languages, paragraph by paragraph.

A translated page is made from the original's source, macro for macro (by po4a, for most), so the paragraphs of
a section are translations of each other where both sections have the same sequence of macros.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.corpus.deb_files import files_of_deb
from moses_bridge.corpus.groff_page import Section, read_page
from moses_bridge.corpus.package_descriptions import sentence_pairs
from moses_bridge.corpus.text_pair import TextPair

# Packages with many pages that are translated, be it in the package or by the project manpages-l10n.
PACKAGES = """
manpages manpages-dev adduser apt apt-utils at bash bsdutils bzip2 cron cups-bsd
cups-client cups-daemon debconf-doc debhelper debianutils devscripts diffutils dosfstools
dos2unix dpkg dpkg-dev coreutils e2fsprogs fakeroot fdisk findutils grep gzip iputils-ping
live-build mount nfs-common nfs-kernel-server passwd po-debconf po4a procps psmisc
reiserfsprogs schroot sysvinit-core tar util-linux uuid-dev x11-xserver-utils xz-utils
"""
PAGE = re.compile(r"usr/share/man/(?:([^/]+)/)?(man\d\w*/[^/]+?)(\.gz)?$")
ORIGINAL = "en"  # pages below no language's folder

Pages = dict[str, str]


def manual_packages(languages: Sequence[str], offered: Collection[str]) -> list[str]:
    """Names of the packages with manual pages, of those that an archive offers.

    Args:
        languages: language codes; translations are in manpages-fr and manpages-fr-dev, for example.
        offered: the names of the archive's packages.
    """
    codes = [code.replace("_", "-").lower() for code in languages if code != ORIGINAL]
    translated = [f"manpages-{code}{end}" for code in codes for end in ("", "-dev")]
    return [name for name in (*PACKAGES.split(), *translated) if name in offered]


def page_pairs(
    debs: Sequence[Path], source: str, target: str, dropped: Counter[str]
) -> Iterator[TextPair]:
    """Yield the sentences of the pages found in both languages, in order of page; a page is a group.

    Args:
        debs: the packages; of a page in several of them the first one counts.
        source: source language code.
        target: target language code.
        dropped: counts the paragraphs not aligned and those with markup that has no plain form.

    Raises:
        InputError: a page cannot be decompressed.
        ToolError: dpkg-deb cannot read a package.
    """
    pages: dict[str, Pages] = {source: {}, target: {}}
    for deb in debs:
        for language, name, text in _pages(deb):
            if language in pages:
                pages[language].setdefault(name, text)
    for name in sorted(pages[source].keys() & pages[target].keys()):
        left, right = (read_page(pages[language][name]) for language in (source, target))
        for one, other in _aligned_texts(left, right, dropped):
            yield from sentence_pairs(name, one, other, source, target)


def _pages(deb: Path) -> Iterator[tuple[str, str, str]]:
    """Language, name ("man1/ls.1") and text of the pages of a package."""
    for match, data in files_of_deb(deb, PAGE):
        folder, name, is_compressed = match.groups()
        language, _, encoding = (folder or ORIGINAL).partition(".")
        if is_compressed:
            try:
                data = gzip.decompress(data)
            except (OSError, EOFError, zlib.error) as error:
                raise InputError(deb, None, f"{match[0]} ({error})", "a page in gzip") from error
        yield language, name, _decoded(data, encoding)


def _decoded(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding or "utf-8", errors="replace")
    except LookupError:
        return data.decode("utf-8", errors="replace")


def _aligned_texts(
    left: list[Section], right: list[Section], dropped: Counter[str]
) -> Iterator[tuple[str, str]]:
    """The texts of sections with the same sequence of blocks.

    A translation may end in a section of its own, on its translators. If most sections differ, the pages are of
    different versions, and none of their sections is trusted.
    """
    pairs = list(zip(left, right, strict=False))
    same = [_shape(one) == _shape(other) for one, other in pairs]
    is_one_page = abs(len(left) - len(right)) <= 1 and 2 * sum(same) > len(same)
    for (one, other), is_same in zip(pairs, same, strict=True):
        if not (is_one_page and is_same):
            dropped["not aligned"] += len(one)
            continue
        for block, its_translation in zip(one, other, strict=True):
            if block.text and its_translation.text:
                yield block.text, its_translation.text
            elif block.kind != "example" and (block.text is None or its_translation.text is None):
                dropped["markup"] += 1


def _shape(section: Section) -> list[str]:
    return [block.kind for block in section]
