"""What has come of an output so far, and the request that goes on from there."""

from __future__ import annotations

import grpc

from outrider.client.errors import RequestError
from outrider.rpc.status import RemoteError
from outrider.v1 import common_pb2, generation_pb2


class DeliveredOutput:
    """The ids of one output, each once and in order."""

    def __init__(self, request: generation_pb2.GenerateRequest) -> None:
        self._request = generation_pb2.GenerateRequest()
        self._request.CopyFrom(request)

    @property
    def length(self) -> int:
        """How many ids of the output are known."""
        return len(self._request.output_token_ids)

    @property
    def request(self) -> generation_pb2.GenerateRequest:
        """What to send now: the first request, or the one that goes on."""
        return self._request

    def add(self, chunk: generation_pb2.OutputChunk) -> None:
        """Takes the next chunk. Raises RequestError unless it goes on where the last one ended."""
        if chunk.offset != self.length:
            message = f"a chunk begins at {chunk.offset}, but {self.length} ids are known"
            raise RequestError(RemoteError(grpc.StatusCode.DATA_LOSS, message))
        self._request.output_token_ids.extend(chunk.token_ids)
        if chunk.HasField("origin"):
            self._keep(chunk.origin)

    def _keep(self, origin: generation_pb2.GenerationOrigin) -> None:
        """Goes on with the same weights and draws."""
        request = self._request
        request.weights_digest = origin.weights_digest
        if not request.sampling.HasField("seed"):
            # Who sets no seed gets REJECTION; the one set here must not change that.
            if request.sampling.verification == common_pb2.VERIFICATION_UNSPECIFIED:
                request.sampling.verification = common_pb2.VERIFICATION_REJECTION
            request.sampling.seed = origin.seed
