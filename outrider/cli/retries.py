"""What a person is told when a generation has to be tried again."""

from __future__ import annotations

from outrider.cli.terminal import notice
from outrider.client import Retry


class RetryNotices:
    """Prints a line to standard error for each further attempt that is news."""

    def __init__(self) -> None:
        self.resumed = False
        """Some output came from an earlier attempt."""
        self._said = ""

    def __call__(self, retry: Retry) -> None:
        """Says why, where and after what it goes on."""
        self.resumed = self.resumed or retry.delivered > 0
        what = f"going on after {retry.delivered} tokens" if retry.delivered else "trying"
        said = f"outrider: {retry.error}; {what} at {retry.address}"
        if said != self._said:
            notice(said)
        self._said = said
