"""Threads stay on the cores that they are told, and cores that are not there are named."""

from __future__ import annotations

import os
import threading

import pytest
import torch

from outrider.engine.load_error import ModelLoadError
from outrider.engine.threads import configure_threads, pin_thread

CORES = frozenset(os.sched_getaffinity(0))


def on_a_thread(cores: frozenset[int]) -> tuple[set[int], set[int]]:
    """Where a thread may run that was told to stay on some cores, and one that it starts."""
    found: list[set[int]] = []

    def run() -> None:
        pin_thread(cores)
        child = threading.Thread(target=lambda: found.append(os.sched_getaffinity(0)))
        child.start()
        child.join()
        found.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[1], found[0]


def test_a_thread_and_what_it_starts_stay() -> None:
    core = min(CORES)
    assert on_a_thread(frozenset({core})) == ({core}, {core})
    assert os.sched_getaffinity(0) == CORES, "others go where they like"


def test_no_cores_leave_a_thread_alone() -> None:
    assert on_a_thread(frozenset()) == (CORES, CORES)


def test_cores_that_are_not_there_are_named() -> None:
    with pytest.raises(ModelLoadError, match=r"pin_cores: .* not use 4094-4095; it may use \d"):
        pin_thread(frozenset({min(CORES), 4094, 4095}))
    assert os.sched_getaffinity(0) == CORES


def test_a_system_without_pinning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pin_thread(frozenset())
    monkeypatch.delattr(os, "sched_setaffinity")
    with pytest.raises(ModelLoadError, match="pin_cores: this system cannot"):
        pin_thread(frozenset({0}))


def test_threads_are_set_again_and_again() -> None:
    before = torch.get_num_threads()
    try:
        for count in (2, 1):
            configure_threads(count)
            assert torch.get_num_threads() == count
        configure_threads(0)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
