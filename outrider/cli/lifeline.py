"""A child process that never outlives its parent.

The parent holds one end of a pipe and never writes. However the parent ends, `kill -9` included,
the system closes that end, and the child sees the end of the stream. This needs neither Linux
alone nor code between fork and exec.
"""

from __future__ import annotations

import os
import signal
import threading
import time

GRACE_S = 15.0
"""How long the child may take for a clean stop once its parent is gone."""


def end_with(descriptor: int) -> None:
    """Stops this process once `descriptor` closes: by SIGTERM, and by force after GRACE_S."""
    threading.Thread(target=_watch, args=(descriptor,), name="lifeline", daemon=True).start()


def _watch(descriptor: int) -> None:
    while os.read(descriptor, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)
