"""What to set, by what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from outrider.bench.cell import Cell
from outrider.bench.finding import SELDOM, at_once, drafted_share
from outrider.bench.setting import AUTO, DRAFTER_MARK, TARGET_ONLY
from outrider.bench.statistics import Estimate

AUTO_IS_WORTH = 0.03
"""`auto` may be slower by this share than the best fixed draft length and is recommended still: it
goes on measuring when load and prompts change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to set where the draft is so far away."""

    round_trip_ms: float | None
    summary: str
    judged: str
    """The best of the settings that speculate: what the summary is about."""
    recommended: str
    """A setting's name; empty: the figures recommend none."""
    environment: str
    """The variables of the coordinator that make it so; empty: as recommended."""


def advise(round_trip_ms: float | None, cells: Sequence[Cell]) -> Advice:
    """By the cells of one round trip."""
    by_setting: dict[str, dict[int, Estimate]] = {}
    for one in cells:
        if one.versus is not None:
            speeds = by_setting.setdefault(one.setting, {})
            speeds[one.place.concurrency] = one.versus.speed
    best = recommended = _best(by_setting)
    speeds = by_setting[best]
    gains = [load for load, speed in speeds.items() if speed.above_one]
    losses = [load for load, speed in speeds.items() if speed.below_one]
    unsure = [load for load, speed in speeds.items() if not speed.certain]
    mean = _mean(speeds)
    if gains and not losses:
        summary = f"Speculate, with {best}: {mean:.2f} × on average over all loads."
        if unsure:
            summary += f" With {_list(unsure)} the difference is noise."
    elif gains:
        summary = (
            f"Speculate, with {best}, where the load is {_list(gains)}; with {_list(losses)} "
            "the target alone is faster."
        )
    elif losses:
        summary = (
            f"Do not speculate: even {best}, the best setting, is slower with {_list(losses)}."
        )
        recommended = TARGET_ONLY.name
    elif any(speed.low is None for speed in speeds.values()):
        summary = (
            f"Too few turns to tell: {best} was {mean:.2f} × the target alone on average. "
            "Measure longer."
        )
        recommended = ""
    elif _way(best) == AUTO and all(
        drafted_share(one) < SELDOM for one in cells if one.setting == best
    ):
        summary = (
            f"Drafts did not pay: {best} let the target decode nearly alone, {mean:.2f} × on "
            "average, within noise. Measure longer, or save the draft's memory."
        )
        recommended = ""
    else:
        summary = (
            f"This run cannot tell speculation from plain decoding: {best} was {mean:.2f} × on "
            "average, within noise. Measure longer, or save the draft's memory."
        )
        recommended = ""
    return Advice(
        round_trip_ms=round_trip_ms,
        summary=summary,
        judged=best,
        recommended=recommended,
        environment=_environment(recommended),
    )


def _best(by_setting: Mapping[str, Mapping[int, Estimate]]) -> str:
    ranked = sorted(by_setting, key=lambda name: -_mean(by_setting[name]))
    best = ranked[0]
    enough = (1.0 - AUTO_IS_WORTH) * _mean(by_setting[best])
    # `ranked` has the best one of several drafters first.
    return next(
        (name for name in ranked if _way(name) == AUTO and _mean(by_setting[name]) >= enough), best
    )


def _way(setting: str) -> str:
    """How it speculates, whoever drafts."""
    return setting.partition(DRAFTER_MARK)[0]


def _mean(speeds: Mapping[int, Estimate]) -> float:
    """Geometric, as is right for ratios."""
    return prod(speed.median for speed in speeds.values()) ** (1 / len(speeds))


def _list(loads: Sequence[int]) -> str:
    words = [at_once(load) for load in loads]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _environment(setting: str) -> str:
    if not setting:
        return ""
    if setting == TARGET_ONLY.name:
        return "OUTRIDER_SPECULATION=off"
    way = _way(setting)
    if way == AUTO:
        return "OUTRIDER_SPECULATION=auto OUTRIDER_DRAFT_LENGTH=auto"
    return f"OUTRIDER_SPECULATION=on OUTRIDER_DRAFT_LENGTH={way.removeprefix('k = ')}"
