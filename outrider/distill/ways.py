"""The students that one target may have: each at the beginning of its way, and what names it."""

from __future__ import annotations

import copy
import hashlib
import json
from array import array
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedModel

from outrider.distill.judging import Judgement, judge
from outrider.distill.lesson import Lesson
from outrider.distill.losses import LOSSES
from outrider.distill.material import Material
from outrider.distill.plan import DistillPlan
from outrider.distill.schedule import Schedule
from outrider.distill.student import Student, student_of
from outrider.distill.training import Training
from outrider.distill.vocabulary import DraftColumns
from outrider.engine.file_digest import digest_files
from outrider.engine.loading import LoadedModel


class Ways:
    """Students of one target, whatever their layers and losses."""

    def __init__(
        self,
        plan: DistillPlan,
        network: PreTrainedModel,
        columns: DraftColumns,
        material: Material,
        *,
        target: LoadedModel,
        begun: PreTrainedModel | None = None,
    ) -> None:
        """`network`: the target's, in float32; `begun`: a draft's, to go on from."""
        self._plan = plan
        self._network = network
        self._columns = columns
        self._material = material
        self._target = target
        self._begun = begun
        self._begun_from = plan.begin_from and digest_files(
            sorted(plan.begin_from.glob("*.safetensors"))
        )
        held_out = material.held_out
        self._texts = [
            _digest(lessons) for lessons in (material.lessons, held_out.greedy, held_out.drawn)
        ]

    def training(self, layers: Sequence[int], loss: str, *, tokens: int) -> Training:
        """A new student at the beginning of its way."""
        plan = self._plan
        network = copy.deepcopy(self._begun) if self._begun else student_of(self._network, layers)
        return Training(
            Student(network.to(self._target.device), self._columns.token_ids),
            self._material.lessons,
            columns=self._columns,
            loss=LOSSES[loss],
            schedule=Schedule(plan.learning_rate, tokens),
            batch_tokens=plan.batch_tokens,
            seed=plan.seed,
        )

    def judge(self, training: Training) -> Judgement:
        """Of a student as it is now."""
        return judge(
            training.student,
            self._material.held_out,
            columns=self._columns,
            numbers=training.numbers(),
        )

    def about(self, **more: Any) -> str:
        """Names all that a student's way depends on, its length, layers and loss apart."""
        plan = self._plan
        values = {
            "target": self._target.weights_digest,
            "begun": self._begun_from,
            "texts": self._texts,
            "batch_tokens": plan.batch_tokens,
            "learning_rate": plan.learning_rate,
            "vocabulary": plan.vocabulary,
            "seed": plan.seed,
            **more,
        }
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _digest(lessons: Sequence[Lesson]) -> str:
    digest = hashlib.sha256()
    for lesson in lessons:
        digest.update(array("q", (lesson.begin, *lesson.token_ids)).tobytes())
    return digest.hexdigest()
