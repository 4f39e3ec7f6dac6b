"""Streams of messages as a worker should never get them: from sessions that make sense, broken.

What comes out is bytes: some of it is no message at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from outrider.testing.streams import draft_round, verify_round
from outrider.v1 import common_pb2, draft_pb2, target_pb2

VOCABULARY_SIZE = 64
CONTEXT_LENGTH = 128
HUGE = (0, 1, 2**16, 2**31 - 1, 2**32 - 1)
SCOPES = (b"", b"one", b"two", b"x" * 65)

Message = Any
"""A request of either worker."""


@dataclass
class Mischief:
    """Makes hostile streams. `handles` are names of state that some stream was told."""

    random: Random
    handles: list[common_pb2.KvHandle] = field(default_factory=list)

    def target_stream(self) -> list[bytes]:
        """The messages of one Verify call."""
        rounds = self._prefixes()
        messages = [
            self._opened(target_pb2.VerifyRequest, cache_scope=self._scope()),
            *(self._verify_round(*one) for one in rounds),
        ]
        return self._broken(messages)

    def draft_stream(self) -> list[bytes]:
        """The messages of one Draft call."""
        rounds = self._prefixes()
        opening = self._opened(draft_pb2.DraftRequest, cache_scope=self._scope())
        opening.open.sampling.ClearField("seed")
        opening.open.derived_seed = self.random.getrandbits(64)
        opening.open.mode = self.random.choice((0, 1, 2))
        opening.open.vocabulary_size = self.random.choice((0, VOCABULARY_SIZE, 40))
        return self._broken([opening, *(self._draft_round(*one) for one in rounds)])

    def _prefixes(self) -> Iterator[tuple[int, list[int], int]]:
        """Rounds: number, committed ids, how many of them the state has."""
        chance, token_ids, base = self.random, [], 0
        for number in range(1, chance.randint(2, 8)):
            token_ids = token_ids[: len(token_ids) - chance.choice((0, 0, 0, 1, 3))]
            base = min(base, len(token_ids))
            token_ids += chance.choices(range(VOCABULARY_SIZE), k=chance.randint(1, 12))
            yield number, list(token_ids), base
            base = len(token_ids) - chance.choice((0, 1))

    def _opened(self, kind: type[Message], **fields: Any) -> Message:
        chance = self.random
        message = kind()
        message.open.MergeFrom(
            type(message.open)(
                protocol_version=chance.choice((1, 2, 2, 2)),
                sampling=common_pb2.SamplingParams(
                    seed=chance.getrandbits(64),
                    temperature=chance.choice((0.0, 0.7, 1.0)),
                    verification=chance.choice((0, 1, 2)),
                    stop_token_ids=chance.choice(([], [3, 9])),
                ),
                prompt_length=chance.randint(1, 8),
                **fields,
            )
        )
        if self.handles and chance.random() < 0.3:
            message.open.handle.CopyFrom(chance.choice(self.handles))
        return message

    def _scope(self) -> bytes:
        return self.random.choice(SCOPES[:3] if self.random.random() < 0.95 else SCOPES)

    def _verify_round(
        self, number: int, token_ids: Sequence[int], base: int
    ) -> target_pb2.VerifyRequest:
        chance = self.random
        drafts = [self._draft_token() for _ in range(chance.choice((0, 0, 1, 4)))]
        decode = 0 if drafts else chance.choice((0, 0, 3, 20))
        return verify_round(number, token_ids, base=base, drafts=drafts, decode=decode)

    def _draft_round(
        self, number: int, token_ids: Sequence[int], base: int
    ) -> draft_pb2.DraftRequest:
        chance = self.random
        until = len(token_ids) + chance.choice((0, 1, 4, 9))
        message = draft_round(
            number,
            token_ids,
            base=base,
            until=until,
            together=chance.choice((0, until)),
            branches=chance.choice((0, 0, 4)),
            branch_length=chance.choice((0, 2)),
        )
        message.round.acceptance = chance.random()
        return message

    def _draft_token(self) -> common_pb2.DraftToken:
        chance = self.random
        candidates = chance.sample(range(VOCABULARY_SIZE), 5)
        token = common_pb2.DraftToken(token_id=candidates[0])
        if chance.random() < 0.5:
            token.distribution.token_ids.extend(candidates)
            token.distribution.weights.extend(chance.choices(range(1, 65536), k=5))
        elif chance.random() < 0.5:
            token.point_mass.SetInParent()
        return token

    def _broken(self, messages: list[Message]) -> list[bytes]:
        """The session with one kind of fault or several; now and then with none."""
        chance = self.random
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            chance.choice(SESSION_FAULTS)(chance, messages)
        data = [message.SerializeToString() for message in messages]
        for _ in range(chance.choice((0, 0, 0, 1))):
            place = chance.randrange(len(data)) if data else 0
            if data:
                data[place] = chance.choice(BYTE_FAULTS)(chance, data[place])
        return data


def _duplicated(chance: Random, messages: list[Message]) -> None:
    if messages:
        messages.insert(chance.randint(0, len(messages)), chance.choice(messages))


def _reordered(chance: Random, messages: list[Message]) -> None:
    chance.shuffle(messages)


def _left_out(chance: Random, messages: list[Message]) -> None:
    if messages:
        messages.pop(chance.randrange(len(messages)))


def _stale(chance: Random, messages: list[Message]) -> None:
    """What was said earlier is said again at the end."""
    messages += messages[1 : chance.randint(1, max(1, len(messages)))]


def _wrong_number(chance: Random, messages: list[Message]) -> None:
    """Any number of any message becomes one that it should not be."""
    if not messages:
        return
    message = chance.choice(messages)
    content = message.round if message.HasField("round") else message.open
    fields = [
        one
        for one in content.DESCRIPTOR.fields
        if one.cpp_type in (one.CPPTYPE_UINT32, one.CPPTYPE_UINT64)
    ]
    chosen = chance.choice(fields)
    if chosen.is_repeated:
        count = chance.choice((1, 1, 3, 300))
        getattr(content, chosen.name).extend(chance.choices((*HUGE, 5, 6, 7), k=count))
    elif chosen.name == "prefix_digest":
        content.prefix_digest ^= 1 << chance.randrange(64)
    else:
        near = max(0, getattr(content, chosen.name) + chance.choice((-1, 1)))
        setattr(content, chosen.name, chance.choice((near, *HUGE)))


def _unknown_id(chance: Random, messages: list[Message]) -> None:
    """A token that there is not, in a round or in the draft tokens of one."""
    rounds = [message.round for message in messages if message.HasField("round")]
    if rounds:
        one = chance.choice(rounds)
        one.committed_token_ids[-1] = chance.choice((VOCABULARY_SIZE, *HUGE[2:]))
        for token in getattr(one, "draft_tokens", ())[:1]:
            token.token_id = chance.choice((VOCABULARY_SIZE, *HUGE[2:]))


def _many(chance: Random, messages: list[Message]) -> None:
    """Counts without measure: draft tokens, candidates, stop ids, biased ids."""
    if not messages:
        return
    message = chance.choice(messages)
    if message.HasField("open"):
        sampling = message.open.sampling
        if chance.random() < 0.5:
            sampling.stop_token_ids.extend([1] * 1000)
        else:
            for token_id in range(1000):
                sampling.logit_bias[token_id] = 1.0
    elif isinstance(message, target_pb2.VerifyRequest):
        token = common_pb2.DraftToken(token_id=chance.randrange(VOCABULARY_SIZE))
        token.distribution.token_ids.extend([token.token_id] * chance.choice((1, 300)))
        message.round.draft_tokens.extend([token] * chance.choice((1, 17, 200)))


def _absurd_sampling(chance: Random, messages: list[Message]) -> None:
    for message in messages:
        if message.HasField("open"):
            name = chance.choice(("temperature", "top_p", "min_p", "repetition_penalty"))
            value = chance.choice((float("nan"), float("inf"), -1.0, 1e30, 0.0))
            setattr(message.open.sampling, name, value)


def _flipped(chance: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8) if data else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _truncated(chance: Random, data: bytes) -> bytes:
    return data[: chance.randint(0, len(data))]


def _spliced(chance: Random, data: bytes) -> bytes:
    """A piece of it comes again somewhere else."""
    start, end = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
    place = chance.randint(0, len(data))
    return data[:place] + data[start:end] + data[place:]


def _noise(chance: Random, data: bytes) -> bytes:
    return chance.randbytes(chance.randint(0, 60))


SESSION_FAULTS: Sequence[Callable[[Random, list[Message]], None]] = (
    _duplicated,
    _reordered,
    _left_out,
    _stale,
    _wrong_number,
    _wrong_number,
    _unknown_id,
    _many,
    _absurd_sampling,
)
BYTE_FAULTS: Sequence[Callable[[Random, bytes], bytes]] = (_flipped, _truncated, _spliced, _noise)
