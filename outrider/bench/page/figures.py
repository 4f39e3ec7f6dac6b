"""The drawn part of the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from outrider.bench.cell import MILLISECONDS, Place
from outrider.bench.finding import where
from outrider.bench.observation import Observation
from outrider.bench.page.acceptance_plot import acceptance_plot
from outrider.bench.page.elements import box, figure, heading, legend, paragraph
from outrider.bench.page.load_plot import load_plot
from outrider.bench.page.share_plot import share_plot
from outrider.bench.page.speed_plot import speed_plot
from outrider.bench.page.time_plot import PARTS, time_plot
from outrider.bench.result import Result
from outrider.bench.rounds import rounds_of
from outrider.bench.turn import Turn


def figures(result: Result) -> Iterator[str]:
    """Every figure, the one that answers the question first."""
    names = result.terms.settings
    colours = legend((f"s{index}", name) for index, name in enumerate(names))
    speculating = legend((f"s{index}", name) for index, name in enumerate(names) if index)
    yield heading("How fast")
    for trip in dict.fromkeys(one.place.round_trip_ms for one in result.cells):
        cells = [one for one in result.cells if one.place.round_trip_ms == trip]
        away = "" if trip is None else f", draft {trip:g} ms away"
        speeds = figure(
            speed_plot(cells, names),
            title=f"Speed against the target alone{away}",
            caption="Tokens per second, the same requests turn by turn: median of the ratios, and "
            "the interval that holds the true one with 95 %. An interval across 1 is noise.",
            legend=speculating,
        )
        loads = figure(
            load_plot(cells, names),
            title=f"Tokens per second{away}",
            caption="Of all generations together, prompts included; whiskers are 95 % intervals.",
            legend=colours,
        )
        yield box("pair", (speeds, loads))
    yield heading("How long people wait")
    yield paragraph(
        "Share (%) of requests, or of tokens, that took no longer. A curve of gaps that begins "
        "high: so many tokens came together with the one before.",
        "soft",
    )
    yield colours
    for place, turns in result.measurements.turns.items():
        yield figure(_waits(turns, result), title=where(place).capitalize())
    yield heading("Why")
    acceptance = figure(
        acceptance_plot(_acceptance(result)),
        title="Acceptance by position",
        caption="Share (%) of the rounds with a draft token at a place in which it was accepted, "
        "all before it included; all loads together.",
        legend=speculating,
    )
    times = figure(
        time_plot(result.cells),
        title="Where the time of an output token goes",
        caption="Rounds after the first, divided by the tokens they brought. Drafting that goes on "
        "while the target verifies costs nothing here.",
        legend=legend((f"part-{name}", meaning) for name, meaning in PARTS),
    )
    yield box("pair", (acceptance, times))


def _waits(turns: list[Turn], result: Result) -> str:
    seen = _by_setting({None: turns}, result)
    latency = {name: [one.latency_s * MILLISECONDS for one in mine] for name, mine in seen.items()}
    first = {
        name: [one.first_token_s * MILLISECONDS for one in mine if one.first_token_s is not None]
        for name, mine in seen.items()
    }
    gaps = {
        name: [gap * MILLISECONDS for one in mine for gap in one.token_gaps_s]
        for name, mine in seen.items()
    }
    plots = (
        share_plot(latency, name="whole answer, ms"),
        share_plot(first, name="first token, ms"),
        share_plot(gaps, name="gap between tokens, ms"),
    )
    return box("row", plots)


def _acceptance(result: Result) -> Mapping[str, list[float]]:
    seen = _by_setting(result.measurements.turns, result)
    return {name: rounds_of(mine).acceptance_by_position for name, mine in seen.items()}


def _by_setting(
    turns: Mapping[Place, list[Turn]] | Mapping[None, list[Turn]], result: Result
) -> dict[str, list[Observation]]:
    """In the order of the settings, which is that of their colours."""
    seen: dict[str, list[Observation]] = {name: [] for name in result.terms.settings}
    for of_place in turns.values():
        for turn in of_place:
            for stint in turn.stints:
                seen[stint.setting.name].extend(stint.observations)
    return seen
