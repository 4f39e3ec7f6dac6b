"""What a prompt costs whose beginning was read before: second turns and shared instructions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.clients import Clients, Seen
from benchmarks.corpus import Corpus
from benchmarks.results import Row
from benchmarks.services import placement_of, running_targets
from benchmarks.subject import EMBEDDED, Subject

CHAT = 1000
ANSWER = 32
SECOND_MESSAGE = 30
SYSTEM_PROMPT, MESSAGE = 1000, 20
USERS = 8
WARM_UPS = 2


def measure(*, runs: int = 3, subject: Subject = EMBEDDED) -> Iterator[Row]:
    """Time to the first token of a chat's second turn, and of eight users at once."""
    with running_targets(subject, {"target": {}}, placement_of(subject)) as targets:
        address = targets["target"].coordinator
        first, second, shared, apart = asyncio.run(_measure(address, subject, runs))
    yield _row(
        subject.row("prefix_reuse_second_turn"),
        second,
        first,
        against="the first turn",
        note=f"to the first token; first turn {CHAT} tokens, then an answer of {ANSWER} and a "
        f"message of {SECOND_MESSAGE}; {subject.note}",
    )
    yield _row(
        subject.row(f"prefix_reuse_system_prompt_{USERS}"),
        shared,
        apart,
        against="a system prompt each",
        note=f"until all of {USERS} users at once have a first token; system prompt of "
        f"{SYSTEM_PROMPT} tokens, never read before, messages of {MESSAGE}; {subject.note}",
    )


async def _measure(
    address: str, subject: Subject, runs: int
) -> tuple[list[float], list[float], list[float], list[float]]:
    corpus = Corpus(subject.folder)
    first, second, shared, apart = [], [], [], []
    async with Clients(address) as clients:
        for _ in range(WARM_UPS):
            await clients.generate(corpus.take(MESSAGE), output_tokens=1)
        for run in range(runs):
            chat = corpus.take(CHAT)
            turn = await clients.generate(chat, output_tokens=ANSWER)
            again = [*chat, *turn.token_ids, *corpus.take(SECOND_MESSAGE)]
            first.append(turn.first_token_s)
            second.append((await clients.generate(again, output_tokens=1)).first_token_s)
            system_prompt = corpus.take(SYSTEM_PROMPT)
            same = [[*system_prompt, *corpus.take(MESSAGE)] for _ in range(USERS)]
            shared.append(_all_first_tokens(await clients.generate_all(same, output_tokens=1)))
            other = [corpus.take(SYSTEM_PROMPT + MESSAGE) for _ in range(USERS)]
            apart.append(_all_first_tokens(await clients.generate_all(other, output_tokens=1)))
            print(f"  prefix reuse: run {run + 1}", file=sys.stderr, flush=True)
    return first, second, shared, apart


def _all_first_tokens(seen: Sequence[Seen]) -> float:
    return max(one.ended for one in seen) - min(one.asked for one in seen)


def _row(
    name: str, ours: Sequence[float], theirs: Sequence[float], *, against: str, note: str
) -> Row:
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    return Row(
        name,
        median(ours) * 1000,
        "ms",
        len(ours),
        ratio=median(ratios),
        against=f"{against}, {median(theirs) * 1000:.0f} ms",
        note=note,
    )
