"""How likely draft tokens were to be accepted, if each was honestly drawn from its law.

    Σ min(p(x), q(x)) over all ids x

A draft whose tokens are accepted more or less often than that does not draw from the laws it sends:
the coordinator keeps the sum of the differences.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from outrider.draft_law import CutLaw
from target_service.draft_check import ProposedToken

NOT_SAID = -1.0
"""Of a token that was not drawn, or not from a law that it came with."""


def expected_acceptance(
    target_probs: torch.Tensor, drafts: Sequence[ProposedToken]
) -> Sequence[float]:
    """One for each of `drafts`, the judged ones; NOT_SAID without a CutLaw. None where all are so.

    Something is said of every drawn token that was judged, whatever came before or behind it: that
    depends on what was drawn, and what is said of some only would not be true on average.
    `target_probs` [len(drafts) or more, vocabulary]: row j is p at the place of draft token j.
    """
    laws = {row: draft.law for row, draft in enumerate(drafts) if isinstance(draft.law, CutLaw)}
    if not laws:
        return ()
    width = max(len(law.token_ids) for law in laws.values())
    # What fills a row up has no weight.
    places, weights = (
        torch.tensor([(*listed, *(0,) * (width - len(listed))) for listed in lists])
        for lists in (
            [law.token_ids for law in laws.values()],
            [law.weights for law in laws.values()],
        )
    )
    rows = target_probs[list(laws)]
    probs = rows.gather(1, places.to(rows.device)).to(device="cpu", dtype=torch.float64)
    draft_probs = weights.double() / weights.sum(dim=1, keepdim=True)
    shared: list[float] = torch.minimum(probs, draft_probs).sum(dim=1).tolist()
    said = dict(zip(laws, shared, strict=True))
    return [said.get(row, NOT_SAID) for row in range(len(drafts))]
