"""Signals wait for what they would break off."""

from __future__ import annotations

import signal

import pytest

from outrider.distill.unbroken import unbroken


def test_a_signal_comes_once_the_work_is_whole() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), unbroken():
        signal.raise_signal(signal.SIGINT)
        done.append("all of it")
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nothing_comes_where_nothing_came() -> None:
    with unbroken():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
