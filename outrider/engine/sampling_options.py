"""How the next token's distribution is shaped: the plain values, defaults resolved."""

from __future__ import annotations

from dataclasses import dataclass, field

GREEDY_TEMPERATURE = 1e-5


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """Sampling options of one request with every default in its place."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    min_tokens: int = 0
    logit_bias: dict[int, float] = field(default_factory=dict)
    stop_token_ids: tuple[int, ...] = ()

    @property
    def greedy(self) -> bool:
        """The most likely token is always taken."""
        return self.temperature <= GREEDY_TEMPERATURE
