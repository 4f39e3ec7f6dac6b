"""From a target to a draft: texts, choices, teaching, a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import PreTrainedModel

from outrider.distill.begun import layer_ways, with_draft_files
from outrider.distill.card import CardFacts, card
from outrider.distill.chat_form import ChatForm
from outrider.distill.curve import Point
from outrider.distill.draft_folder import check_out, write_draft
from outrider.distill.events import Events
from outrider.distill.folders import alone_in, check_writable
from outrider.distill.judging import Judgement
from outrider.distill.losses import LOSSES
from outrider.distill.material import Gathering, Material
from outrider.distill.plan import AUTO, DistillPlan
from outrider.distill.snapshot import served
from outrider.distill.student import (
    Student,
    check_network,
    layer_stack,
    load_student,
)
from outrider.distill.teaching import Teaching, check_kept
from outrider.distill.training import Training
from outrider.distill.trials import Teach, Trials, Tried
from outrider.distill.trying import SLACK, VerifiedBothWays, try_draft
from outrider.distill.vocabulary import DraftColumns, frequent_ids
from outrider.distill.ways import Ways
from outrider.engine.loading import LoadedModel, load_model, load_network
from outrider.engine.number_type import choose_number_type

FIRST_LOSS = "forward-kl"
"""What layers are compared with."""


class Distillation:
    """Makes one draft. Whatever is done stays on disk; another run goes on from there."""

    def __init__(self, plan: DistillPlan, *, cache_dir: Path, events: Events) -> None:
        """Loads the target. Raises DistillError and ModelLoadError before anything is made."""
        check_out(plan.out)
        check_writable(plan.work)
        plan = with_draft_files(plan, cache_dir, events.stage)
        self._plan = plan
        self._events = events
        self._verified = 0
        self._target: LoadedModel = load_model(
            plan.target,
            role="target",
            cache_dir=cache_dir,
            dtype=plan.dtype,
            device=plan.device,
            threads=plan.threads,
            progress=events.stage,
        )
        self._network = load_network(plan.target, cache_dir=cache_dir)
        check_network(self._network, plan.target)
        self._of = layer_stack(self._network)[1]
        self._layers = layer_ways(plan, self._of)
        self._begun: PreTrainedModel | None = None
        if plan.begin_from is not None:
            self._begun = load_student(plan.begin_from, self._network)
            check_network(self._begun, str(plan.begin_from))
        self._form = ChatForm(self._target.folder)
        self._gathering = Gathering(plan, self._target, self._form, events.done)

    def run(self) -> VerifiedBothWays:
        """Makes the draft; what real generations with it showed. Raises DistillError."""
        with alone_in(self._plan.work):
            return self._run()

    def _run(self) -> VerifiedBothWays:
        plan, events = self._plan, self._events
        events.stage("having the target write what is to be learnt from")
        material = self._gathering.gather()
        columns = self._columns(material)
        ways = Ways(
            plan,
            self._network,
            columns,
            material,
            target=self._target,
            begun=self._begun,
        )
        checkpoints = plan.work / "checkpoints"
        check_kept(checkpoints, ways.about())
        layers, loss, tried = self._choose(ways)
        choice = f"{loss}, layers {', '.join(map(str, layers)) or 'as begun'}"
        events.stage(f"teaching: {choice}")
        training = ways.training(layers, loss, tokens=plan.tokens)
        teaching = Teaching(
            training,
            material.held_out,
            columns=columns,
            folder=checkpoints,
            judge_every=plan.judge_every,
            about=ways.about(),
            choice=choice,
            judged=lambda point: self._judged(point, training, material),
            learnt=lambda tokens, of: events.done("learnt", tokens, of),
        )
        points = teaching.teach()
        learnt = points[-1].tokens
        if learnt >= plan.tokens + plan.batch_tokens:
            events.stage(f"{learnt} tokens were learnt from before: the draft knows them all")
        events.stage("trying the draft in real generations")
        real = self._try(training.student, material)
        events.verified(points[-1].tokens, real)
        facts = CardFacts(
            target=self._target.name,
            target_digest=self._target.weights_digest,
            layers=layers,
            target_layers=self._of,
            parameters=sum(weight.numel() for weight in training.student.taught.values()),
            vocabulary=columns.token_ids.numel(),
            covered=columns.covered(material.held_out.drawn),
            loss=loss,
            lessons=len(material.lessons),
            places=sum(lesson.places for lesson in material.lessons),
            points=points,
            tried=tried,
            real=real,
            seed=plan.seed,
            learning_rate=plan.learning_rate,
            batch_tokens=plan.batch_tokens,
        )
        write_draft(
            plan.out,
            training.student,
            target=self._target.folder,
            numbers=torch.bfloat16,
            card=card(facts),
        )
        return real

    def _columns(self, material: Material) -> DraftColumns:
        size = self._target.model.vocabulary_size
        token_ids = frequent_ids(
            material.lessons,
            vocabulary_size=size,
            count=self._plan.vocabulary,
            always=self._target.eos_token_ids,
        )
        return DraftColumns(token_ids, vocabulary_size=size)

    def _choose(self, ways: Ways) -> tuple[tuple[int, ...], str, Sequence[Tried]]:
        """Layers and loss, and the short teachings that chose them, if it took any."""
        plan, layers = self._plan, self._layers
        losses = list(LOSSES) if plan.loss == AUTO else [plan.loss]
        if len(layers) == 1 and len(losses) == 1:
            return layers[0], losses[0], ()
        self._events.stage("trying layers and losses")
        trials = Trials(
            plan.work / "trials.json",
            self._teach_shortly(ways),
            about=ways.about(tokens=plan.trial_tokens),
        )
        first = FIRST_LOSS if FIRST_LOSS in losses else losses[0]
        best = trials.best([(one, first) for one in layers])
        best = trials.best([(best.layers, loss) for loss in losses])
        return best.layers, best.loss, trials.tried

    def _teach_shortly(self, ways: Ways) -> Teach:
        def teach(layers: Sequence[int], loss: str) -> Judgement:
            training = ways.training(layers, loss, tokens=self._plan.trial_tokens)
            while not training.done:
                training.step()
                self._events.done("tried", training.place.tokens, training.schedule.tokens)
            judgement = ways.judge(training)
            self._events.tried(Tried(tuple(layers), loss, judgement))
            return judgement

        return teach

    def _judged(self, point: Point, training: Training, material: Material) -> None:
        self._events.judged(point)
        due = point.tokens // self._plan.verify_every
        if due > self._verified and not training.done:
            self._verified = due
            self._events.verified(point.tokens, self._try(training.student, material))

    def _try(self, student: Student, material: Material) -> VerifiedBothWays:
        prompts = material.trial_prompts[: self._plan.verify_prompts]
        draft = served(
            student,
            numbers=choose_number_type(self._plan.dtype, student.model.device),
            context_length=max(map(len, prompts)) + self._plan.verify_tokens + SLACK,
        )
        return try_draft(
            self._target.model,
            draft,
            prompts,
            ends=self._target.eos_token_ids,
            new_tokens=self._plan.verify_tokens,
        )
