"""Both sides of a connection agree, and gRPC knows every option by its name."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
from grpc._cython import cygrpc

from outrider.rpc.limits import channel_options, server_options


def test_servers_allow_the_pings_that_channels_send() -> None:
    server, channel = dict(server_options()), dict(channel_options())
    allowed = server["grpc.http2.min_ping_interval_without_data_ms"]
    assert int(allowed) < int(channel["grpc.keepalive_time_ms"])
    assert server["grpc.keepalive_permit_without_calls"] == 1
    assert channel["grpc.http2.max_pings_without_data"] == 0


def test_what_one_side_sends_the_other_takes() -> None:
    server, channel = dict(server_options()), dict(channel_options())
    for sends, takes in ((server, channel), (channel, server)):
        most = sends["grpc.max_send_message_length"]
        assert int(most) <= int(takes["grpc.max_receive_message_length"])


def test_a_port_is_never_shared() -> None:
    assert dict(server_options())["grpc.so_reuseport"] == 0


def test_a_connections_age_is_in_milliseconds() -> None:
    assert dict(server_options(connection_age_s=2))["grpc.max_connection_age_ms"] == 2000
    assert "grpc.max_connection_age_ms" not in dict(server_options())


@pytest.mark.parametrize(
    "name", sorted({name for name, _ in [*server_options(connection_age_s=1), *channel_options()]})
)
def test_grpc_knows_the_option(name: str) -> None:
    """A misspelt option is ignored without a word, so the library itself is asked."""
    with (
        Path(str(cygrpc.__file__)).open("rb") as library,
        mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        assert content.find(name.encode()) >= 0
