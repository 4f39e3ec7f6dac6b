"""The same prompts with and without a draft on the same server, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median

from rich import box
from rich.table import Table
from rich.text import Text

from outrider.cli.chat_fallback import generate_chat
from outrider.cli.figures import number, percent
from outrider.cli.request import SamplingOptions, chat_prompt, speculation_params
from outrider.cli.speculation import SpeculationFigures
from outrider.cli.speculation_options import DraftLengthChoice, fixed_length
from outrider.client import Client
from outrider.v1 import generation_pb2


@dataclass(frozen=True, slots=True)
class Task:
    """A prompt and what kind of text it asks for."""

    name: str
    prompt: str


@dataclass(frozen=True, slots=True)
class Run:
    """One generation."""

    token_ids: tuple[int, ...]
    summary: generation_pb2.GenerationSummary

    @property
    def figures(self) -> SpeculationFigures:
        """What its statistics say."""
        return SpeculationFigures(self.summary.speculation)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One task, once with draft tokens and once by the target alone."""

    task: Task
    with_draft: Run
    target_only: Run

    @property
    def ratio(self) -> float | None:
        """Speed with draft tokens ÷ speed without."""
        fast, slow = self.with_draft.figures.tokens_per_s, self.target_only.figures.tokens_per_s
        return fast / slow if fast is not None and slow else None

    @property
    def first_difference(self) -> int | None:
        """Index of the first output token in which both differ; None when they are equal."""
        ours, theirs = self.with_draft.token_ids, self.target_only.token_ids
        if ours == theirs:
            return None
        pairs = enumerate(zip(ours, theirs, strict=False))
        shorter = min(len(ours), len(theirs))
        return next((place for place, (one, other) in pairs if one != other), shorter)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What is equal in both runs of a task."""

    sampling: SamplingOptions
    max_new_tokens: int
    draft_length: DraftLengthChoice | None
    """A number is used in every round; otherwise drafts are used as long as they pay."""


class Comparer:
    """Runs tasks on one server."""

    def __init__(self, client: Client, options: RunOptions) -> None:
        self._client = client
        self._options = options

    def with_draft(self, task: Task, on_text: Callable[[str], None]) -> Run:
        """Runs with draft tokens; `on_text` gets the text as it comes."""
        chosen = fixed_length(self._options.draft_length) is None
        mode = (
            generation_pb2.SPECULATION_MODE_AUTO if chosen else generation_pb2.SPECULATION_MODE_ON
        )
        return self._run(task, mode, on_text)

    def target_only(self, task: Task) -> Run:
        """Runs without draft tokens."""
        return self._run(task, generation_pb2.SPECULATION_MODE_OFF, lambda _: None)

    def _run(
        self,
        task: Task,
        mode: generation_pb2.SpeculationMode.ValueType,
        on_text: Callable[[str], None],
    ) -> Run:
        speculates = mode != generation_pb2.SPECULATION_MODE_OFF
        length = fixed_length(self._options.draft_length) if speculates else None
        request = generation_pb2.GenerateRequest(
            chat=chat_prompt(task.prompt, system=None),
            max_new_tokens=self._options.max_new_tokens,
            sampling=self._options.sampling.to_message(),
            speculation=speculation_params(mode=mode, draft_length=length),
        )
        token_ids: list[int] = []
        with closing(generate_chat(self._client, request, lambda: None)) as events:
            for event in events:
                on_text(event.text)
                if isinstance(event, generation_pb2.GenerationSummary):
                    return Run(tuple(token_ids), event)
                token_ids.extend(event.token_ids)
        raise AssertionError("a generation ends with its summary or an error")


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """One row for each task and one of medians. Speeds leave out the first token."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_footer=True)
    rows = [list(_figures(comparison)) for comparison in comparisons]
    medians = [_median(column) for column in zip(*rows, strict=True)]
    table.add_column("task", Text("median"))
    for (heading, worded), figure in zip(COLUMNS, medians, strict=True):
        table.add_column(heading, Text(worded(figure)), justify="right")
    table.add_column("outputs", Text(""))
    for comparison, row in zip(comparisons, rows, strict=True):
        cells = (worded(figure) for (_, worded), figure in zip(COLUMNS, row, strict=True))
        table.add_row(
            comparison.task.name, *(Text(cell) for cell in cells), Text(_agreement(comparison))
        )
    return table


def _tokens(value: float | None) -> str:
    return number(value, digits=2)


def _ratio(value: float | None) -> str:
    return f"{number(value, digits=2)} ×"


COLUMNS: tuple[tuple[str, Callable[[float | None], str]], ...] = (
    ("acceptance", percent),
    ("tokens\nper round", _tokens),
    ("tokens/s\nwith draft", number),
    ("tokens/s\nwithout", number),
    ("speed", _ratio),
)


def _figures(comparison: Comparison) -> Iterator[float | None]:
    """In the order of COLUMNS."""
    ours, theirs = comparison.with_draft, comparison.target_only
    yield ours.figures.acceptance
    yield ours.summary.speculation.mean_output_tokens_per_round
    yield ours.figures.tokens_per_s
    yield theirs.figures.tokens_per_s
    yield comparison.ratio


def _median(column: Sequence[float | None]) -> float | None:
    known = [figure for figure in column if figure is not None]
    return median(known) if known else None


def _agreement(comparison: Comparison) -> str:
    place = comparison.first_difference
    return "equal" if place is None else f"differ at {place + 1}"
