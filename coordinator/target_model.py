"""What a generation is planned for: one set of weights, whichever replicas serve it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.replica import Replica
from coordinator.text.tokenizer import TargetTokenizer
from outrider.v1 import model_pb2


@dataclass(frozen=True, slots=True)
class TargetModel:
    """A model, and its tokenizer if it has one. A generation never leaves it."""

    model: model_pb2.GetModelResponse
    tokenizer: TargetTokenizer | None

    @property
    def law(self) -> str:
        """What a target has to serve to go on with its generations."""
        return law_of(self.model)


def law_of(model: model_pb2.GetModelResponse) -> str:
    """Equal for targets whose outputs have the same law, ids included.

    Without a digest of its weights a process is like no other.
    """
    weights = model.weights_digest or f"of {model.replica_id}"
    return f"{weights}/{model.tokenizer_digest}/{model.vocabulary_size}"


def pick_model(replicas: Sequence[Replica], name: str) -> TargetModel:
    """The model for a new generation, where there is at least one replica.

    `name`: the one that is wanted. Empty, or where nobody has it: the one that most serve. Where
    replicas of that name have several weights, as in a rollout, each replica gets its share.
    """
    names = Counter(replica.model.name for replica in replicas)
    wanted = name if name in names else max(sorted(names), key=names.__getitem__)
    one = random.choice([one for one in replicas if one.model.name == wanted])
    return TargetModel(one.model, one.tokenizer)
