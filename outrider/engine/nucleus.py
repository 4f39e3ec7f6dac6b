"""Top-p over a whole vocabulary without sorting it.

Holtzman et al., "The curious case of neural text degeneration" (2020): keep the fewest most
likely tokens whose mass reaches top_p. A histogram of mass over log-probability finds the bucket
in which that happens; only that bucket is sorted.
"""

from __future__ import annotations

import torch

# Buckets 1/64 nat wide down to e^-32 of the most likely token, below which all share the last.
_BUCKETS = 2048
_BUCKETS_PER_NAT = 64.0


def nucleus(log_odds: torch.Tensor, top_p: float) -> torch.Tensor:
    """Which tokens top-p keeps: bool [columns]; the lower column first among equals.

    `log_odds` [columns]: log-probabilities less the largest, so at most 0.
    """
    odds = log_odds.double().exp()
    enough = top_p * odds.sum()
    buckets = log_odds.mul(-_BUCKETS_PER_NAT).clamp_(max=_BUCKETS - 1).long()
    mass_up_to = torch.bincount(buckets, weights=odds, minlength=_BUCKETS).cumsum(dim=0)
    border = int((mass_up_to < enough).sum())
    kept = buckets < border
    columns = (buckets == border).nonzero().flatten()
    columns = columns[log_odds[columns].argsort(descending=True, stable=True)]
    inside = odds[columns]
    before = inside.cumsum(dim=0) - inside
    if border:
        before += mass_up_to[border - 1]
    kept[columns[before < enough]] = True
    return kept
