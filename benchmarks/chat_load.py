"""Chats of the four kinds of task for the embedded pair, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.corpus import Corpus
from benchmarks.subject import EMBEDDED
from benchmarks.ways import Way
from outrider.bench.prompts import built_in
from outrider.testing.cluster import token_request
from outrider.v1 import common_pb2, generation_pb2


@dataclass(frozen=True, slots=True)
class Chat:
    """A question as the target's template words it; `kind` of task."""

    kind: str
    token_ids: Sequence[int]


def chats(count: int) -> list[Chat]:
    """As many of each kind, as far as `count` goes."""
    corpus = Corpus(EMBEDDED.folder)
    return [
        Chat(prompt.kind, corpus.chat(prompt.messages[-1].content)) for prompt in built_in()[:count]
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLoad:
    """One generation after the other, each of its own chat."""

    chats: Sequence[Chat]
    temperature: float
    output_tokens: int
    verification: common_pb2.Verification.ValueType = common_pb2.VERIFICATION_REJECTION

    def requests(self, way: Way, *, edition: int) -> list[generation_pb2.GenerateRequest]:
        """The one of the chat in that place; chats come again after the last."""
        return [
            token_request(
                self.chats[edition % len(self.chats)].token_ids,
                max_new_tokens=self.output_tokens,
                sampling=common_pb2.SamplingParams(
                    temperature=self.temperature,
                    seed=edition,
                    ignore_eos=True,
                    verification=self.verification,
                ),
                speculation=way,
            )
        ]
