"""Outputs that may part where the target hardly prefers one token: the greedy row's margin."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from benchmarks.greedy import SMALL_MARGIN
from outrider.engine.model import Chunk
from outrider.engine.transformers_model import TransformersModel
from outrider.randomness import Purpose, derive_seed, gumbel, token_word
from outrider.testing.tiny_models import TARGET_SEED, tiny_llama
from outrider.testing.tiny_tokenizer import tiny_tokenizer


class NearTies:
    """Judges differences of the tiny target's outputs."""

    def __init__(self) -> None:
        vocabulary_size = tiny_tokenizer().get_vocab_size()
        llama = tiny_llama(
            seed=TARGET_SEED,
            vocabulary_size=vocabulary_size,
            context_length=2048,
            dtype=torch.float32,
        )
        self._model = TransformersModel(llama)

    def margin(self, token_ids: Sequence[int], *, seed: int | None) -> float:
        """The best score after `token_ids` less the second; `seed` of COUPLED, None: greedy."""
        with torch.inference_mode():
            (rows,) = self._model.forward([Chunk(self._model.new_sequence(), token_ids, rows=1)])
        scores = rows[0].double().log_softmax(dim=0).tolist()
        if seed is not None:
            derived = derive_seed(Purpose.COUPLE, seed=seed, choice_index=0)
            place = len(token_ids)
            scores = [
                score + gumbel(token_word(derived, position=place, token_id=token_id))
                for token_id, score in enumerate(scores)
            ]
        best, second = sorted(scores)[-1:-3:-1]
        return float(best - second)

    def equal(
        self, prompt: str, ours: Sequence[int], theirs: Sequence[int], *, seed: int | None
    ) -> bool:
        """The outputs are the same, or part at a near tie."""
        if list(ours) == list(theirs):
            return True
        pairs = zip(ours, theirs, strict=True)
        place = next(index for index, (one, other) in enumerate(pairs) if one != other)
        prefix = [*tiny_tokenizer().encode(prompt).ids, *theirs[:place]]
        return self.margin(prefix, seed=seed) < SMALL_MARGIN
