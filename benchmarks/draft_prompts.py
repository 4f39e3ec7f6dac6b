"""Prompts that the embedded draft learns from: many of each kind of task, put together by chance.

None of them is a built-in prompt of `outrider bench`: those are what the draft is judged by.
`python -m benchmarks.draft_prompts 8000 > prompts.jsonl`
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping

from benchmarks.draft_prompt_words import (
    ANIMALS,
    ASKS,
    CITIES,
    COMPANIES,
    COUNTRIES,
    DISHES,
    EVENTS,
    FIRST,
    FOODS,
    FORMS,
    FRUITS,
    FUNCTIONS,
    GOODS,
    HEROES,
    INSTRUMENTS,
    LANGUAGES,
    LAST,
    MONTHS,
    PAGES,
    PERSONS,
    PLACES,
    POETIC,
    PROGRAMS,
    QUERIES,
    QUESTIONS,
    REPAIRS,
    ROLES,
    SNIPPETS,
    SUBJECTS,
    TABLES,
    THINGS,
    TONGUES,
)


class Chance:
    """What the pieces of a prompt are drawn with."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def one(self, choices: tuple[str, ...]) -> str:
        """Any of them."""
        return self._random.choice(choices)

    def some(self, choices: tuple[str, ...], least: int, most: int) -> list[str]:
        """Different ones, in any order."""
        count = min(len(choices), self.number(least, most))
        return self._random.sample(list(dict.fromkeys(choices)), count)

    def number(self, least: int, most: int) -> int:
        """From `least` to `most`."""
        return self._random.randint(least, most)

    @property
    def name(self) -> str:
        """A person's."""
        return f"{self.one(FIRST)} {self.one(LAST)}"

    @property
    def day(self) -> str:
        """A date in words."""
        return f"{self.number(1, 28)} {self.one(MONTHS)} {self.number(2015, 2025)}"

    @property
    def price(self) -> str:
        """With two places."""
        return f"{self.number(1, 60)}.{self.number(0, 99):02d}"


def code(chance: Chance) -> str:
    """A task of programming."""
    kind = chance.number(0, 9)
    language = chance.one(LANGUAGES)
    if kind < 4:
        what = chance.one(FUNCTIONS).format(chance.one(THINGS))
        return f"Write a {language} function that {what}."
    if kind < 6:
        ask = chance.one(("Write a {} program that {}.", "Write {} code that {}.",
                          "Show me a {} function that {}.",
                          "In {}, write a class that {}."))  # fmt: skip
        return ask.format(language, chance.one(PROGRAMS))
    if kind < 7:
        table, query = chance.one(TABLES), chance.one(QUERIES)
        return f"Write an SQL query that {query}. The table is {table}."
    if kind < 8:
        ask = chance.one(("Write HTML for {}.", "Write HTML and CSS for {}.",
                          "Make {} with HTML and a little JavaScript."))  # fmt: skip
        return ask.format(chance.one(PAGES))
    return f"{chance.one(REPAIRS)}\n\n{chance.one(SNIPPETS)}"


def person(chance: Chance) -> str:
    """A few sentences about somebody."""
    name, company, role, city = (
        chance.name, chance.one(COMPANIES), chance.one(ROLES), chance.one(CITIES),
    )  # fmt: skip
    return chance.one((
        f"{name} works as a {role} at {company} in {city} since {chance.day}.",
        f"My name is {name}. I live in {city} and I am a {role} at {company}.",
        f"On {chance.day}, {company} of {city} hired {name} as its new {role}.",
        f"Please call {name}, the {role} of {company}, at our office in {city}.",
        f"{name}, {chance.number(21, 64)}, moved from {city} to {chance.one(CITIES)} to become "
        f"a {role} at {company}.",
    ))  # fmt: skip


def order(chance: Chance) -> str:
    """An order of goods."""
    goods = chance.some(GOODS, 2, 5)
    items = [f"{chance.number(1, 300)} {each} at {chance.price} each" for each in goods]
    return f"We would like to order {', '.join(items[:-1])} and {items[-1]}."


def events(chance: Chance) -> str:
    """Sentences with dates and amounts."""
    lines = (
        f"The meeting took place on {chance.day} in {chance.one(CITIES)}.",
        f"{chance.name} paid {chance.number(20, 9000)} dollars on {chance.day}.",
        f"The bridge was opened on {chance.day} and closed again on {chance.day}.",
        f"{chance.name} met {chance.name} in {chance.one(CITIES)}.",
        f"{chance.one(COMPANIES)} sold {chance.number(2, 900)} {chance.one(GOODS)} "
        f"in {chance.one(MONTHS)}.",
        f"The train to {chance.one(CITIES)} leaves at "
        f"{chance.number(6, 22)}:{chance.number(10, 59)}.",
        f"The rent of {chance.number(300, 2000)} dollars is due on {chance.day}.",
    )  # fmt: skip
    return " ".join(chance.some(lines, 2, 5))


