"""What is there together goes over the socket together."""

from __future__ import annotations

import asyncio
import socket
import threading
from pickle import PicklingError

import pytest

from outrider.worker.engine_frames import FrameReader, to_frame
from outrider.worker.engine_messages import Abandon, Forget, LoopState, Report, Request, Returned
from outrider.worker.engine_outbox import EngineOutbox
from outrider.worker.engine_pipe import EnginePipe


def test_answers_given_while_others_are_sent_go_as_one_frame() -> None:
    ours, theirs = socket.socketpair()
    asked, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def state() -> LoopState:
        asked.release()
        assert go_on.acquire(timeout=30)
        return LoopState(queue_depth=1)

    outbox = EngineOutbox(theirs, state=state)
    outbox.put(Returned(0, "first"))
    assert asked.acquire(timeout=30)
    for number in range(1, 65):
        outbox.put(Returned(number, number))
    go_on.release(2)
    outbox.close()
    theirs.close()
    reader, messages = FrameReader(), []
    while piece := ours.recv(1 << 16):
        messages += reader.feed(piece)
    ours.close()
    assert [message.call for message in messages if isinstance(message, Returned)] == [*range(65)]
    assert [place for place, one in enumerate(messages) if isinstance(one, LoopState)] == [0, 2]


def test_an_outbox_whose_reader_is_gone_ends() -> None:
    ours, theirs = socket.socketpair()
    outbox = EngineOutbox(theirs, state=LoopState)
    ours.close()
    outbox.put(Returned(1, None))
    outbox.close()
    theirs.close()


async def test_messages_of_one_turn_are_sent_together_and_all_that_came_is_read() -> None:
    ours, theirs = socket.socketpair()
    got: list[Report] = []
    third, ended = asyncio.Event(), asyncio.Event()

    def take(message: Report) -> None:
        got.append(message)
        if len(got) == 3:
            third.set()

    pipe = await EnginePipe(on_message=take, on_end=ended.set).open(ours)
    sent: list[Request] = [Forget("a"), Abandon(1), Forget("b")]
    for message in sent:
        pipe.post(message)
    await asyncio.sleep(0)
    theirs.settimeout(30)
    assert theirs.recv(1 << 16) == b"".join(to_frame([message]) for message in sent)
    theirs.sendall(to_frame([Returned(1, "x"), Returned(2, "y")]) + to_frame([Returned(3, "z")]))
    await asyncio.wait_for(third.wait(), 30)
    assert got == [Returned(1, "x"), Returned(2, "y"), Returned(3, "z")]
    pipe.post(Forget("c"))
    with pytest.raises((PicklingError, AttributeError)):
        pipe.post(Forget(lambda: "no name"))  # type: ignore[arg-type]
    pipe.close()
    await asyncio.wait_for(ended.wait(), 30)
    assert theirs.recv(1 << 16) == to_frame([Forget("c")])
    assert theirs.recv(1 << 16) == b""
    theirs.close()
