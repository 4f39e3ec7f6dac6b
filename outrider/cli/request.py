"""From the options of `outrider generate` to a GenerateRequest.

Ranges are the server's to check: it names the field and what is allowed. Only what cannot be put
into a message, or contradicts itself, is refused here.
"""

from __future__ import annotations

from dataclasses import dataclass

from outrider.cli.verification import VerificationChoice
from outrider.v1 import common_pb2, generation_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """Options of sampling; None: not given, which is never the same as 0."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    verification: VerificationChoice = VerificationChoice.AUTO

    def to_message(self) -> common_pb2.SamplingParams:
        """Only given options are set."""
        return common_pb2.SamplingParams(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            seed=self.seed,
            verification=self.verification.message,
        )


def chat_prompt(text: str, *, system: str | None) -> generation_pb2.ChatPrompt:
    """One user message, after the instructions if there are any."""
    messages = [generation_pb2.ChatMessage(role=generation_pb2.CHAT_ROLE_USER, content=text)]
    if system is not None:
        role = generation_pb2.CHAT_ROLE_SYSTEM
        messages.insert(0, generation_pb2.ChatMessage(role=role, content=system))
    return generation_pb2.ChatPrompt(messages=messages)


def speculation_params(
    *,
    mode: generation_pb2.SpeculationMode.ValueType,
    draft_length: int | None = None,
    draft_ahead: bool | None = None,
    branches: int | None = None,
    copies: int | None = None,
) -> generation_pb2.SpeculationParams:
    """Only what is given is set; the rest is left to the coordinator."""
    return generation_pb2.SpeculationParams(
        mode=mode,
        draft_length=draft_length,
        draft_ahead=draft_ahead,
        branches=branches,
        copies=copies,
    )
