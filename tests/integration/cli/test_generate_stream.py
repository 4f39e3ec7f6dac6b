"""How the text of `outrider generate` comes to a pipe or a terminal, and how it may break off."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Outrider, ScriptedServer

TEXT = "Grüße, 世界!"


def test_text_of_a_model_reaches_a_pipe_as_it_is(
    outrider: Outrider, server: ScriptedServer
) -> None:
    server.script.events = [server.script.chunk(0, [1], "\x1b[2Ja\n"), server.script.summary()]
    assert outrider("generate", "Hello", "--address", server.address).stdout == "\x1b[2Ja\n"


def test_a_terminal_gets_whole_lines_and_no_control_characters(server: ScriptedServer) -> None:
    server.script.events = [server.script.chunk(0, [1], "\x1b[2Ja\tb"), server.script.summary()]
    with _generate(server.address, terminal=True) as (process, output):
        assert process.wait(timeout=30) == 0
        assert _read_for(output, b"\n") == b"[2Ja\tb\r\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_cancels_the_call(server: ScriptedServer, number: signal.Signals) -> None:
    server.script.endless = True
    server.script.events.pop()
    with _generate(server.address) as (process, output):
        _read_for(output, b" more")
        process.send_signal(number)
        assert process.wait(timeout=30) == (130 if number == signal.SIGINT else -signal.SIGTERM)
        assert server.script.cancelled.wait(timeout=30)
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_text_comes_while_it_is_generated(server: ScriptedServer) -> None:
    server.script.endless = True
    server.script.events.pop()
    with _generate(server.address) as (process, output):
        assert _read_for(output, b" more").startswith("Grüße, 世界".encode())
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)


def test_a_reader_that_leaves_ends_the_call_quietly(server: ScriptedServer) -> None:
    server.script.endless = True
    server.script.events.pop()
    with _generate(server.address) as (process, output):
        _read_for(output, b" more")
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=30) == 141
        assert server.script.cancelled.wait(timeout=30)
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_lost_connection_is_a_failure_and_keeps_what_came(server: ScriptedServer) -> None:
    server.script.endless = True
    server.script.events.pop()
    with _generate(server.address, "--patience", "0.2") as (process, output):
        _read_for(output, b" more")
        server.stop.set()
        assert process.wait(timeout=30) == 1
        assert process.stderr is not None
        stderr = process.stderr.read().decode()
        assert "outrider: " in stderr
        assert "outrider up" not in stderr


@contextmanager
def _generate(
    address: str, *options: str, terminal: bool = False
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The running command and where to read its standard output."""
    controller, line = pty.openpty() if terminal else (-1, subprocess.PIPE)
    process = subprocess.Popen(
        [sys.executable, "-m", "outrider", "generate", "Hello", "--address", address, *options],
        stdin=subprocess.DEVNULL,
        stdout=line,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        yield process, controller if process.stdout is None else process.stdout.fileno()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        if process.stdout is not None:
            process.stdout.close()
        if terminal:
            os.close(line)
            os.close(controller)


def _read_for(descriptor: int, wanted: bytes) -> bytes:
    """Reads until `wanted` has come."""
    data, deadline = b"", time.monotonic() + 30
    while wanted not in data and time.monotonic() < deadline:
        if select.select([descriptor], [], [], 1)[0]:
            data += os.read(descriptor, 4096)
    assert wanted in data
    return data
