"""Peeks that a draft which copies could make, planted into the code of the real one.

Each takes a pytest.MonkeyPatch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from draft_service import copying
from draft_service.copying import Copying
from draft_service.draft_job import DraftTerms
from draft_service.drafting import Drafting
from draft_service.proposal import DraftedToken
from draft_service.reach import Reach
from outrider.draft_law import POINT_MASS

FAST = 0
"""Behind this token the draft has its next one at once."""

Patch = pytest.MonkeyPatch
Peek = Callable[[Patch], None]


def copy_what_was_drawn(patch: Patch) -> None:
    """A place is copied where the token that was drawn for it is the one that could be copied."""
    draw_by_rule(patch)
    draw = Drafting._draw

    def comparing(self: Drafting, token: DraftedToken) -> None:
        if token.token_id == copyable(self):
            token = replace(token, law=POINT_MASS, copied=True)
        draw(self, token)

    patch.setattr(Drafting, "_draw", comparing)


def copy_unless_it_was_drawn(patch: Patch) -> None:
    """A drawn token gives way to the one that could be copied, unless it is the same."""
    draw_by_rule(patch)
    draw = Drafting._draw

    def choosing(self: Drafting, token: DraftedToken) -> None:
        other = copyable(self)
        if other is not None and token.token_id != other:
            token = DraftedToken(other, copied=True)
        draw(self, token)

    patch.setattr(Drafting, "_draw", choosing)


def draw_by_rule(patch: Patch) -> None:
    """All places that are asked for are drawn; that is decided by no token."""
    patch.setattr(copying, "FORWARD_SAVED", -1.0)


def copyable(drafting: Drafting) -> int | None:
    """What could be copied for the next place."""
    made = drafting._copying
    copy = made._likeliest() if made is not None else None
    return None if copy is None else copy.token_id


def copy_while_a_drawn_token_waits(patch: Patch) -> None:
    """How long a drawn token waits for others depends on what may be copied behind it."""
    copy_behind_one_id(patch)
    patch.setattr(DraftTerms, "by_chance", property(lambda _: False))


def copy_behind_one_id(patch: Patch) -> None:
    """Behind that id all places of a chain are copied, and no others; that is no peek."""
    following = Copying.next

    def behind(self: Copying, reach: Reach) -> DraftedToken | None:
        last = self.text.prefix.token_ids[-1]
        return following(self, reach) if FAST in (last, *self._chain) else None

    patch.setattr(Copying, "next", behind)
    patch.setattr(copying, "FORWARD_SAVED", 1.0)
