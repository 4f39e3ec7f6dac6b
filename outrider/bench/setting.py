"""What is compared: the target alone and one or several ways to speculate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from outrider.v1 import generation_pb2

AUTO = "auto"
MOST_DRAFT_TOKENS = 64
DRAFTER_MARK = ", "
"""Stands in a setting's name between how it speculates and who drafts."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to answer. Its name is its identity."""

    name: str
    mode: generation_pb2.SpeculationMode.ValueType
    draft_length: int | None = None
    """Draft tokens in each round. None: the coordinator chooses."""
    draft_ahead: bool | None = None
    """Whether the draft goes on while the target verifies. None: the coordinator's setting."""
    branches: int | None = None
    """Most side branches of the draft. None: the coordinator chooses."""
    copies: int | None = None
    """Most copied tokens beyond these. None: the coordinator chooses."""
    drafter: str = ""
    """Which of several drafts, by its label. Empty: the one there is."""

    @property
    def speculates(self) -> bool:
        """Whether draft tokens may be used."""
        return self.mode != generation_pb2.SPECULATION_MODE_OFF

    def to_message(self) -> generation_pb2.SpeculationParams:
        """The request's field."""
        return generation_pb2.SpeculationParams(
            mode=self.mode,
            draft_length=self.draft_length,
            draft_ahead=self.draft_ahead,
            branches=self.branches,
            copies=self.copies,
        )


TARGET_ONLY = Setting("target only", generation_pb2.SPECULATION_MODE_OFF)


def parse_settings(draft_lengths: str) -> list[Setting]:
    """Settings from `auto` or draft lengths, parted by commas. Raises ValueError."""
    return list(dict.fromkeys(_setting(word.strip()) for word in draft_lengths.split(",")))


def with_drafters(settings: Sequence[Setting], drafters: Sequence[str]) -> list[Setting]:
    """Each setting with each of these drafts, which are named after it; as it is without any."""
    if not drafters:
        return list(settings)
    return [
        replace(setting, name=f"{setting.name}{DRAFTER_MARK}{drafter}", drafter=drafter)
        for drafter in drafters
        for setting in settings
    ]


def _setting(word: str) -> Setting:
    if word == AUTO:
        return Setting(AUTO, generation_pb2.SPECULATION_MODE_AUTO)
    if not word.isdecimal() or not 1 <= int(word) <= MOST_DRAFT_TOKENS:
        raise ValueError(f"{AUTO} or 1 to {MOST_DRAFT_TOKENS}, several parted by commas")
    return Setting(f"k = {int(word)}", generation_pb2.SPECULATION_MODE_ON, int(word))
