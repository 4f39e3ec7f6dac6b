"""What all tests run under.

One processor thread for each process: the models are small, and two threads only wait for each
other. No test asserts a time, so hypothesis sets none either. A shell starts what runs in its
background with SIGINT ignored, and processes inherit that: tests and their services do not. Nothing
may reach a network: a name that is no folder is not looked for anywhere else.
"""

from __future__ import annotations

import os
import signal
import threading

import hypothesis

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
