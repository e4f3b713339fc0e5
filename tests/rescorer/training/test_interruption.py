"""Signals that come while a training makes its updates."""

from __future__ import annotations

import signal
import threading

import pytest

from moses_bridge.base.programs import ENDING_SIGNALS as SIGNALS
from rescorer.training.loop import noted_signal


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


def test_the_first_signal_acts_at_the_end_of_the_block() -> None:
    before, came = handlers(), list[int]()
    with pytest.raises(KeyboardInterrupt), noted_signal() as noted:
        assert not noted
        signal.raise_signal(signal.SIGINT)
        came += noted
        assert handlers() == before
    assert came == [signal.SIGINT]


def test_the_signal_of_another_kind_meets_its_own_handler_too() -> None:
    came = list[int]()
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        with noted_signal() as noted:
            signal.raise_signal(signal.SIGTERM)
            assert (came, noted) == ([], [signal.SIGTERM])
        assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_signal_acts_at_once() -> None:
    before, reached = handlers(), list[str]()
    with pytest.raises(KeyboardInterrupt), noted_signal():
        signal.raise_signal(signal.SIGINT)
        reached.append("the first one")
        signal.raise_signal(signal.SIGINT)
        reached.append("the second one")
    assert reached == ["the first one"]
    assert handlers() == before


def test_an_error_of_the_block_is_not_hidden_by_the_signal() -> None:
    with pytest.raises(OSError, match="disk full"), noted_signal():
        signal.raise_signal(signal.SIGINT)
        raise OSError("disk full")


def test_signals_that_are_ignored_or_of_several_processes_stay_as_they_are() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with noted_signal() as noted:
            signal.raise_signal(signal.SIGHUP)
        assert noted == []
    finally:
        signal.signal(signal.SIGHUP, before)
    found = handlers()
    with noted_signal(is_alone=False):
        assert handlers() == found
    inside = list[object]()

    def in_a_thread() -> None:
        with noted_signal():
            inside.extend(handlers())

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    assert inside == found
