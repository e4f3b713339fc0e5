"""Damaged moses.ini, n-best lists, word links and files of tuning: no traceback, no changed byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moses_bridge.base.errors import InputError
from moses_bridge.formats.alignment import format_links, parse_links
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.formats.moses_ini_edits import with_added_scores, write_ini
from moses_bridge.formats.nbest import format_entry, parse_features, read_nbest
from moses_bridge.formats.tuning_data import read_features, read_init_opt, read_scores
from moses_bridge.formats.weights import read_weight_file, read_weights
from moses_bridge.tables.check.ini import ini_faults
from moses_bridge.tables.check.table import CheckReport, check_table
from tests.fuzz.conftest import in_time

V2 = b"""\
# decoder
[input-factors]
0
[feature]
UnknownWordPenalty
PhraseDictionaryMemory name=TM0 num-features=4 path=table.gz input-factor=0 # path=old
KENLM factor=0 path=lm order=3
[weight]
UnknownWordPenalty0= 1
TM0= 0.2 0.2 0.2 0.2
KENLM0= 0.5""".split(b"\n")
V1 = b"""\
[ttable-file]
0 0 0 4 table
[lmodel-file]
8 0 3 lm
[weight-t]
0.2
0.2
0.2
0.2
[weight-l]
0.5""".split(b"\n")
NBEST = [
    b"0 ||| le chat  ||| LM0= -12.5 WordPenalty0= -2 TM0= -1 -2 -3 -4 ||| -5.25 ||| 0-1=0-1 ||| 0-0",
    b"0 ||| chat  ||| LM0= -9.5 WordPenalty0= -1 TM0= -1 -2 -3 -4 ||| -6 ||| 0-1=0 ||| 0-0",
    b"2 ||| \xe9 \xc2\xa0  ||| LM0= -1 WordPenalty0= -2 TM0= 0 0 0 0 ||| -1e-05",
]
FEATURES = [
    *(b"FEATURES_TXT_BEGIN_0 0 2 3 LM0_0 TM0_0 TM0_1", b"-1 2 3 ", b"4 5 6 "),
    *(
        b"FEATURES_TXT_END_0",
        b"FEATURES_TXT_BEGIN_0 1 0 3 LM0_0 TM0_0 TM0_1",
        b"FEATURES_TXT_END_0",
    ),
]
SCORES = [b"SCORES_TXT_BEGIN_0 0 1 9 BLEU", b"1 2 3 4 5 6 7 8 9 ", b"SCORES_TXT_END_0"]
WEIGHTS = [b'{"weights": {', b'"LM0": [0.5], "TM0": [0.1, 0.2]', b"}}"]


def test_inis(mutator: Any, n_cases: int, tell: Callable[[str, int], None], tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| b ||| 1 1 1 1\n")
    report = check_table(tmp_path / "table")
    ini = tmp_path / "moses.ini"
    outcomes: Counter[str] = Counter()
    for number in range(n_cases):
        damage = mutator.mutated(V1 if number % 4 == 0 else V2)
        ini.write_bytes(damage)
        with in_time(damage):
            outcomes[assert_sound_ini(ini, report)] += 1
        assert ini.read_bytes() == damage
    tell("moses.ini", n_cases)
    assert len(outcomes) == 4 and min(outcomes.values()) > n_cases // 100, outcomes


def assert_sound_ini(ini: Path, report: CheckReport) -> str:
    n_lines = len(ini.read_bytes().split(b"\n"))
    for fault in ini_faults(ini, report):
        assert fault.path == report.path or 1 <= (fault.line or 1) <= n_lines
    try:
        content = read_ini(ini)
    except InputError as fault:
        assert fault.line is None or 1 <= fault.line <= n_lines
        return "refused"
    write_ini(content, ini.with_name("out"))
    text, written = ini.read_bytes(), ini.with_name("out").read_bytes()
    if written != text + (b"" if text.endswith(b"\n") else b"\n"):
        assert b"[ttable-file]" in text or b"[lmodel-file]" in text or b"[weight-" in text
        again = read_ini(ini.with_name("out"))  # version 1, written as version 2
        assert (again.features, again.weights) == (content.features, content.weights)
        return "converted"
    try:
        changed = with_added_scores(content, "TM0", Path("new"), [0.1])
    except InputError:
        return "read"
    assert changed.feature("TM0").n_scores == content.feature("TM0").n_scores + 1
    n_changed = sum(a != b for a, b in zip(changed.lines, content.lines, strict=True))
    assert n_changed == 2
    return "changed"


def test_nbest_lists(
    mutator: Any, n_cases: int, tell: Callable[[str, int], None], tmp_path: Path
) -> None:
    path = tmp_path / "nbest"
    for _ in range(n_cases):
        text = mutator.mutated(NBEST)
        path.write_bytes(text)
        lines = text.split(b"\n")
        n_read = 0
        try:
            with in_time(text):
                for entry in read_nbest(path):
                    n_read += 1
                    parse_features(entry, path)
                    format_entry(entry)
        except InputError as fault:
            assert fault.line in (n_read, n_read + 1) and lines[(fault.line or 0) - 1] is not None
        else:
            assert n_read == len(lines) - text.endswith(b"\n")
    tell("n-best lists", n_cases)


def test_lists_come_back() -> None:
    from moses_bridge.formats.nbest import parse_entry

    assert [format_entry(parse_entry(line, "nbest", 1)) for line in NBEST] == NBEST


def test_files_of_tuning(
    mutator: Any, n_cases: int, tell: Callable[[str, int], None], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    readers: list[tuple[Any, list[bytes]]] = [
        (lambda: list(read_features(path)), FEATURES),
        (lambda: list(read_scores(path)), SCORES),
        (lambda: read_init_opt(path), [b"1 2", b"0 0", b"1 1"]),
        (lambda: read_weights(path), WEIGHTS),
        (lambda: read_weight_file(path), [b"# name, weight", b"wt_a~b 0.5", b"pl_s1 -1e-3"]),
    ]
    outcomes: Counter[str] = Counter()
    for number in range(n_cases):
        reader, lines = readers[number % len(readers)]
        damage = mutator.mutated(lines)
        path.write_bytes(damage)
        try:
            with in_time(damage):
                reader()
            outcomes["read"] += 1
        except InputError as fault:
            assert fault.path == str(path)
            outcomes["refused"] += 1
    assert len(outcomes) == 2
    tell("files of tuning", n_cases)


def test_links(mutator: Any, n_cases: int, tell: Callable[[str, int], None]) -> None:
    for _ in range(n_cases):
        text = mutator.mutated([b"0-0 1-2 3-3"])
        try:
            with in_time(text):
                links = parse_links(text)
        except InputError:
            continue
        assert parse_links(format_links(links)) == links
    tell("word links", n_cases)
