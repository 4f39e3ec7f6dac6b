"""Parts of an answer that both contracts share."""

from __future__ import annotations

from typing import Any

from outrider.engine.loop import RoundTimings
from outrider.v1 import common_pb2
from outrider.worker.binding import Binding
from outrider.worker.runtime import Runtime


def handle_message(
    runtime: Runtime[Any, Any], binding: Binding, *, length: int
) -> common_pb2.KvHandle:
    """The name of a stream's state, and how many leading ids it covers now."""
    return common_pb2.KvHandle(
        replica_id=runtime.description.replica_id, handle_id=binding.handle_id, length=length
    )


def timings_message(timings: RoundTimings) -> common_pb2.Timings:
    """Where the time of a round went."""
    return common_pb2.Timings(
        queue_us=timings.queue_us,
        forward_us=timings.forward_us,
        sampling_us=timings.sampling_us,
        batch_size=timings.batch_size,
    )
