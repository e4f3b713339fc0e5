"""Words a second of the built-in decoder next to `moses`, one thread each, loading left out for ours."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from results import Result, write_results

from moses_bridge.decoder import DecoderOptions, open_decoder
from moses_bridge.programs import find_program
from moses_bridge.textio import read_lines, write_lines

N_LINES = 300
OPTIONS = {"stack_size": 200, "pop_limit": 400}


def words_per_second(ini: Path, source: Path, kind: str) -> float:
    """Speed of the second of two translations, the first of which compiles and loads."""
    n_words = sum(len(line.split()) for line in read_lines(source))
    with (
        TemporaryDirectory() as folder,
        open_decoder(ini, DecoderOptions(**OPTIONS, kind=kind), 1) as decoder,
    ):
        decoder.decode(source, Path(folder) / "first", None, None, 1)
        started = time.perf_counter()
        decoder.decode(source, Path(folder) / "second", None, None, 1)
        return n_words / (time.perf_counter() - started)


def main(ini: Path, source: Path, out: Path) -> None:
    """Measure on the first lines of a text."""
    with TemporaryDirectory() as folder:
        lines = Path(folder) / "source"
        write_lines(lines, list(read_lines(source))[:N_LINES])
        ours = words_per_second(ini, lines, "builtin")
        peer = words_per_second(ini, lines, "moses") if find_program("moses") else None
    work = f"decode {N_LINES} lines, stack 200, pop limit 400"
    write_results([Result(work, "built-in, 1 process", "moses", ours, peer, "words/s")], out)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
