from __future__ import annotations

import pytest
from numba import njit

from moses_bridge.base.compiled.notice import CompilationNotice
from moses_bridge.base.progress import Progress


def test_told_once_for_all_functions_and_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    one, other = njit(lambda number: number + 1), njit(lambda number: number - 1)
    notice = CompilationNotice("both")
    with notice:
        assert (one(1), other(1)) == (2, 0)
    with notice:
        assert one(0.5) == 1.5
    assert capsys.readouterr().err == "compiling both; later runs need not\n"


def test_not_told_where_nothing_is_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    function = njit(lambda number: 3 * number)
    with CompilationNotice("nothing"):
        pass
    assert function(2) == 6
    with CompilationNotice("nothing"):
        assert function(2) == 6
    assert capsys.readouterr().err == ""


def test_the_seconds_count_in_no_rate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    apart: list[float] = []
    monkeypatch.setattr("moses_bridge.base.compiled.notice.exclude_seconds", apart.append)
    inner = njit(lambda number: number + 5)
    with CompilationNotice("all"), Progress("work", 1):
        assert njit(lambda number: inner(number) + 1)(1) == 7
    assert len(apart) == 1 and apart[0] > 0


def test_nothing_is_noticed_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), CompilationNotice("nothing"):
        raise ZeroDivisionError
    assert njit(lambda number: 4 * number)(2) == 8
    assert capsys.readouterr().err == ""
