"""Phrase and reordering tables of linked parallel text, next to the programs of Moses.

    python bench_extraction.py SOURCE_TEXT TARGET_TEXT LINKS OUT.json

Both make the same tables, byte for byte but for their order. Ours makes the lexical tables and a language model
of five words as well; Moses's programs are given these lexical tables and run one after the other, as
train-model.perl runs them. Time is that of the processor; the better of two runs, by turns.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench_tables import processor_seconds
from results import Result, write_results

from moses_bridge.base.textio import read_lines, write_lines

PROGRAMS = ("extract", "score", "consolidate", "lexical-reordering-score")
N_RUNS = 2
# Run in an empty folder.
MOSES = """set -eo pipefail
export LC_ALL=C
extract {target} {source} {links} extract 7 orientation --model wbe-msd --GZOutput
for kind in extract extract.inv extract.o; do
    gzip -dc $kind.gz | sort -S 1G -T . | gzip > $kind.sorted.gz
done
score extract.sorted.gz {lexical}/lex.f2e f2e.gz --GoodTuring
score extract.inv.sorted.gz {lexical}/lex.e2f e2f.gz --Inverse
gzip -dc e2f.gz | sort -S 1G -T . | gzip > e2f.sorted.gz
consolidate f2e.gz e2f.sorted.gz phrase-table.gz --GoodTuring f2e.gz.coc
lexical-reordering-score extract.o.sorted.gz 0.5 reordering. --model 'wbe msd wbe-msd-bidirectional-fe'
"""


def main(source: Path, target: Path, links: Path, out: Path) -> None:
    """Measure, and write the results."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        print(f"not on the PATH: {', '.join(missing)}; without a peer")
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_lines(folder / "links", read_lines(links))
        languages = source.suffix[1:], target.suffix[1:]
        runs = [_run(folder, source.with_suffix(""), languages, not missing) for _ in range(N_RUNS)]
    ours, peers = zip(*runs, strict=True)
    n_pairs = sum(1 for _ in read_lines(source))
    result = Result(
        f"phrase and reordering tables of {n_pairs:,} sentence pairs, links given",
        "moses-bridge build, lexical tables and a language model as well",
        "extract, sort, score, consolidate and lexical-reordering-score of Moses",
        min(ours),
        None if missing else min(peers),
        "processor s",
    )
    write_results([result], out)


def _run(
    folder: Path, corpus: Path, languages: tuple[str, str], has_moses: bool
) -> tuple[float, float]:
    """Processor seconds of ours and of Moses."""
    model, moses = folder / "model", folder / "moses"
    for each in (model, moses):
        shutil.rmtree(each, ignore_errors=True)
    moses.mkdir()
    bridge = Path(sys.executable).with_name("moses-bridge")
    build = [bridge, "build", "--corpus", corpus, "--out", model, "--links", folder / "links"]
    sides = ["--source-language", languages[0], "--target-language", languages[1], "--jobs", "1"]
    ours = processor_seconds(shlex.join(map(str, [*build, *sides])))
    if not has_moses:
        return ours, 0.0
    source, target = (shlex.quote(f"{corpus}.{language}") for language in languages)
    commands = MOSES.format(source=source, target=target, links="../links", lexical="../model")
    return ours, processor_seconds(
        f"cd {shlex.quote(str(moses))} && bash -c {shlex.quote(commands)}"
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:5]))
