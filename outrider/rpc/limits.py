"""Sizes, pings and stream limits, for servers and channels from one place.

Both sides must agree: a server that allows fewer pings than its clients send ends their
connections with `too_many_pings`.
"""

from __future__ import annotations

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
KEEPALIVE_INTERVAL_MS = 10_000
KEEPALIVE_TIMEOUT_MS = 5_000
MAX_PENDING_STREAMS = 4_096

ChannelOptions = list[tuple[str, int | str]]

_SHARED: ChannelOptions = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_INTERVAL_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]


def server_options(*, max_receive_bytes: int = MAX_MESSAGE_BYTES) -> ChannelOptions:
    """Options of every server. A second process on the same port is an error, not a peer."""
    return [
        *(pair for pair in _SHARED if pair[0] != "grpc.max_receive_message_length"),
        ("grpc.max_receive_message_length", max_receive_bytes),
        ("grpc.so_reuseport", 0),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", KEEPALIVE_INTERVAL_MS // 2),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.server.max_pending_requests", MAX_PENDING_STREAMS),
        ("grpc.server.max_pending_requests_hard_limit", 2 * MAX_PENDING_STREAMS),
    ]


def channel_options() -> ChannelOptions:
    """Options of every channel. Reconnects within seconds; retries are the sessions' business."""
    return [
        *_SHARED,
        ("grpc.enable_retries", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 500),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.use_local_subchannel_pool", 1),
    ]
