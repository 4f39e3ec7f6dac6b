"""Where the output of `outrider generate` goes: text as it comes, or one JSON object."""

from __future__ import annotations

import json
from typing import Protocol, TextIO

from outrider.cli.plain import plain
from outrider.cli.speculation import SpeculationFigures
from outrider.cli.terminal import TextOutput
from outrider.v1 import generation_pb2


class Output(Protocol):
    """Takes the events of one generation in their order."""

    def chunk(self, chunk: generation_pb2.OutputChunk) -> None:
        """Takes new tokens and text."""

    def summary(self, summary: generation_pb2.GenerationSummary) -> None:
        """Takes the end."""

    def break_off(self) -> None:
        """There will be no end."""


class StreamedText:
    """Text at once, and nothing but text."""

    def __init__(self, stream: TextIO) -> None:
        self._text = TextOutput(stream)

    def chunk(self, chunk: generation_pb2.OutputChunk) -> None:
        """Shows the chunk's text."""
        self._text.write(chunk.text)

    def summary(self, summary: generation_pb2.GenerationSummary) -> None:
        """Shows the text held back so far."""
        self._text.write(summary.text)
        self._text.finish()

    def break_off(self) -> None:
        """Leaves a terminal at the start of a line."""
        self._text.finish()


class JsonObject:
    """One object when all is known; nothing when the generation breaks off."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text: list[str] = []
        self._token_ids: list[int] = []

    def chunk(self, chunk: generation_pb2.OutputChunk) -> None:
        """Keeps ids and text."""
        self._text.append(chunk.text)
        self._token_ids.extend(chunk.token_ids)

    def summary(self, summary: generation_pb2.GenerationSummary) -> None:
        """Prints the object, on one line."""
        facts = plain(summary)
        figures = SpeculationFigures(summary.speculation)
        report = {
            "text": "".join(self._text) + summary.text,
            "token_ids": self._token_ids,
            "finish_reason": facts["finish_reason"],
            "usage": facts["usage"],
            "speculation": {
                **facts["speculation"],
                "acceptance_rate": figures.acceptance,
                "tokens_per_s": figures.tokens_per_s,
            },
            "seed": facts["seed"],
            "model": facts["model"],
            "reproducible": facts["reproducible"],
            "trace_id": facts["trace_id"],
        }
        self._stream.write(json.dumps(report, ensure_ascii=False) + "\n")
        self._stream.flush()

    def break_off(self) -> None:
        """Prints nothing: half an object is worse than none."""
