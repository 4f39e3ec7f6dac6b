"""One processor thread for each test process: the models are small, and two threads only wait for
each other."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
