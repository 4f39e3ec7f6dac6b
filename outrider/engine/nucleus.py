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
    """Which tokens top-p keeps: bool [rows, columns]; the lower column first among equals.

    `log_odds` [rows, columns]: log-probabilities less the row's largest, so at most 0.
    """
    odds = log_odds.double().exp()
    enough = top_p * odds.sum(dim=1, keepdim=True)
    buckets = log_odds.mul(-_BUCKETS_PER_NAT).clamp_(max=_BUCKETS - 1).long()
    mass = odds.new_zeros(odds.shape[0], _BUCKETS).scatter_add_(1, buckets, odds)
    mass_up_to = mass.cumsum(dim=1)
    border = (mass_up_to < enough).sum(dim=1, keepdim=True)
    kept = buckets < border
    mass_before = mass_up_to.gather(1, border.sub(1).clamp_(min=0)).masked_fill_(border == 0, 0.0)
    for row in range(odds.shape[0]):
        columns = (buckets[row] == border[row]).nonzero().flatten()
        columns = columns[log_odds[row, columns].argsort(descending=True, stable=True)]
        inside = odds[row, columns]
        before = mass_before[row] + inside.cumsum(dim=0) - inside
        kept[row, columns[before < enough[row]]] = True
    return kept