def extraction(chance: Chance) -> str:
    """A text, and what is to be taken from it or changed in it."""
    kind = chance.number(0, 9)
    if kind < 2:
        keys = chance.one(("name, role and city", "name, company and role", "person and company",
                           "name, city and company", "name and role"))  # fmt: skip
        ask = chance.one((f"Answer with JSON only, with the keys {keys}.",
                          f"Extract {keys} from this text as JSON.",
                          f"Make a JSON object with {keys}."))  # fmt: skip
        return f"{ask}\n\n{person(chance)}"
    if kind < 3:
        ask = chance.one(("Make a Markdown table of this order.", "Turn this order into a CSV.",
                          "List the items of this order, one a line.",
                          "Give each item, its quantity and its price as JSON."))  # fmt: skip
        return f"{ask}\n\n{order(chance)}"
    if kind < 5:
        ask = chance.one(("List all dates in this text.", "List all names in this text.",
                          "Which places are named in this text?",
                          "List every amount in this text.",
                          "Who did what? Answer in a list.",
                          "Give the first date in this text."))  # fmt: skip
        return f"{ask}\n\n{events(chance)}"
    if kind < 6:
        words = ", ".join(chance.some(FRUITS, 5, 12))
        ask = chance.one(("Sort these words.", "Write these words one a line.",
                          "Put these words in alphabetical order.", "Number these words.",
                          "Repeat these words in capital letters.",
                          "Turn this list into JSON."))  # fmt: skip
        return f"{ask}\n\n{words}"
    text = f"{events(chance)} {person(chance)}"
    ask = chance.one((
        "Repeat this text word for word.", "Copy this paragraph exactly.",
        "Correct the spelling of this text and change nothing else.",
        f"Repeat this text, with every year changed to {chance.number(1990, 2030)}.",
        "Repeat this text and replace each name by X.",
        "Rewrite this text as a list of sentences.",
        "Summarise this text in one sentence.", "Translate nothing, just repeat this text:",
        "Rewrite this text in the past tense.", "Put this text in quotation marks.",
    ))  # fmt: skip
    return f"{ask}\n\n{text}"


def chat(chance: Chance) -> str:
    """A question as people ask it."""
    if chance.number(0, 2):
        return chance.one(QUESTIONS).format(chance.one(SUBJECTS))
    foods = chance.some(FOODS, 3, 3)
    return chance.one(ASKS).format(
        country=chance.one(COUNTRIES), city=chance.one(CITIES), other=chance.one(CITIES),
        role=chance.one(ROLES), day=chance.day, name=chance.one(FIRST), month=chance.one(MONTHS),
        number=chance.number(5, 40), animal=chance.one(ANIMALS), a=chance.number(3, 400),
        b=chance.number(2, 12), tongue=chance.one(TONGUES), food=foods[0], food2=foods[1],
        food3=foods[2], person=chance.one(PERSONS), dish=chance.one(DISHES),
        instrument=chance.one(INSTRUMENTS),
    )  # fmt: skip


def story(chance: Chance) -> str:
    """Something to be told."""
    named = {"name": chance.one(FIRST), "animal": chance.one(ANIMALS), "city": chance.one(CITIES)}
    return chance.one(FORMS).format(
        hero=chance.one(HEROES).format(**named), hero2=chance.one(HEROES).format(**named),
        place=chance.one(PLACES).format(**named), event=chance.one(EVENTS),
        animal=named["animal"], thing=chance.one(POETIC),
    )  # fmt: skip


KINDS: Mapping[str, Callable[[Chance], str]] = {
    "code": code, "extraction": extraction, "chat": chat, "story": story,
}  # fmt: skip


TRIES = 1000
"""So often the same prompts come up before they are taken for all there are."""


def prompts(count: int, *, seed: int = 0) -> Iterator[tuple[str, str]]:
    """`count` different ones with their kinds, the kinds in turn. ValueError: no more are found."""
    chance = Chance(seed)
    seen: set[str] = set()
    kinds = list(KINDS)
    while len(seen) < count:
        kind = kinds[len(seen) % len(kinds)]
        tried = (KINDS[kind](chance) for _ in range(TRIES))
        prompt = next((one for one in tried if one not in seen), None)
        if prompt is None:
            raise ValueError(f"after {len(seen)} prompts no other one of the kind {kind} is found")
        seen.add(prompt)
        yield kind, prompt


if __name__ == "__main__":
    for kind, prompt in prompts(int(sys.argv[1])):
        print(json.dumps({"kind": kind, "prompt": prompt}))
