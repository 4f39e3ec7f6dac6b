"""Replicas that are taken as they stand, without being looked at: for sessions apart from pools."""

from __future__ import annotations

from coordinator.endpoints import Endpoint
from coordinator.placement import Placement
from coordinator.replica import Replica
from coordinator.worker import Probe
from outrider import PROTOCOL_VERSION
from outrider.rpc.channel import Channels
from outrider.v1 import model_pb2


class StandingReplica(Replica):
    """Nobody looks at it, after a failure neither."""

    @property
    def admits(self) -> bool:
        """Its breaker alone decides."""
        return self.breaker.admits


def standing_replica(address: str, *, replica_id: str, **model: object) -> Replica:
    """A replica that is well and fits. `model`: further fields of what it serves."""
    replica = StandingReplica(Endpoint(address), Channels(), health_name="")
    replica.worker.last = Probe(
        model_pb2.GetModelResponse(
            replica_id=replica_id,
            protocol_version=PROTOCOL_VERSION,
            **model,  # type: ignore[arg-type]
        )
    )
    replica.known_as = replica_id
    return replica


def placed_on(*replicas: Replica) -> Placement:
    """A placement among these."""
    return Placement(b"", lambda: replicas, fits=lambda replica: replica.usable)
