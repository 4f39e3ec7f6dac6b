"""What changes single logits before the temperature: bias, bans and penalties.

Each row of a verification sees another prefix: row j sees the committed ids and the first j draft
tokens. The ids that matter are few, so the changes are sparse; no table of counts over the
vocabulary is built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import torch

from outrider.engine.columns import Columns
from outrider.engine.sampling_options import SamplingOptions


def changes_logits(options: SamplingOptions) -> bool:
    """Whether any option of this file is in use."""
    return bool(
        options.logit_bias
        or (options.min_tokens and options.stop_token_ids)
        or options.repetition_penalty != 1.0
        or options.presence_penalty
        or options.frequency_penalty
    )


class LogitEdits:
    """The sparse changes to the logits of one round; `apply` works in place."""

    def __init__(
        self,
        options: SamplingOptions,
        *,
        columns: Columns,
        token_ids: Sequence[int],
        draft_token_ids: Sequence[int],
        prompt_length: int,
    ) -> None:
        """`token_ids`: the committed prefix, of which the first `prompt_length` are the prompt."""
        self._options = options
        self._columns = columns
        self._token_ids = token_ids
        self._draft_token_ids = draft_token_ids
        self._prompt_length = prompt_length

    def apply(self, scores: torch.Tensor) -> None:
        """Changes logits [rows, columns]: bias, then bans, then penalties."""
        options = self._options
        if options.logit_bias:
            self._bias(scores)
        if options.min_tokens and options.stop_token_ids:
            self._ban_stops(scores)
        if options.repetition_penalty != 1.0:
            self._penalise_repetition(scores)
        if options.presence_penalty or options.frequency_penalty:
            self._penalise_output(scores)

    def _bias(self, scores: torch.Tensor) -> None:
        bias = self._options.logit_bias
        places, present = self._find(scores, bias.keys())
        amounts = torch.tensor(list(bias.values()), dtype=scores.dtype, device=scores.device)
        scores[:, places] += amounts[present]

    def _ban_stops(self, scores: torch.Tensor) -> None:
        """Stop ids become impossible in the rows that come before `min_tokens` output tokens.

        Where nothing else is possible the ban is lifted for that row: the output then ends early,
        which is better than a request that fails or a token that the model rules out.
        """
        missing = self._options.min_tokens - (len(self._token_ids) - self._prompt_length)
        if missing <= 0:
            return
        rows = scores[:missing]
        places, _ = self._find(scores, self._options.stop_token_ids)
        banned = rows.index_fill(1, places, -torch.inf)
        possible = banned.amax(dim=1, keepdim=True) > -torch.inf
        rows.copy_(torch.where(possible, banned, rows))

    def _penalise_repetition(self, scores: torch.Tensor) -> None:
        """Keskar et al., "CTRL" (2019), over prompt and output."""
        seen = set(self._token_ids)
        places, _ = self._find(scores, seen)
        self._divide(scores, places)
        for row, token_id in self._draft_tokens_before(scores):
            if token_id not in seen:
                seen.add(token_id)
                places, _ = self._find(scores, (token_id,))
                self._divide(scores[row:], places)

    def _divide(self, scores: torch.Tensor, places: torch.Tensor) -> None:
        penalty = self._options.repetition_penalty
        chosen = scores[:, places]
        scores[:, places] = torch.where(chosen > 0, chosen / penalty, chosen * penalty)

    def _penalise_output(self, scores: torch.Tensor) -> None:
        """Subtracts presence once and frequency once for each time an id is in the output.

        At once, whoever proposed it: amounts taken off one by one are rounded otherwise, and which
        of two equals is kept by top-p would depend on what was drafted.
        """
        counts = Counter(self._token_ids[self._prompt_length :])
        drafted = list(self._draft_tokens_before(scores))
        own, _ = self._find(scores, dict.fromkeys(token_id for _, token_id in drafted))
        before = scores[:, own]
        places, present = self._find(scores, counts.keys())
        scores[:, places] -= self._amounts(counts.values(), scores)[present]
        for row, token_id in drafted:
            counts[token_id] += 1
            places, present = self._find(scores, (token_id,))
            amounts = self._amounts((counts[token_id],), scores)[present]
            scores[row:, places] = before[row:, torch.isin(own, places)] - amounts

    def _amounts(self, counts: Iterable[int], like: torch.Tensor) -> torch.Tensor:
        """What is taken off an id that is in the output so often."""
        presence, frequency = self._options.presence_penalty, self._options.frequency_penalty
        amounts = [presence + frequency * count for count in counts]
        return torch.tensor(amounts, dtype=like.dtype, device=like.device)

    def _draft_tokens_before(self, scores: torch.Tensor) -> Iterable[tuple[int, int]]:
        """(first row that sees it, id) of each draft token that some row sees."""
        return enumerate(self._draft_token_ids[: scores.shape[0] - 1], start=1)

    def _find(
        self, scores: torch.Tensor, token_ids: Iterable[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        wanted = torch.tensor(list(token_ids), dtype=torch.int64, device=scores.device)
        return self._columns.find(wanted)
