"""Parallel text from the LibreOffice help: paragraphs with the same file and id in two languages."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryFile

from moses_bridge.base.errors import ToolError
from moses_bridge.base.programs import error_tail, running
from moses_bridge.corpus.debian_archive import find_apt
from moses_bridge.corpus.text_pair import TextPair, sentence_pairs, tidy

HELP_PAGE = re.compile(r"usr/share/libreoffice/help/[^/]+/(.+\.html)$")
PARAGRAPH_TAGS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6"})
PARAGRAPH_ID = re.compile(r"^(?:par|hd|tit)_id")

Paragraphs = dict[tuple[str, str], str]


def help_package(language: str) -> str:
    """The Debian package of the help in a language: "libreoffice-help-pt-br"."""
    code = "en_US" if language == "en" else language
    return f"libreoffice-help-{code.replace('_', '-').lower()}"


def read_help(deb: Path) -> Paragraphs:
    """The paragraphs of a help package, without code, by page (path below the language's folder) and their id.

    Raises:
        ToolError: dpkg-deb cannot read the file.
        UserError: there is no dpkg-deb.
    """
    paragraphs: Paragraphs = {}
    for match, markup in _files_of_deb(deb, HELP_PAGE):
        parser = _HelpPage()
        parser.feed(markup.decode("utf-8", errors="replace"))
        for identifier, text in parser.paragraphs.items():
            paragraphs[match[1], identifier] = tidy(text)
    return paragraphs


def help_pairs(source_deb: Path, target_deb: Path, source: str, target: str) -> Iterator[TextPair]:
    """Yield the sentences of paragraphs in both packages, in order of page; a page is a group."""
    sources, targets = read_help(source_deb), read_help(target_deb)
    shared = [key for key in sources if key in targets]
    for key in sorted(shared, key=lambda key: key[0]):
        yield from sentence_pairs(key[0], sources[key], targets[key], source, target)


def _files_of_deb(deb: Path, wanted: re.Pattern[str]) -> Iterator[tuple[re.Match[str], bytes]]:
    """The regular files of a package whose paths, without "./", fit a pattern; no links."""
    command = [find_apt("dpkg-deb"), "--fsys-tarfile", str(deb)]
    with TemporaryFile() as messages, running(command, DEVNULL, messages) as process:
        assert process.stdout is not None
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for member in archive:
                    match = wanted.match(member.name.removeprefix("./"))
                    content = archive.extractfile(member) if match and member.isfile() else None
                    if match and content:
                        yield match, content.read()
            process.stdout.read()
        except tarfile.TarError as error:
            status = process.wait()
            raise ToolError(command, status, error_tail(messages) or str(error)) from error


class _HelpPage(HTMLParser):
    """Collects the text of the paragraphs with an id."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.paragraphs: dict[str, str] = {}
        self._tag = ""
        self._identifier = ""
        self._texts: list[str] = []
        self._spans_hidden: list[bool] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in PARAGRAPH_TAGS:
            self._start(tag, attributes)
        elif tag == "span" and self._tag:
            # The page shows "Command" or "Ctrl" by the reader's system; the default has no class.
            self._spans_hidden.append("hidden" in attributes and "class" in attributes)
        elif tag in ("br", "img"):
            self._texts.append(" ")

    def _start(self, tag: str, attributes: dict[str, str | None]) -> None:
        identifier = attributes.get("id") or ""
        is_code = (attributes.get("class") or "").startswith("code")
        wanted = PARAGRAPH_ID.match(identifier) and not is_code
        self._tag, self._identifier = tag, identifier if wanted else ""
        self._texts, self._spans_hidden = [], []

    def handle_data(self, data: str) -> None:
        if self._identifier and not any(self._spans_hidden):
            self._texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "span" and self._spans_hidden:
            self._spans_hidden.pop()
        elif tag == self._tag:
            if self._identifier:
                self.paragraphs.setdefault(self._identifier, "".join(self._texts))
            self._tag = self._identifier = ""
