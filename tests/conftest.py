"""What all tests run under.

One processor thread for each process: the models are small, and two threads only wait for each
other. No test asserts a time, so hypothesis sets none either.
"""

from __future__ import annotations

import os

import hypothesis

os.environ.setdefault("OMP_NUM_THREADS", "1")
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
