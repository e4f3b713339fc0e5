"""Progress of long work: a bar on a terminal, plain lines in a log.

One progress is shown at a time, the one that began last; what it began inside of is shown again when it ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from tqdm import tqdm

from moses_bridge.base.duration import duration

Item = TypeVar("Item")
SECONDS_BEFORE_FIRST_LOG_LINE = 2.0
SECONDS_BETWEEN_LOG_LINES = 15.0
# No time left is told before so much of the work, or so many seconds of it, are behind the first update.
SHARE_BEFORE_ESTIMATE = 0.03
SECONDS_BEFORE_ESTIMATE = 3.0
_SAYS = {"progress": True}
_OPEN: list[Progress] = []  # the last one is shown
_SET_APART = {"seconds": 0.0}  # what compilations took; it counts in no rate


class Progress:
    """Count of finished units, shown on standard error between `with` and the end of its block.

    The time left is estimated from what happened since the first update: the first unit often waits for
    compiled code, and no other one does.

    Args:
        label: name of the work.
        total: number of units, if known; it is raised if it turns out too small.
        unit: name of the units, in the plural.
        done: number of units finished by an earlier run; they count in the share, but not in the rate.
        share: share of the work finished by an earlier run, where updates tell the share instead of a total.
        is_set_apart: whether this is the progress of what `set_apart` counts.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        unit: str = "lines",
        done: int = 0,
        share: float | None = None,
        is_set_apart: bool = False,
    ) -> None:
        self.label = label
        self.total = total
        self.unit = unit
        self.done = self._done_before = done
        self.note = ""
        self._share = share
        self._is_set_apart = is_set_apart
        self._start = self._last_shown = time.monotonic()
        self._set_apart_before = _SET_APART["seconds"]
        self._first: tuple[float, float] | None = None  # seconds and work done, at the first update
        self._has_been_shown = False
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> Progress:
        self.step_forward()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        elif kind is None:
            self._print_line()
        self._bar = None
        self.step_aside()

    def step_forward(self) -> None:
        """Show this progress instead of the one that is shown."""
        if _OPEN:
            _OPEN[-1]._hide()
        _OPEN.append(self)
        self._show()

    def step_aside(self) -> None:
        """Show the progress that was shown before this one."""
        self._hide()
        if self in _OPEN:
            _OPEN.remove(self)
        if _OPEN:
            _OPEN[-1]._show()

    def update(self, n_units: int = 1, note: str = "", share: float | None = None) -> None:
        """Count n_units more as finished.

        Args:
            n_units: number of units.
            note: is shown behind the count: a loss, say.
            share: of the whole work that is done, between 0 and 1, where it does not go by units.
        """
        self.done += n_units
        if self.total is not None and self.done > self.total:
            self._set_total(self.done)
        self._share = share if share is not None else self._share
        self.note = note or self.note
        if self._first is None:
            self._first = (self._seconds_of_work(), self._finished())
        bar = self._bar  # another thread that compiles may hide it meanwhile
        if bar is not None:
            bar.set_postfix_str(self._behind_bar(), refresh=False)
            bar.update(self._finished() - bar.n)
        elif self._is_shown and time.monotonic() - self._last_shown >= self._seconds_to_wait():
            self._print_line()

    def settle(self) -> None:
        """Set the total, if it was an estimate, to the number of finished units."""
        self._set_total(self.done)

    @property
    def _is_shown(self) -> bool:
        return bool(_OPEN) and _OPEN[-1] is self

    def _show(self) -> None:
        if not (sys.stderr.isatty() and _SAYS["progress"]):
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
            postfix=self._behind_bar(),
        )
        self._bar.start_t = time.time() - (time.monotonic() - self._start)

    def _hide(self) -> None:
        if self._bar is not None:
            self._bar.leave = False
            self._bar.close()
            self._bar = None

    def _behind_bar(self) -> str:
        count = f"{self.done:,} {self.unit}" if self._share is not None else ""
        return _joined(count, self._rate(), self._left(), self.note)

    def _set_total(self, total: int) -> None:
        self.total = total
        if self._bar is not None:
            self._bar.total = total

    def _finished(self) -> float:
        """What is done, of `_whole`."""
        return self.done if self._share is None else min(self._share, 1.0)

    def _whole(self) -> float | None:
        return self.total if self._share is None else 1.0

    def _seconds_of_work(self) -> float:
        """Seconds since the start, without those set apart; or those set apart alone."""
        seconds_apart = _SET_APART["seconds"] - self._set_apart_before
        if self._is_set_apart:
            return seconds_apart
        return time.monotonic() - self._start - seconds_apart

    def _seconds_to_wait(self) -> float:
        if self._has_been_shown:
            return SECONDS_BETWEEN_LOG_LINES
        return min(SECONDS_BEFORE_FIRST_LOG_LINE, SECONDS_BETWEEN_LOG_LINES)

    def _print_line(self) -> None:
        self._last_shown, self._has_been_shown = time.monotonic(), True
        if not _SAYS["progress"]:
            return
        whole = self._whole()
        of_total = "" if self._share is not None or not whole else f"/{whole:,}"
        share = f"({100 * self._finished() / whole:.0f}%)" if whole else ""
        all_seconds = self._last_shown - self._start
        seconds = self._seconds_of_work() if self._is_set_apart else all_seconds
        behind = _joined(f"{seconds:.0f} s", self._rate(), self._left(), self.note)
        count = (self.unit, share) if self._share is not None else (share, self.unit)
        line = f"{self.label}: {self.done:,}{of_total} {' '.join(filter(None, count))}, {behind}"
        print(line, file=sys.stderr, flush=True)

    def _rate(self) -> str:
        """Units a second; "" below one, where count and seconds say more."""
        seconds, done = self._seconds_of_work(), self.done - self._done_before
        return f"{done / seconds:,.0f}/s" if 0 < seconds <= done else ""

    def _left(self) -> str:
        """The time left at the rate since the first update; "" while that says little."""
        whole = self._whole()
        if whole is None or self._first is None or self._finished() >= whole:
            return ""
        seconds = self._seconds_of_work() - self._first[0]
        finished = self._finished() - self._first[1]
        says_little = finished < SHARE_BEFORE_ESTIMATE * whole and seconds < SECONDS_BEFORE_ESTIMATE
        if finished <= 0 or says_little:
            return ""
        return f"{duration((whole - self._finished()) * seconds / finished)} left"


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def set_apart(seconds: float) -> None:
    """Count seconds as no work of any progress: they went into compiling its code."""
    _SET_APART["seconds"] += seconds


def print_note(text: str) -> None:
    """Print a note about long work on standard error, on a line of its own, even below a progress bar."""
    if not _SAYS["progress"]:
        return
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()


def quiet(be_quiet: bool = True) -> None:
    """Show no progress in this process, or show it again.

    Args:
        be_quiet: whether nothing is shown: the user wants that, or another process with the same work shows it.
    """
    _SAYS["progress"] = not be_quiet


def is_quiet() -> bool:
    """Whether no progress is shown; a process that this one starts by "spawn" has to be told."""
    return not _SAYS["progress"]


def track(
    items: Iterable[Item], label: str, total: int | None = None, unit: str = "lines"
) -> Iterator[Item]:
    """Yield the items, showing the number consumed."""
    with Progress(label, total, unit) as progress:
        for item in items:
            yield item
            progress.update()
