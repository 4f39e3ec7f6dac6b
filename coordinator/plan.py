"""What one generation is to do, with every default decided."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.cache_scope import cache_scope
from coordinator.draft_plan import SpeculationTerms
from outrider.v1 import common_pb2

GREEDY_TEMPERATURE = 1e-5


@dataclass(frozen=True, slots=True)
class GenerationPlan:
    """One generation, checked and ready to run.

    `continued_token_ids` are the ids that the output's text continues: those of a text prompt,
    and none after a chat or ids, whose answer is a text of its own. `sampling` is what the target
    gets in its Open: the seed is set and `stop_token_ids` holds the EOS ids unless they are to be
    ignored. `speculation` None: the target decodes alone. `tenant`: whose request it is; empty
    where callers show no key.
    """

    prompt_token_ids: tuple[int, ...]
    resumed_token_ids: tuple[int, ...]
    max_new_tokens: int
    continued_token_ids: tuple[int, ...]
    sampling: common_pb2.SamplingParams
    speculation: SpeculationTerms | None
    tenant: str = ""

    @property
    def cache_scope(self) -> bytes:
        """Which generations may share cached state with this one: those of the same tenant."""
        return cache_scope(self.tenant)

    @property
    def seed(self) -> int:
        """The request's seed, given or made."""
        return self.sampling.seed

    @property
    def greedy(self) -> bool:
        """The most likely token is always taken."""
        return is_greedy(self.sampling)

    @property
    def coupled(self) -> bool:
        """The target's own choices are the output, whatever the draft proposes."""
        return is_coupled(self.sampling)

    @property
    def stop_token_ids(self) -> frozenset[int]:
        """Ids that end the output, EOS included unless ignored."""
        return frozenset(self.sampling.stop_token_ids)

    @property
    def length_limit(self) -> int:
        """How long prompt and output may become together."""
        return len(self.prompt_token_ids) + self.max_new_tokens


def is_greedy(sampling: common_pb2.SamplingParams) -> bool:
    """The most likely token is always taken."""
    return sampling.HasField("temperature") and sampling.temperature <= GREEDY_TEMPERATURE


def is_coupled(sampling: common_pb2.SamplingParams) -> bool:
    """Draft tokens are judged by COUPLED; the rule is set."""
    return sampling.verification == common_pb2.VERIFICATION_COUPLED
