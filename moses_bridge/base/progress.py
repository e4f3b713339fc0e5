"""Progress of long work: a bar on a terminal, plain lines in a log.

Only the progress begun last is shown; when it ends, the one around it is shown again.
"""

from __future__ import annotations

import contextlib
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from moses_bridge.base.textio import COMPRESSIONS, FULL, StrPath, is_stream, named_errors

Item = TypeVar("Item")
Chunk = TypeVar("Chunk", bound=Sized)
SECONDS_BEFORE_FIRST_LOG_LINE = 2.0
SECONDS_BETWEEN_LOG_LINES = 15.0
# The time left is estimated once this share of the work, or this many seconds, follow the first update.
SHARE_BEFORE_ESTIMATE = 0.03
SECONDS_BEFORE_ESTIMATE = 3.0
GZIP = b"\x1f\x8b"
GZIP_HEADER = 16 + zlib.MAX_WBITS
BYTES_SEEN = 1 << 20
LINES_BEFORE_UPDATE, SECONDS_BEFORE_UPDATE = 256, 0.1
_VISIBLE = {"progress": True}
_OPEN: list[Progress] = []  # the last one is shown
_EXCLUDED = {"seconds": 0.0}  # of compilations


class Progress:
    """Count of finished units, shown on standard error during a `with` block.

    The time left is estimated from the time since the first update: often only the first unit waits for
    compiled code. A total that is too small is raised. `done` units, or the `share` where updates pass a share
    instead of counting units, are of an earlier run: they count in the share shown, but not in the rate.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        unit: str = "lines",
        done: int = 0,
        share: float | None = None,
    ) -> None:
        self.label = label
        self.total = total
        self.unit = unit
        self.done = self._done_before = done
        self.note = ""
        self._share = share
        self._start = time.monotonic()
        self._next_line = self._start + min(
            SECONDS_BEFORE_FIRST_LOG_LINE, SECONDS_BETWEEN_LOG_LINES
        )
        self._excluded_before = _EXCLUDED["seconds"]
        self._first: tuple[float, float] | None = None  # seconds and work done, at the first update
        self._bar: tqdm[Any] | None = None
        self._is_estimate = False

    def __enter__(self) -> Progress:
        if _OPEN:
            _OPEN[-1]._hide()
        _OPEN.append(self)
        self._show()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._is_estimate:
            self.set_total_to_done()
        if self._bar is not None:
            self._bar.close()
        elif kind is None:
            self._print_line()
        self._bar = None
        if self in _OPEN:
            _OPEN.remove(self)
        if _OPEN:
            _OPEN[-1]._show()

    def update(self, n_units: int = 1, note: str = "", share: float | None = None) -> None:
        """Count n_units more as finished; the note, a loss say, is shown after the count.

        `share` is the finished share of the work, 0 to 1, if it is not counted in units.
        """
        self.done += n_units
        if self.total is not None and self.done > self.total:
            self.set_total_to_done()
        self._share = share if share is not None else self._share
        self.note = note or self.note
        if self._first is None:
            self._first = (self._seconds_of_work(), self._finished())
        bar = self._bar  # another thread may hide it meanwhile
        if bar is not None:
            bar.set_postfix_str(self._after_bar(), refresh=False)
            bar.update(self._finished() - bar.n)
        elif _OPEN and _OPEN[-1] is self and time.monotonic() >= self._next_line:
            self._print_line()

    def set_total_to_done(self) -> None:
        """Set the total, if it was an estimate, to the number of finished units."""
        self.total = self.done
        if self._bar is not None:
            self._bar.total = self.done

    def _show(self) -> None:
        if not (sys.stderr.isatty() and _VISIBLE["progress"]):
            return
        total = self._whole()
        share = " {percentage:3.0f}%|{bar}|" if total else ""
        count = " {n_fmt}" + ("/{total_fmt}" if total else "") + f" {self.unit}"
        shown = share if self._share is not None else share + count
        self._bar = tqdm(
            desc=self.label,
            total=total,
            file=sys.stderr,
            mininterval=0.2,
            miniters=0,
            initial=self._finished(),
            bar_format=f"{{desc}}:{shown} [{{elapsed}}{{postfix}}]",
            postfix=self._after_bar(),
        )
        self._bar.start_t = time.time() - (time.monotonic() - self._start)

    def _hide(self) -> None:
        if self._bar is not None:
            self._bar.leave = False
            self._bar.close()
            self._bar = None

    def _after_bar(self) -> str:
        count = f"{self.done:,} {self.unit}" if self._share is not None else ""
        return _joined(count, self._rate(), self._left(), self.note)

    def _print_line(self) -> None:
        now, left, whole = time.monotonic(), self._left(), self._whole()
        wait = SECONDS_BETWEEN_LOG_LINES
        if whole and self._finished() < whole and not left:  # a line with the time left comes soon
            wait = min(wait, SECONDS_BEFORE_ESTIMATE)
        self._next_line = now + wait
        if not _VISIBLE["progress"]:
            return
        share = f"({100 * self._finished() / whole:.0f}%)" if whole else ""
        of_total = f"/{whole:,}" if whole and self._share is None else ""
        count = (self.unit, share) if self._share is not None else (share, self.unit)
        rest = _joined(f"{now - self._start:.0f} s", self._rate(), left, self.note)
        line = f"{self.label}: {self.done:,}{of_total} {' '.join(filter(None, count))}, {rest}"
        print(line, file=sys.stderr, flush=True)

    def _finished(self) -> float:
        """The finished part of `_whole`."""
        return self.done if self._share is None else min(self._share, 1.0)

    def _whole(self) -> float | None:
        return self.total if self._share is None else 1.0

    def _seconds_of_work(self) -> float:
        """Seconds since the start, without the excluded ones."""
        excluded = _EXCLUDED["seconds"] - self._excluded_before
        return time.monotonic() - self._start - excluded

    def _rate(self) -> str:
        """Units per second; "" below one, since count and seconds are more useful."""
        seconds, done = self._seconds_of_work(), self.done - self._done_before
        return f"{done / seconds:,.0f}/s" if 0 < seconds <= done else ""

    def _left(self) -> str:
        """The time left at the rate since the first update; "" while that is unreliable."""
        whole = self._whole()
        if whole is None or self._first is None or self._finished() >= whole:
            return ""
        seconds = self._seconds_of_work() - self._first[0]
        finished = self._finished() - self._first[1]
        is_early = finished < SHARE_BEFORE_ESTIMATE * whole and seconds < SECONDS_BEFORE_ESTIMATE
        if finished <= 0 or is_early:
            return ""
        return f"{duration((whole - self._finished()) * seconds / finished)} left"


class LineProgress(Progress):
    """Count of finished lines of a file, with share and time left if their number can be estimated.

    `done` lines are of an earlier run; this is the progress through one of `n_parts` equal parts of the file.
    """

    def __init__(
        self, label: str, path: StrPath, unit: str = "rows", done: int = 0, n_parts: int = 1
    ) -> None:
        n_lines = estimated_lines(path)
        super().__init__(label, None if n_lines is None else n_lines // n_parts, unit, done)
        self._is_estimate = True


def track(
    items: Iterable[Item], label: str, total: int | None = None, unit: str = "lines"
) -> Iterator[Item]:
    """Yield the items, showing the number consumed."""
    with Progress(label, total, unit) as progress:
        for item in items:
            yield item
            progress.update()


def track_lines(
    lines: Iterable[Item], label: str, path: StrPath, unit: str = "rows"
) -> Iterator[Item]:
    """Yield the lines of a file, showing the number consumed."""
    with LineProgress(label, path, unit) as progress:
        n_new, last_update = 0, time.monotonic()
        for line in lines:
            yield line
            n_new += 1
            # An update for each line would be a quarter of a filter's time.
            if (
                n_new == LINES_BEFORE_UPDATE
                or time.monotonic() - last_update > SECONDS_BEFORE_UPDATE
            ):
                progress.update(n_new)
                n_new, last_update = 0, time.monotonic()
        progress.update(n_new)


def track_blocks(blocks: Iterable[Chunk], label: str, path: StrPath) -> Iterator[Chunk]:
    """Yield blocks of rows of a file, showing the number of rows consumed."""
    with LineProgress(label, path) as progress:
        for block in blocks:
            yield block
            progress.update(len(block))


def estimated_lines(path: StrPath) -> int | None:
    """The number of lines of a file, estimated from its first megabyte.

    It is None for a pipe, an unreadable file, no line end there, and compressions but gzip.
    """
    file = Path(path)
    if is_stream(path) or not file.is_file():
        return None
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            seen = stream.read(BYTES_SEEN)
    except OSError:
        return None
    if seen.startswith(GZIP):
        n_lines = _packed_lines(seen)
    else:
        n_lines = None if file.suffix in COMPRESSIONS else seen.count(b"\n")
    return round(n_lines * size / len(seen)) if n_lines else None


def _packed_lines(packed: bytes) -> int | None:
    """Line ends in the beginning of a gzip file of one or more members; None if it is damaged."""
    n_lines = 0
    try:
        while packed:
            member = zlib.decompressobj(GZIP_HEADER)
            n_lines += member.decompress(packed).count(b"\n")
            packed = member.unused_data
    except zlib.error:
        return None
    return n_lines


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def duration(seconds: float) -> str:
    """A duration in seconds as text: "0.4 s", "59 s", "3 min 05 s", "2 h 07 min"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min"


def exclude_seconds(seconds: float) -> None:
    """Exclude compilation time from the rates shown."""
    _EXCLUDED["seconds"] += seconds


def print_note(text: str) -> None:
    """Print a note about long work on a line of its own on standard error, despite a progress bar."""
    if not _VISIBLE["progress"]:
        return
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()


@contextlib.contextmanager
def unless_full(path: StrPath, consequence: str) -> Iterator[None]:
    """Go on after the `with` block if there is no room for what it writes, with a note: it is not needed."""
    try:
        with named_errors(path):
            yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        print_note(f"{error}; {consequence}")


def quiet(be_quiet: bool = True) -> None:
    """Show no progress in this process (asked by the user, or shown by another process), or show it again."""
    _VISIBLE["progress"] = not be_quiet


def is_quiet() -> bool:
    """Whether no progress is shown; a spawned process does not inherit this."""
    return not _VISIBLE["progress"]
