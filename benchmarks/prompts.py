"""Prompts of different kinds, as chats, and how far one of them is to be answered."""

from __future__ import annotations

from benchmarks.ways import Way
from outrider.cli.request import SamplingOptions, chat_prompt
from outrider.v1 import common_pb2, generation_pb2

PROMPTS = (
    "Write a Python function that returns the first n prime numbers.",
    "Explain why the sky is blue.",
    "Tell a short story about a lighthouse keeper and a storm.",
    "List ten European countries with their capitals.",
    "How do I cook a simple tomato soup?",
    "Write an email that asks a colleague to review a report.",
)

SUBJECTS = (
    "the water cycle",
    "a bicycle",
    "the French revolution",
    "photosynthesis",
    "a good night's sleep",
    "the number pi",
    "learning the piano",
    "the history of tea",
    "a trip to the mountains",
    "sorting a list",
)
REQUESTS = (
    "Explain {} to a child.",
    "Write a short poem about {}.",
    "Give me five facts about {}.",
    "Write a dialogue between two friends about {}.",
    "What is the most common mistake about {}?",
    "Summarise in three sentences what matters about {}.",
    "Write a Python class that has something to do with {}.",
    "Write the first paragraph of a story about {}.",
    "Name three books or films about {} and say why.",
    "What questions would you ask an expert on {}?",
    "Compare {} with something quite different.",
    "Write a shopping list for somebody interested in {}.",
    "Draw up a plan for a lesson about {}.",
    "Invent a riddle about {}.",
    "Write a letter to the editor about {}.",
    "What will {} be like in a hundred years?",
    "Tell me a joke about {}.",
    "Which numbers should one know about {}?",
    "Write a review of {} with two stars.",
    "Describe {} without using its name.",
)


def many_prompts(count: int) -> list[str]:
    """`count` different prompts, 200 at most."""
    every = [request.format(subject) for request in REQUESTS for subject in SUBJECTS]
    if count > len(every):
        raise ValueError(f"there are {len(every)} prompts")
    # Neighbours differ in both, so that a small count still has every kind.
    return [every[(place * 21) % len(every)] for place in range(count)]


def chat_request(
    prompt: str,
    *,
    max_new_tokens: int,
    way: Way,
    temperature: float,
    seed: int = 1,
    verification: common_pb2.Verification.ValueType = common_pb2.VERIFICATION_REJECTION,
) -> generation_pb2.GenerateRequest:
    """An answer of exactly `max_new_tokens`: EOS does not end it."""
    sampling: common_pb2.SamplingParams = SamplingOptions(
        temperature=temperature, seed=seed
    ).to_message()
    sampling.ignore_eos, sampling.verification = True, verification
    return generation_pb2.GenerateRequest(
        chat=chat_prompt(prompt, system=None),
        max_new_tokens=max_new_tokens,
        sampling=sampling,
        speculation=way,
    )
