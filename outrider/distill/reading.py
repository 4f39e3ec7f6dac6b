"""Has the target read the user's own text, and notes what it would have said at each place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from outrider.distill.chat_form import ChatForm
from outrider.distill.errors import DistillError
from outrider.distill.lesson import Lesson, laws_of
from outrider.engine.model import Chunk, Model

SHORTEST = 16
"""Ids; shorter texts teach nothing."""
PARAGRAPH = "\n\n"


def texts_of(path: Path, form: ChatForm, *, longest: int) -> list[list[int]]:
    """A file's text in token ids, cut into pieces of at most `longest`. Raises DistillError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DistillError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DistillError(f"{path}: is not UTF-8 at byte {error.start}") from None
    # Paragraph by paragraph: tokenizers take long for a text of megabytes in one piece.
    pieces: list[list[int]] = [[]]
    for part in text.split(PARAGRAPH):
        for token_id in form.text(part + PARAGRAPH) if part.strip() else ():
            if len(pieces[-1]) == longest:
                pieces.append([])
            pieces[-1].append(token_id)
    pieces = [piece for piece in pieces if len(piece) >= SHORTEST]
    if not pieces:
        raise DistillError(f"{path}: no text in it: {SHORTEST} tokens at least are needed")
    return pieces


def read(
    model: Model,
    texts: Sequence[Sequence[int]],
    *,
    at_once: int = 1,
    progress: Callable[[int], None] = lambda ids: None,
) -> list[Lesson]:
    """Lessons on texts of at least two ids; `at_once` of them share a forward. `progress` is told
    how many ids were read after each forward."""
    lessons: list[Lesson] = []
    done = 0
    for group in _groups(texts, at_once):
        states = [model.new_sequence() for _ in group]
        rows = model.forward(
            [
                Chunk(state, text[:-1], rows=len(text) - 1)
                for state, text in zip(states, group, strict=True)
            ]
        )
        for state, text, logits in zip(states, group, rows, strict=True):
            state.clear()
            lessons.append(Lesson(list(text), 1, *laws_of(logits)))
            done += len(text)
        progress(done)
    return lessons


def _groups(texts: Sequence[Sequence[int]], count: int) -> Iterator[Sequence[Sequence[int]]]:
    for start in range(0, len(texts), count):
        yield texts[start : start + count]
