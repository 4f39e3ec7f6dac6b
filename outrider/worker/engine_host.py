"""What a model process does for its worker."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from outrider.engine.live_work import Submission
from outrider.engine.live_works import reported
from outrider.engine.load_error import ModelLoadError
from outrider.engine.ticket import Done
from outrider.errors import PoolUnavailable
from outrider.rpc.background import leave_at_once
from outrider.worker.engine import Engine
from outrider.worker.engine_messages import (
    Abandon,
    Act,
    Answered,
    Failed,
    Forget,
    Loaded,
    LoopState,
    NotLoaded,
    Raised,
    ReadMemory,
    Request,
    Returned,
    Submit,
    Withdraw,
)
from outrider.worker.engine_outbox import EngineOutbox
from outrider.worker.engine_plan import EnginePlan

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class RemoteTicket:
    """The model thread's end of a ticket that the worker holds."""

    number: int
    host: EngineHost
    abandoned: bool = False

    def deliver(self, done: Done[Any]) -> None:
        """Sends an answer."""
        if done.last:
            self.host.drop(self)
        self.host.outbox.put(Answered(self.number, done))

    def fail(self, error: Exception) -> None:
        """Sends an error."""
        self.host.drop(self)
        self.host.outbox.put(Failed(self.number, error))


class EngineHost:
    """Loads the model and hands on what the worker asks for.

    `take` is for one thread. Jobs, calls and what else concerns the model come once it is loaded.
    """

    def __init__(self, plan: EnginePlan, pipe: socket.socket) -> None:
        """Begins to load, on a thread of its own."""
        self._plan = plan
        self._loaded: Engine[Any, Any] | None = None
        self._tickets: dict[int, RemoteTicket] = {}
        self.outbox = EngineOutbox(pipe, state=self._state)
        threading.Thread(target=self._run, name="loading", daemon=True).start()

    def take(self, message: Request) -> None:
        """Begins what a message asks for."""
        match message:
            case Submit():
                self._submit(message)
            case Withdraw(call, number):
                self.outbox.put(Returned(call, self._withdraw(number)))
            case Abandon(number):
                self._abandon(number)
            case Forget(stream):
                self._engine.loop.forget(stream)
            case Act(call, action):
                self._call(call, partial(action, self._engine.handles))
            case ReadMemory(call):
                self._call(call, self._engine.memory)

    def drop(self, ticket: RemoteTicket) -> None:
        """Nothing follows for this ticket. For any thread."""
        self._tickets.pop(ticket.number, None)

    @property
    def _engine(self) -> Engine[Any, Any]:
        if self._loaded is None:
            raise RuntimeError("the model is not loaded yet")
        return self._loaded

    def _run(self) -> None:
        """Loads the model and waits for the end of its loop, which is the end of the process."""
        try:
            model, description = self._plan.load()
            engine: Engine[Any, Any] = Engine(
                model,
                self._plan.start_work,
                options=self._plan.options,
                count_outputs=self._plan.count_outputs,
            )
            engine.loop.start()
            engine.loop.request(partial(self._plan.settle, model)).result()
            self._loaded = engine
            self.outbox.put(Loaded(description))
            engine.loop.join()
        except ModelLoadError as error:
            self.outbox.put(NotLoaded(str(error)))
        except BaseException as error:
            log.critical("the model cannot be loaded", exc_info=True)
            self.outbox.put(NotLoaded(f"the model cannot be loaded: {type(error).__name__}"))
        self.outbox.close()
        leave_at_once(1)

    def _state(self) -> LoopState:
        if self._loaded is None:
            return LoopState()
        loop = self._loaded.loop
        return LoopState(loop.queue_depth, loop.forwards, loop.price)

    def _submit(self, message: Submit) -> None:
        ticket = self._tickets[message.number] = RemoteTicket(message.number, self)
        submission = Submission(message.job, ticket, message.stream, message.arrived)
        try:
            self._engine.loop.enqueue(submission)
        except PoolUnavailable as error:
            ticket.fail(error)

    def _withdraw(self, number: int) -> bool:
        ticket = self._tickets.get(number)
        if ticket is None or not self._engine.loop.withdraw(ticket):
            return False
        self._abandon(number)
        return True

    def _abandon(self, number: int) -> None:
        if ticket := self._tickets.pop(number, None):
            ticket.abandoned = True

    def _call(self, call: int, action: Callable[[], Any]) -> None:
        try:
            self._engine.loop.request(action).add_done_callback(partial(self._answer, call))
        except PoolUnavailable as error:
            self.outbox.put(Raised(call, error))

    def _answer(self, call: int, future: Future[Any]) -> None:
        error = future.exception()
        if error is None:
            self.outbox.put(Returned(call, future.result()))
        elif isinstance(error, Exception):
            self.outbox.put(Raised(call, reported(error)))
