"""A table whose words the models of `tests.rescorer.conftest` know."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.rescorer.conftest import SOURCE, TARGET

FRENCH = dict(zip(SOURCE.words[2:], TARGET.words[2:], strict=True))


def rows() -> list[bytes]:
    """Each phrase of two or three words with two targets; the second is likelier for those with "red"."""
    result = []
    for first in (b"the", b"a", b"of"):
        for second in (b"red", b"blue", b"house", b"in"):
            for third in (b"", b" house", b" car"):
                words = (first + b" " + second + third).split()
                target = b" ".join(FRENCH[word] for word in words)
                links = b" ".join(b"%d-%d" % (n, n) for n in range(len(words)))
                count = len(result) // 2 + 1
                prob = 0.25 if second == b"red" else 0.75
                result += [
                    b"%s ||| %s ||| 0.5 0.5 %.2f 0.5 ||| %s ||| 5 %d 2"
                    % (b" ".join(words), t, p, links, count)
                    for t, p in ((target, prob), (target + b" foo", 1 - prob))
                ]
    return sorted(result)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.gz"
    path.write_bytes(gzip.compress(b"".join(row + b"\n" for row in rows())))
    return path
