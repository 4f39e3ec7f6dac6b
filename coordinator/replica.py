"""One process of a pool as this coordinator sees and uses it."""

from __future__ import annotations

import asyncio

import structlog
from grpc import aio

from coordinator.breaker import Breaker
from coordinator.calls import Peer
from coordinator.draft_pace import DraftPace
from coordinator.endpoints import Endpoint
from coordinator.honesty import Honesty
from coordinator.openings import Openings
from coordinator.text.tokenizer import TargetTokenizer
from coordinator.worker import Worker
from outrider.rpc.channel import Channels
from outrider.v1 import generation_pb2, model_pb2

LONGEST_STREAM_S = 3600.0
"""How long streams may go on over a channel that another has replaced."""

log = structlog.get_logger(__name__)


class Replica:
    """An address, its channel, how it is, and what this coordinator's generations do there."""

    def __init__(self, endpoint: Endpoint, channels: Channels, *, health_name: str) -> None:
        self.address = endpoint.address
        self._endpoint = endpoint
        self._channels = channels
        self._closings: dict[aio.Channel, asyncio.Task[None]] = {}
        self._channel_generation = channels.generation
        self.worker = Worker(endpoint.address, self._open_channel(), health_name=health_name)
        self.breaker = Breaker()
        self.pace = DraftPace()
        """How fast it drafts. Drafts only."""
        self.honesty = Honesty()
        """Whether its tokens are drawn from what it says. Drafts only."""
        self.listed = True
        """Its address is still one of the pool's."""
        self.tokenizer: TargetTokenizer | None = None
        """Of its model, if that has one. Targets only."""
        self.known_as = ""
        """The process that was found to be of use, or was compared: its replica id."""
        self.refusal = ""
        """Why it does not fit, though it is well; empty when it does."""
        self.misfits: dict[str, str] = {}
        """By the law of a target: why it does not draft for that one; empty when it does."""
        self.generations = 0
        self.placed = 0
        self.failures = 0
        self.look_soon = asyncio.Event()
        """Set to have it looked at at once."""
        self.openings = Openings()
        self._missed = 0

    @property
    def well(self) -> bool:
        """It serves, and new generations may be sent there."""
        return self.listed and not self.worker.last.reason

    @property
    def usable(self) -> bool:
        """It is well, was looked at and can be used. For a draft: with some target."""
        return self.well and not self.refusal and self.known_as == self.model.replica_id

    @property
    def admits(self) -> bool:
        """A generation may be sent there. After a failure not before it was looked at: what is
        known of it may be of a process that is gone."""
        return self.breaker.admits and not self.worker.doubted

    @property
    def model(self) -> model_pb2.GetModelResponse:
        """What it serves; empty before it was reached."""
        return self.worker.last.model or _NO_MODEL

    @property
    def peer(self) -> Peer:
        """The process that was looked at last."""
        return Peer(self.worker.channel, self.model.replica_id)

    @property
    def load(self) -> int:
        """Generations it has, those of other coordinators included as far as it said."""
        return self.generations + self.worker.others

    def enter(self) -> None:
        """One more generation uses it."""
        self.generations += 1
        self.placed += 1
        self.worker.own_streams = self.generations
        self.breaker.entered()

    def leave(self) -> None:
        """One of them does no more."""
        self.generations -= 1
        self.worker.own_streams = self.generations

    def missed(self) -> int:
        """A generation waited for its tokens in vain. How many have, with none in time between."""
        self._missed += 1
        return self._missed

    def in_time(self) -> None:
        """Its tokens came in time."""
        self._missed = 0

    def judged(self, chance: float, *, accepted: bool) -> None:
        """One of its tokens was judged; `chance`: how likely it was to be accepted."""
        trusted = self.honesty.trusted
        self.honesty.judged(chance, accepted=accepted)
        if trusted and not self.honesty.trusted:
            log.error(
                "a draft's tokens are not drawn from what it reports: it is trusted no longer",
                address=self.address,
                replica_id=self.model.replica_id,
                acceptance_z=round(self.honesty.z, 1),
            )

    def failed(self, *, rest: bool = True) -> None:
        """It failed a generation: broke a stream, fell silent or had no room.

        `rest`: others are to keep away for a while. It is looked at at once.
        """
        self.failures += 1
        if rest:
            self.breaker.failed()
            self.worker.doubt()
            self.look_soon.set()

    def renew_channel(self) -> None:
        """Where certificates were replaced, opens a channel with the new ones; streams that are
        open go on over the one before."""
        if self._channel_generation == self._channels.generation:
            return
        self._channel_generation = self._channels.generation
        old = self.worker.channel
        self.worker.reach_by(self._open_channel())
        task = asyncio.create_task(old.close(grace=LONGEST_STREAM_S))
        self._closings[old] = task
        task.add_done_callback(lambda _: self._closings.pop(old, None))

    async def close(self) -> None:
        """Closes its channels."""
        closings = dict(self._closings)
        for task in closings.values():
            task.cancel()
        await asyncio.gather(*closings.values(), return_exceptions=True)
        for channel in (*closings, self.worker.channel):
            await channel.close()

    def _open_channel(self) -> aio.Channel:
        return self._channels.open(self._endpoint.address, server_name=self._endpoint.server_name)

    def to_message(self) -> generation_pb2.WorkerStatus:
        """The contract's form."""
        last = self.worker.last
        gone = "" if self.listed else "its address is not among the pool's any more"
        reason = last.reason or gone or self.refusal
        if not reason and not self.usable:
            reason = "not looked at yet"
        return generation_pb2.WorkerStatus(
            address=self.address,
            reachable=last.reachable,
            usable=last.reachable and not reason,
            reason=reason,
            model=last.model,
            status=last.status,
            generations=self.generations,
            placed=self.placed,
            failures=self.failures,
            resting_s=self.breaker.resting_s,
            trusted=self.honesty.trusted,
            acceptance_z=self.honesty.z,
        )


_NO_MODEL = model_pb2.GetModelResponse()
