from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from moses_bridge.corpus.groff_page import Block, plain_text, read_page

PAGE = r""".\" a comment
.TH LS 1
before the first heading
.SH NAME
ls \- list \fIdirectory\fP contents\" and why
.SH
"SEE ALSO"
.de XX
.SH not here
..
.if n .SH nor here
.ie t \{\
nor
.\}
.el \{\
here
.\}
.PP
.B ls
.RI [ FILE ]...
is in
.UR https://example.org
the manual
.UE .
.TP
.BR \-a ", " "" \-\-all
do not ignore
.EX
$ ls -a

.EE
.IP \(bu 2
one \c
line
.TS
l l.
a	b
.TE
.SS Sub heading

last
"""


def test_a_page_becomes_headings_paragraphs_tags_and_examples() -> None:
    """By groff_man(7): a blank line ends a paragraph, .TP's tag is the next line, .RI joins its arguments."""
    name, see_also = read_page(PAGE)
    assert name == [Block("heading", "NAME"), Block("paragraph", "ls - list directory contents")]
    assert see_also == [
        Block("heading", '"SEE ALSO"'),
        Block("paragraph", "ls [FILE]... is in the manual."),
        Block("tag", "-a, --all"),
        Block("paragraph", "do not ignore"),
        Block("example", None),
        Block("tag", "\u2022"),
        Block("paragraph", "one line"),
        Block("example", None),
        Block("subheading", "Sub heading"),
        Block("paragraph", "last"),
    ]


@pytest.mark.parametrize("page", [".so man1/ls.1\n", ".Dd today\n.Sh NAME\n.Nm ls\n", ""])
def test_aliases_and_pages_in_other_macros_have_no_sections(page: str) -> None:
    assert read_page(page) == []


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (r"\fBa\fR\|\-\-all\f(CWx\fP\f[BI]y\f[]", "a--allxy"),
        (r"\(lqx\(rq \[em] \(aq\[u00E9]\('e\[:u]", "\u201cx\u201d \u2014 '\u00e9\u00e9\u00fc"),
        (r"a\ b\~c\0d", "a b c d"),
        (r"\s-1SMALL\s0 \s+2x\s0 back\eslash", "SMALL x back\\slash"),
        (r"\*(lqq\*(rq \*(Aq \*R", "\u201cq\u201d ' \u00ae"),
        (r"a\h'1m'b\v'2'\m[blue]c\m[]", "abc"),
        (r"\&.end \,x\/", ".end x"),
        (r"\(zz", None),
        (r"\*[mine]", None),
    ],
)
def test_escapes_have_the_characters_of_groff_char(text: str, plain: str | None) -> None:
    assert plain_text(text) == plain


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_the_words_are_those_that_groff_prints() -> None:
    done = subprocess.run(
        ["groff", "-man", "-t", "-Tutf8", "-P-cbou", "-rLL=200n"],
        input=PAGE.replace("before the first heading\n", ""),
        capture_output=True,
        text=True,
        check=True,
    )
    printed = done.stdout
    ours = [block.text for section in read_page(PAGE) for block in section if block.text]
    for text in ours:
        words = re.findall(r"\w+", text)
        assert re.search(r"\W+".join(map(re.escape, words)), printed), text
    assert "not here" not in " ".join(ours)
