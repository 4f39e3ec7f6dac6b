"""A client whose stream goes on when a coordinator is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from outrider.client.client import Client
from outrider.client.delivered import DeliveredOutput
from outrider.client.errors import ClientError
from outrider.client.patience import Patience, Tries
from outrider.rpc.tls import TlsFiles
from outrider.v1 import generation_pb2


@dataclass(frozen=True, slots=True)
class Retry:
    """An attempt failed, and another one follows."""

    error: ClientError
    """What ended the attempt."""
    address: str
    """Who is asked next."""
    pause_s: float
    """Seconds until then."""
    delivered: int
    """Output ids that have come so far."""


class ResumingClient:
    """Calls to any of several coordinators: when one breaks, the next goes on after what has come.

    Use it as a context manager.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        tls: TlsFiles | None = None,
        api_key: str | None = None,
        patience: Patience | None = None,
        on_retry: Callable[[Retry], None] | None = None,
    ) -> None:
        """`addresses`: at least one host:port; the first is asked first.

        `on_retry` is told before each further attempt. Raises ClientError as `Client`.
        """
        self._addresses = tuple(addresses)
        self._clients = [Client(address, tls=tls, api_key=api_key) for address in addresses]
        self._patience = patience or Patience()
        self._on_retry = on_retry or (lambda _: None)
        self._place = 0

    def generate(
        self, request: generation_pb2.GenerateRequest, *, timeout_s: float | None = None
    ) -> Generator[generation_pb2.OutputChunk | generation_pb2.GenerationSummary]:
        """Yields chunks as they come, each once and without a gap, then the summary.

        The summary's statistics are those of the last call; its usage counts the whole output.
        `timeout_s`: for everything together. Closing the iterator cancels the call. Raises
        UnreachableError or RequestError when patience or time is over.
        """
        output = DeliveredOutput(request)
        tries = Tries(self._patience, servers=len(self._clients), timeout_s=timeout_s)
        while True:
            client = self._clients[self._place]
            try:
                attempt = client.generate(output.request, timeout_s=tries.left_s())
                with closing(attempt) as events:
                    for event in events:
                        tries.progressed()
                        if isinstance(event, generation_pb2.OutputChunk):
                            output.add(event)
                        yield event
                    return
            except ClientError as error:
                pause_s = tries.pause_after(error)
                self._place = (self._place + 1) % len(self._clients)
                address = self._addresses[self._place]
                self._on_retry(Retry(error, address, pause_s, output.length))
            time.sleep(pause_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with ExitStack() as stack:
            for client in self._clients:
                stack.enter_context(client)
