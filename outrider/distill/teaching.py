"""Teaches a student to the end of its schedule: judged on the way, kept on disk, ended early
where nothing is gained any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from outrider.distill.checkpoint import load_checkpoint, read_about, save_checkpoint
from outrider.distill.curve import Point, gains, point_of, write_curve
from outrider.distill.errors import DistillError
from outrider.distill.judging import HeldOut, judge
from outrider.distill.schedule import Schedule
from outrider.distill.training import Training
from outrider.distill.unbroken import unbroken
from outrider.distill.vocabulary import DraftColumns

LAST, LEVEL, CURVE = "last.safetensors", "level.safetensors", "curve.jsonl"
CHECKPOINT_EVERY = 50_000
"""Tokens that are learnt from again after a kill, at most."""
PATIENCE, LEAST_GAIN = 4, 0.002


class Teaching:
    """One student's way, on disk in a folder of its own."""

    def __init__(
        self,
        training: Training,
        held_out: HeldOut,
        *,
        columns: DraftColumns,
        folder: Path,
        judge_every: int,
        about: str,
        choice: str,
        judged: Callable[[Point], None] = lambda point: None,
        learnt: Callable[[int, int], None] = lambda tokens, of: None,
    ) -> None:
        """`about` and `choice`, layers and loss, name all that the way depends on; a folder with
        another way is refused.

        `judged` is told of each point, `learnt` how far it is after each batch.
        """
        self._training = training
        self._held_out = held_out
        self._columns = columns
        self._folder = folder
        self._judge_every = judge_every
        self._about = about
        self._choice = choice
        self._judged = judged
        self._learnt = learnt
        self._planned = training.schedule.tokens
        self._points: list[Point] = []
        self._loss_sum, self._batches = 0.0, 0
        self._cooled = False
        """A step was smaller than those before: it can be gone on with to the end alone."""

    @property
    def points(self) -> list[Point]:
        """The curve so far."""
        return list(self._points)

    def teach(self) -> list[Point]:
        """Goes on from what is on disk, to the end; the curve. Raises DistillError.

        KeyboardInterrupt leaves a checkpoint of this moment.
        """
        self._resume()
        if not self._points:
            self._judge(loss=None)
        begun = self._training.place.tokens
        try:
            self._go_on()
        except KeyboardInterrupt:
            self._keep(begun)
            raise
        self._keep(begun)
        return self.points

    def _keep(self, begun: int) -> None:
        """What is on disk stays as it is where nothing was learnt since."""
        if self._training.place.tokens > begun:
            self._save(LAST)

    def _go_on(self) -> None:
        training = self._training
        saved_at = training.place.tokens
        # What was broken off may have been due to be judged.
        self._judge_if_due()
        while not training.done:
            if not self._cooled and training.place.tokens >= training.schedule.cools_from:
                self._save(LEVEL)
                self._cooled = True
            with unbroken():
                self._loss_sum += training.step()
                self._batches += 1
            tokens = training.place.tokens
            self._learnt(tokens, training.schedule.tokens)
            if self._judge_if_due():
                saved_at = tokens
            elif tokens - saved_at >= CHECKPOINT_EVERY:
                self._save(LAST)
                saved_at = tokens

    def _judge_if_due(self) -> bool:
        tokens, last = self._training.place.tokens, self._points[-1].tokens
        due = tokens // self._judge_every > last // self._judge_every
        if due or (self._training.done and tokens > last):
            self._judge(loss=self._loss_sum / max(1, self._batches))
            return True
        return False

    def _judge(self, *, loss: float | None) -> None:
        training = self._training
        judgement = judge(
            training.student, self._held_out, columns=self._columns, numbers=training.numbers()
        )
        point = Point(training.place.tokens, loss, judgement)
        with unbroken():
            self._points.append(point)
            self._loss_sum, self._batches = 0.0, 0
            self._folder.mkdir(parents=True, exist_ok=True)
            write_curve(self._folder / CURVE, self._points)
            if loss is not None:
                self._end_early()
                self._save(LAST)
        self._judged(point)

    def _end_early(self) -> None:
        """The way down begins at once where the level stretch gains nothing any more."""
        training = self._training
        tokens = training.place.tokens
        if tokens < training.schedule.cools_from and not gains(
            self._points, within=PATIENCE, least=LEAST_GAIN
        ):
            training.schedule = training.schedule.cooling_from(tokens)

    def _save(self, name: str) -> None:
        training = self._training
        extra = {
            "about": self._about,
            "choice": self._choice,
            "planned": self._planned,
            "cooled": self._cooled,
            "schedule_tokens": training.schedule.tokens,
            "points": [point.as_dict() for point in self._points],
            "loss_sum": self._loss_sum,
            "batches": self._batches,
        }
        save_checkpoint(self._folder / name, training, extra)

    def _resume(self) -> None:
        path = self._folder / LAST
        if not path.is_file():
            return
        level = self._folder / LEVEL
        last = read_about(path)
        another_end = last["planned"] != self._planned and last["place"]["tokens"] < self._planned
        if last["cooled"] and another_end and level.is_file():
            # What has cooled can be gone on with to its own end alone.
            path = level
        extra = read_about(path)
        if (extra["about"], extra["choice"]) != (self._about, self._choice):
            raise of_another(self._folder)
        load_checkpoint(path, self._training)
        if extra["planned"] == self._planned:
            self._training.schedule = Schedule(
                self._training.schedule.rate, extra["schedule_tokens"]
            )
        self._cooled = extra["cooled"]
        if self._training.done and not self._cooled:
            raise DistillError(
                f"--tokens: {self._training.place.tokens} were learnt from when it was ended, with "
                f"steps as large as ever: give more, so that they can grow smaller"
            )
        self._points = [point_of(values) for values in extra["points"]]
        self._loss_sum, self._batches = extra["loss_sum"], extra["batches"]


def check_kept(folder: Path, about: str) -> None:
    """Raises DistillError where a way was begun with something else than `about` says, whatever its
    layers and its loss."""
    path = folder / LAST
    if path.is_file() and read_about(path)["about"] != about:
        raise of_another(folder)


def of_another(folder: Path) -> DistillError:
    """What is said of a folder that holds another way."""
    return DistillError(
        f"{folder}: holds the checkpoints of another draft; give another --work, or remove it"
    )
