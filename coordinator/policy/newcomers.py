"""Whether new generations begin with draft tokens: decided by what all have seen."""

from __future__ import annotations

from coordinator.draft_plan import SpeculationTerms
from coordinator.policy.measures import KindMeasures, PoolMeasures
from coordinator.policy.outlook import outlook
from coordinator.policy.reasons import in_figures, reason_against

EVERY_S = 0.2


def look_for_newcomers(terms: SpeculationTerms, kind: KindMeasures, measures: PoolMeasures) -> None:
    """Weighs it up for the whole pool, a few times in a second.

    A generation that begins goes by this; those that run go by what they saw themselves, but need
    more of a reason to speculate alone. Terms that fix the draft length say nothing of others.
    """
    now = measures.clock()
    if now < kind.looked_at + EVERY_S or terms.draft_length is not None or not terms.draft_ahead:
        return
    kind.looked_at = now
    view = outlook(terms, kind.belief.acceptance, kind, measures)
    kind.promised = view.choice.rate / view.plain_rate
    kind.standing.judge(view.ratio)
    kind.draft_length = view.choice.length if kind.standing.on else 0
    word = "ACCEPTANCE" if kind.standing.on else reason_against(view)
    kind.reason = f"{word}: {in_figures(view)}"
