"""The model loop in a process of its own, as the worker's event loop sees it."""

from __future__ import annotations

import asyncio
import itertools
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import structlog

from outrider.engine.handles import HandleTable
from outrider.engine.load_error import ModelLoadError
from outrider.engine.ticket import Ticket
from outrider.errors import PoolUnavailable
from outrider.rpc.background import in_daemon_thread
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
    Report,
    Request,
    Returned,
    Submit,
    Withdraw,
)
from outrider.worker.engine_pipe import EnginePipe
from outrider.worker.engine_plan import EnginePlan
from outrider.worker.memory import MemoryReport
from outrider.worker.model_description import ModelDescription

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
AnswerT = TypeVar("AnswerT")

CHILD = "outrider.worker.engine_child"
END_S = 5.0
"""How long the process may take to end once its socket is closed, before it is killed."""
RETRY_AFTER_S = 1.0

log = structlog.get_logger(__name__)


class ProcessLoop(Generic[JobT, ResultT]):
    """A WorkerLoop: the model, its KV states and their loop are in a process that this starts."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._tickets: dict[int, Ticket[ResultT]] = {}
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._state = LoopState()
        self._pipe = EnginePipe(on_message=self._take, on_end=self._end)
        self._process: subprocess.Popen[bytes] | None = None
        self._loaded: asyncio.Future[ModelDescription] | None = None
        self._open = False
        self._closing = False

    async def start(self, plan: EnginePlan) -> ModelDescription:
        """Starts the process; returns once its model is loaded. Call once.

        Raises ModelLoadError. Cancelling it ends the process.
        """
        self._loaded = asyncio.get_running_loop().create_future()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _spawn(theirs)
        await self._pipe.open(ours)
        self._open = True
        self._pipe.post(plan)
        try:
            return await self._loaded
        except BaseException:
            await self.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether the process takes jobs."""
        return self._open

    @property
    def pid(self) -> int:
        """The process's id; 0 before it is started."""
        return self._process.pid if self._process is not None else 0

    @property
    def queue_depth(self) -> int:
        """Jobs whose first forward has not begun, when the process last said something."""
        return self._state.queue_depth

    @property
    def forwards(self) -> int:
        """Forwards since the start, when the process last said something."""
        return self._state.forwards

    @property
    def price(self) -> float:
        """Output tokens that one more row in a step costs all generations; 0: not known."""
        return self._state.price

    def submit(self, job: JobT, *, stream: str = "") -> Ticket[ResultT]:
        """Queues a job of a generation. Raises PoolUnavailable when the process is gone."""
        number = next(self._numbers)
        self._post(Submit(number, job, stream, time.perf_counter()))
        ticket: Ticket[ResultT] = Ticket(
            partial(self._withdraw, number), on_abandoned=partial(self._abandon, number)
        )
        self._tickets[number] = ticket
        return ticket

    def forget(self, stream: str) -> None:
        """Says that a generation has ended."""
        if self._open:
            self._post(Forget(stream))

    async def call(self, action: Callable[[HandleTable], AnswerT]) -> AnswerT:
        """Runs a quick action on the KV states. Raises its OutriderErrors, and PoolUnavailable.

        Any other error is InternalFailure, its cause in the log.
        """
        answer: AnswerT = await self._ask(lambda call: Act(call, action))
        return answer

    async def memory(self) -> MemoryReport:
        """What KV state there is. Raises PoolUnavailable when the process is gone."""
        report: MemoryReport = await self._ask(ReadMemory)
        return report

    async def close(self) -> None:
        """Ends the process, by force if need be."""
        self._closing = True
        self._pipe.close()
        self._end()
        if self._process is not None:
            await in_daemon_thread(partial(_wait_for_end, self._process), name="reaper")

    async def _withdraw(self, number: int, ticket: Ticket[ResultT]) -> bool:
        if number not in self._tickets or not self._open:
            return False
        try:
            withdrawn: bool = await self._ask(lambda call: Withdraw(call, number))
        except PoolUnavailable:
            return False
        return withdrawn and self._tickets.pop(number, None) is not None

    def _abandon(self, number: int, ticket: Ticket[ResultT]) -> None:
        if self._tickets.pop(number, None) is not None and self._open:
            self._post(Abandon(number))

    async def _ask(self, request: Callable[[int], Request]) -> Any:
        """What the process returns; asked for even when the caller is cancelled meanwhile."""
        call = next(self._numbers)
        self._post(request(call))
        answer = self._calls[call] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(answer)

    def _post(self, request: Request) -> None:
        if not self._open:
            raise _gone()
        self._pipe.post(request)

    def _take(self, message: Report) -> None:
        match message:
            case LoopState():
                self._state = message
            case Answered(number, done):
                if ticket := self._tickets.get(number):
                    if done.last:
                        del self._tickets[number]
                    ticket.hand_in(done)
            case Failed(number, error):
                if ticket := self._tickets.pop(number, None):
                    ticket.hand_in(error)
            case Returned(call, value):
                self._calls.pop(call).set_result(value)
            case Raised(call, error):
                self._calls.pop(call).set_exception(error)
            case Loaded(description):
                self._settle_loading(description)
            case NotLoaded(reason):
                self._settle_loading(ModelLoadError(reason))

    def _end(self) -> None:
        """No message follows."""
        if not self._open:
            return
        self._open = False
        self._settle_loading(ModelLoadError("the model process ended before it had loaded"))
        tickets, self._tickets = self._tickets, {}
        for ticket in tickets.values():
            ticket.hand_in(_gone())
        calls, self._calls = self._calls, {}
        for answer in calls.values():
            answer.set_exception(_gone())
            answer.exception()  # Marked as seen: a caller may have left already.
        if not self._closing and self._process is not None:
            threading.Thread(target=_report_end, args=(self._process,), daemon=True).start()

    def _settle_loading(self, outcome: ModelDescription | ModelLoadError) -> None:
        if self._loaded is None or self._loaded.done():
            return
        if isinstance(outcome, ModelLoadError):
            self._loaded.set_exception(outcome)
        else:
            self._loaded.set_result(outcome)


def _spawn(end: socket.socket) -> subprocess.Popen[bytes]:
    """A fresh interpreter with one end of the socket; it imports nothing from the working folder.

    It inherits a mask that blocks the signals of a Ctrl-C and of an orderly stop, so that none
    reaches it before its worker has drained; what it is to end by is the end of the socket.
    """
    stops = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    try:
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", "-m", CHILD, str(end.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[end.fileno()],
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _report_end(process: subprocess.Popen[bytes]) -> None:
    """Says how it ended; a negative code is the number of a signal."""
    log.critical("the model process ended", code=process.wait())


def _gone() -> PoolUnavailable:
    return PoolUnavailable("the model process has ended", retry_after_s=RETRY_AFTER_S)
