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


def expected_acceptance(
    target_probs: torch.Tensor, drafts: Sequence[ProposedToken]
) -> Sequence[float]:
    """One for each of `drafts`, the judged ones; none unless all of them have a CutLaw.

    `target_probs` [len(drafts) or more, vocabulary]: row j is p at the place of draft token j.
    """
    laws = [draft.law for draft in drafts if isinstance(draft.law, CutLaw)]
    if not laws or len(laws) < len(drafts):
        return ()
    width = max(len(law.token_ids) for law in laws)
    # What fills a row up has no weight.
    places = torch.tensor([law.token_ids + (0,) * (width - len(law.token_ids)) for law in laws])
    weights = torch.tensor(
        [law.weights + (0,) * (width - len(law.weights)) for law in laws], dtype=torch.float64
    )
    rows = target_probs[: len(laws)]
    probs = rows.gather(1, places.to(rows.device)).to(device="cpu", dtype=torch.float64)
    draft_probs = weights / weights.sum(dim=1, keepdim=True)
    shared: list[float] = torch.minimum(probs, draft_probs).sum(dim=1).tolist()
    return shared
