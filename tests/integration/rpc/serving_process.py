"""A process that serves one stream of three messages, with logs and traces like a service."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import structlog

from outrider import telemetry
from outrider.logs import configure_logs
from outrider.rpc.background import in_daemon_thread
from outrider.rpc.ready import announce
from outrider.rpc.server import Listener, RpcServer, stop_signal

log = structlog.get_logger(__name__)


async def count(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """One answer for each request, each with a span below the caller's."""
    root = telemetry.start_generation(context.invocation_metadata(), "tiny")
    try:
        async for _ in requests:
            parent = telemetry.extract(*telemetry.inject(root))
            span = telemetry.tracer().start_span(telemetry.ROUND_SPAN, context=parent)
            log.info("answering", span=span, prompt="hunter2")
            yield telemetry.trace_id(span).encode()
            span.end()
    except BaseException as error:
        telemetry.record_failure(root, error)
        raise
    finally:
        root.end()


async def main(ready_file: Path, loading: str) -> None:
    stopping = stop_signal()
    configure_logs(level="info", log_format="json")
    flush = telemetry.configure("test-service", replica_id="replica-1")
    server = RpcServer(Listener("127.0.0.1:0"), service_names=["test.Bytes"])
    handlers = {"StreamStream": grpc.stream_stream_rpc_method_handler(count)}
    server.grpc_server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Bytes", handlers),)
    )
    await server.start()
    announce(server.address, ready_file)
    if loading == "forever":
        load = asyncio.create_task(in_daemon_thread(_load_forever, name="loading"))
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait({load, stopped}, return_when=asyncio.FIRST_COMPLETED)
    await server.set_serving()
    await stopping.wait()
    await server.drain(30)
    flush()
    print("sdk" if "opentelemetry.sdk" in sys.modules else "no sdk", flush=True)


def _load_forever() -> None:
    import time

    while True:
        time.sleep(1)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
