"""Progress of long work: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from tqdm import tqdm

from moses_bridge.base.duration import duration

Item = TypeVar("Item")
SECONDS_BEFORE_FIRST_LOG_LINE = 2.0
SECONDS_BETWEEN_LOG_LINES = 15.0
_SAYS = {"progress": True}


class Progress:
    """Count of finished units, shown on standard error.

    Args:
        label: name of the work.
        total: number of units, if known; it is raised if it turns out too small.
        unit: name of the units, in the plural.
        done: number of units finished by an earlier run; they count in the share, but not in the rate.
    """

    def __init__(
        self, label: str, total: int | None = None, unit: str = "lines", done: int = 0
    ) -> None:
        self.label = label
        self.total = total
        self.unit = unit
        self.done = self._done_before = done
        self.note = ""
        self._start = self._last_shown = time.monotonic()
        self._has_been_shown = False
        self._bar = (
            tqdm(
                total=total,
                desc=label,
                unit=f" {unit}",
                file=sys.stderr,
                mininterval=0.2,
                initial=done,
            )
            if sys.stderr.isatty() and _SAYS["progress"]
            else None
        )

    def __enter__(self) -> Progress:
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

    def update(self, n_units: int = 1, note: str = "") -> None:
        """Count n_units more as finished; the note (a loss, say) is shown behind the count."""
        self.done += n_units
        if self.total is not None and self.done > self.total:
            self._set_total(self.done)
        self.note = note or self.note
        if self._bar is not None:
            self._bar.update(n_units)
            if note:
                self._bar.set_postfix_str(note, refresh=False)
        elif time.monotonic() - self._last_shown >= self._seconds_to_wait():
            self._print_line()

    def settle(self) -> None:
        """Set the total, if it was an estimate, to the number of finished units."""
        self._set_total(self.done)

    def _set_total(self, total: int) -> None:
        self.total = total
        if self._bar is not None:
            self._bar.total = total

    def _seconds_to_wait(self) -> float:
        if self._has_been_shown:
            return SECONDS_BETWEEN_LOG_LINES
        return min(SECONDS_BEFORE_FIRST_LOG_LINE, SECONDS_BETWEEN_LOG_LINES)

    def _print_line(self) -> None:
        self._last_shown, self._has_been_shown = time.monotonic(), True
        if not _SAYS["progress"]:
            return
        seconds = self._last_shown - self._start
        share = f"/{self.total:,} ({100 * self.done / self.total:.0f}%)" if self.total else ""
        n_now = self.done - self._done_before
        rate = f", {n_now / seconds:,.0f}/s" if seconds > 0 else ""
        left = self._left(n_now, seconds)
        note = f", {self.note}" if self.note else ""
        print(
            f"{self.label}: {self.done:,}{share} {self.unit}, {seconds:.0f} s{rate}{left}{note}",
            file=sys.stderr,
            flush=True,
        )

    def _left(self, n_now: int, seconds: float) -> str:
        """The time left at the present rate; "" if unknown."""
        n_left = (self.total or 0) - self.done
        return f", {duration(n_left * seconds / n_now)} left" if n_left > 0 and n_now > 0 else ""


def print_note(text: str) -> None:
    """Print a note about long work on standard error, on a line of its own, even below a progress bar."""
    if not _SAYS["progress"]:
        return
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()


def quiet() -> None:
    """Show no progress in this process: another process with the same work shows it."""
    _SAYS["progress"] = False


def track(
    items: Iterable[Item], label: str, total: int | None = None, unit: str = "lines"
) -> Iterator[Item]:
    """Yield the items, showing the number consumed."""
    with Progress(label, total, unit) as progress:
        for item in items:
            yield item
            progress.update()
