"""The two laws under test: the first two tokens, and the transitions of long generations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from random import Random
from typing import Protocol

import torch

from outrider.engine.sampling_options import SamplingOptions
from outrider.testing.exactness.decoding import Decoder, Place, Request, places
from outrider.testing.exactness.fit import fit_p_value
from outrider.testing.exactness.reference import reference_probs
from outrider.testing.exactness.tables import TablePair

_BATCH = 1000


class Seeds(Protocol):
    """Where the seeds of requests come from."""

    def __call__(self, first: int, count: int) -> Sequence[int | None]:
        """The seeds of requests number first … first + count − 1."""
        ...


def numbered_seeds(first: int, count: int) -> Sequence[int]:
    """Every request brings a seed, and they are close to each other: 0, 1, 2, …"""
    return range(first, first + count)


def random_seeds(first: int, count: int) -> Sequence[int]:
    """Each request gets 64 random bits, as a coordinator gives them to one without a seed."""
    random = Random(f"requests from {first}")
    return [random.getrandbits(64) for _ in range(count)]


def no_seeds(first: int, count: int) -> Sequence[None]:
    """No request brings a seed; the decoder under test makes them, so no run repeats another."""
    return [None] * count


class Experiment(Protocol):
    """A sample of outputs and the p-value of its law being the target's."""

    def p_value(self, *, first: int, samples: int) -> float:
        """Draws `samples` tokens or pairs from requests number `first` on."""
        ...


@dataclass(frozen=True, slots=True)
class FirstTwoTokens:
    """The joint law of the first two tokens of one prompt, every cell enumerated."""

    pair: TablePair
    decoder: Decoder
    options: SamplingOptions = field(default_factory=SamplingOptions)
    prompt_token_ids: tuple[int, ...] = (3, 5)
    seeds: Seeds = numbered_seeds

    def p_value(self, *, first: int, samples: int) -> float:
        """One sample is one generation."""
        size = self.pair.vocabulary_size
        counts = [0] * (size * size)
        for batch in _batches(first, samples):
            requests = [
                Request(self.prompt_token_ids, self.options, seed, max_new_tokens=2)
                for seed in self.seeds(batch.start, len(batch))
            ]
            for rounds in self.decoder(requests):
                output = chain.from_iterable(one.output_token_ids for one in rounds)
                one, two = islice(output, 2)
                counts[one * size + two] += 1
        seen = torch.tensor([counts], dtype=torch.float64)
        return fit_p_value(seen, self.expected().reshape(1, -1))

    def expected(self) -> torch.Tensor:
        """[vocabulary, vocabulary]: the probability of each pair."""
        first = self._probs(())
        return torch.stack([prob * self._probs((one,)) for one, prob in enumerate(first)])

    def _probs(self, output_token_ids: tuple[int, ...]) -> torch.Tensor:
        logits = self.pair.target_logits((*self.prompt_token_ids, *output_token_ids))
        probs = reference_probs(
            logits.tolist(),
            self.options,
            prompt_token_ids=self.prompt_token_ids,
            output_token_ids=output_token_ids,
        )
        return torch.tensor(probs, dtype=torch.float64)


@dataclass(frozen=True, slots=True)
class Transitions:
    """What follows each two tokens in generations of 500, split by place in the round.

    For options that read no history. The p-value is the smallest over the places, times their
    number, so that the false-alarm rate is that of one test.
    """

    pair: TablePair
    decoder: Decoder
    options: SamplingOptions = field(default_factory=SamplingOptions)
    prompt_token_ids: tuple[int, ...] = (3, 5)
    seeds: Seeds = numbered_seeds
    generation_length: int = 500

    def p_value(self, *, first: int, samples: int) -> float:
        """One sample is one output token."""
        p_values = self.p_values(first=first, samples=samples)
        return min(1.0, len(p_values) * min(p_values.values()))

    def p_values(self, *, first: int, samples: int) -> dict[Place, float]:
        """The p-value at each place that occurred."""
        size = self.pair.vocabulary_size
        counts: defaultdict[Place, list[int]] = defaultdict(lambda: [0] * size**3)
        for request_seeds in self._seeds(first, samples):
            requests = [
                Request(self.prompt_token_ids, self.options, seed, self.generation_length)
                for seed in request_seeds
            ]
            for rounds in self.decoder(requests):
                a, b = self.prompt_token_ids[-2:]
                output = chain.from_iterable(one.output_token_ids for one in rounds)
                for c, place in zip(output, places(rounds), strict=True):
                    counts[place][(a * size + b) * size + c] += 1
                    a, b = b, c
        expected = self.expected().reshape(-1, size)
        return {
            place: fit_p_value(torch.tensor(seen, dtype=torch.float64).reshape(-1, size), expected)
            for place, seen in counts.items()
        }

    def expected(self) -> torch.Tensor:
        """[vocabulary, vocabulary, vocabulary]: the law after each two tokens."""
        size = self.pair.vocabulary_size
        return torch.tensor(
            [
                [
                    reference_probs(
                        self.pair.target_logits((a, b)).tolist(),
                        self.options,
                        prompt_token_ids=(a, b),
                        output_token_ids=(),
                    )
                    for b in range(size)
                ]
                for a in range(size)
            ],
            dtype=torch.float64,
        )

    def _seeds(self, first: int, samples: int) -> Iterator[Sequence[int | None]]:
        for batch in _batches(first, samples // self.generation_length):
            yield self.seeds(batch.start, len(batch))


def _batches(first: int, count: int) -> Iterator[range]:
    for start in range(first, first + count, _BATCH):
        yield range(start, min(start + _BATCH, first + count))
