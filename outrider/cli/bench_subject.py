"""The coordinator that a benchmark asks: one that runs, or a pair of its own."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from outrider.bench.load import PutPrompt
from outrider.bench.prompts import Prompt
from outrider.cli.chat_fallback import generate_chat
from outrider.cli.deployment import Deployment
from outrider.cli.pair import PairOptions, RunningPair, start_pair
from outrider.cli.progress import StartProgress
from outrider.cli.request import chat_prompt
from outrider.client import Client, ClientError
from outrider.delay_proxy import DelayProxy, running_delay_proxy
from outrider.rpc.tls import TlsFiles
from outrider.v1 import generation_pb2

PAIRING_TIMEOUT_S = 20.0
MILLISECONDS = 1000.0


@dataclass(frozen=True, slots=True)
class BenchSubject:
    """Where to send requests, and how to move the draft away."""

    address: str
    tls: TlsFiles
    set_round_trip: Callable[[float], None]
    """Takes milliseconds."""
    logs: Path | None = None
    """Of services that were started for this."""
    drafters: Mapping[str, str] = field(default_factory=dict)
    """Coordinators of further drafts of the same target, by their labels."""


@contextmanager
def own_pair(options: PairOptions, round_trips_ms: Sequence[float]) -> Iterator[BenchSubject]:
    """A pair that runs as long as this context, with a delay proxy before its draft when there are
    round trips. Its logs are kept when it ends by an error.

    Raises as start_pair.
    """
    run_folder = Path(tempfile.mkdtemp(prefix="outrider-bench-"))
    with Deployment(run_folder, progress := StartProgress()) as deployment, ExitStack() as stack:
        proxies: list[DelayProxy] = []

        def through_proxy(address: str) -> str:
            proxies.append(
                stack.enter_context(
                    running_delay_proxy(address, round_trip_s=round_trips_ms[0] / MILLISECONDS)
                )
            )
            return proxies[-1].address

        def set_round_trip(milliseconds: float) -> None:
            for proxy in proxies:
                proxy.round_trip_s = milliseconds / MILLISECONDS

        with progress:
            pair = _start(deployment, options, through_proxy if round_trips_ms else None)
        yield BenchSubject(pair.coordinator, pair.tls, set_round_trip, run_folder, pair.drafters)
    shutil.rmtree(run_folder)


def _start(
    deployment: Deployment, options: PairOptions, draft_route: Callable[[str], str] | None
) -> RunningPair:
    if draft_route is None:
        return start_pair(deployment, options)
    return start_pair(deployment, options, draft_route=draft_route)


def running_coordinator(address: str, tls: TlsFiles) -> BenchSubject:
    """One that somebody else runs; its draft stays where it is."""
    return BenchSubject(address, tls, _stay)


def _stay(milliseconds: float) -> None:
    raise AssertionError("only a pair of its own has a proxy")


def ready_state(client: Client) -> generation_pb2.GenerationServiceGetStatusResponse:
    """The coordinator's state once target and draft are usable.

    Raises ClientError when there is none, or none is within PAIRING_TIMEOUT_S, saying why.
    """
    deadline = time.monotonic() + PAIRING_TIMEOUT_S
    while True:
        state = client.status()
        missing = [
            (pool, workers)
            for pool, workers in (("target", state.targets), ("draft", state.drafts))
            if not any(worker.usable for worker in workers)
        ]
        if not missing:
            return state
        pool, workers = missing[0]
        if not workers or time.monotonic() > deadline:
            reasons = (
                "; ".join(f"{one.address}: {one.reason}" for one in workers) or "there is none"
            )
            raise ClientError(f"no usable {pool}, so there is nothing to compare ({reasons})")
        time.sleep(0.2)


def form_of_prompts(client: Client, on_fallback: Callable[[], None]) -> PutPrompt:
    """How this model takes prompts: as chats, else, after a call of `on_fallback`, as plain text.

    Raises ClientError.
    """
    forms: list[PutPrompt] = [Prompt.put_chat]

    def fall_back() -> None:
        forms.append(Prompt.put_text)
        on_fallback()

    request = generation_pb2.GenerateRequest(
        chat=chat_prompt("Hello", system=None), max_new_tokens=1
    )
    for _ in generate_chat(client, request, fall_back):
        pass
    return forms[-1]
