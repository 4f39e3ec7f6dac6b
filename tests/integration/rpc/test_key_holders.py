"""Keys on the wire: admitted, refused, and replaced while calls go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.rpc import watched_files
from outrider.rpc.access import current_caller
from outrider.rpc.api_keys import KeyHolders, key_line, key_metadata, new_key
from outrider.rpc.server import Listener
from outrider.rpc.status import remote_error


async def tell(request: bytes, context: Any) -> bytes:
    return current_caller().tenant.encode()


async def test_keys_are_replaced_while_calls_go_on(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_files, "LOOK_INTERVAL_S", 0.0)
    lasting, leaving = new_key(), new_key()
    file = tmp_path / "keys"
    file.write_text(f"{key_line('stays', lasting)}\n{key_line('goes', leaving)}\n")
    listener = Listener("127.0.0.1:0", access=KeyHolders(file))
    served = await serve(listener, UnaryUnary=tell)
    over = asyncio.Event()

    async def keep_calling() -> int:
        count = 0
        while not over.is_set():
            answer = await served.call("UnaryUnary", metadata=key_metadata(lasting), timeout=10)
            assert answer == [b"stays"]
            count += 1
        return count

    callers = [asyncio.create_task(keep_calling()) for _ in range(8)]
    assert await served.call("UnaryUnary", metadata=key_metadata(leaving)) == [b"goes"]
    for number in range(20):
        content = f"{key_line('stays', lasting)}\n{key_line(f'new-{number}', new_key())}\n"
        file.write_text("broken\n" if number % 3 == 1 else content)
        await asyncio.sleep(0.01)
    with pytest.raises(grpc.RpcError) as caught:
        await served.call("UnaryUnary", metadata=key_metadata(leaving), timeout=10)
    over.set()
    assert min(await asyncio.gather(*callers)) > 3
    refusal = remote_error(caught.value)
    assert (refusal.code, refusal.reason) == (
        grpc.StatusCode.UNAUTHENTICATED,
        "UNAUTHENTICATED",
    )
    assert leaving not in str(refusal)
