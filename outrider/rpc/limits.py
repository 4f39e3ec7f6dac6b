"""Sizes, pings and stream limits, for servers and channels from one place.

Both sides must agree: a server that allows fewer pings than its clients send ends their
connections with `too_many_pings`.
"""

from __future__ import annotations

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Most bytes of one message; the longest prefixes with their draft tokens are far below."""

MAX_DRAFT_ANSWER_BYTES = 8 * 1024 * 1024
"""Most bytes that a draft may answer at once: a piece of a tokenizer, or 64 draft tokens with 256
candidates each, which is far less."""

KEEPALIVE_INTERVAL_MS = 10_000
KEEPALIVE_TIMEOUT_MS = 10_000
"""A peer that is gone without a word is noticed within the sum of both: well below a lease."""

MAX_PENDING_STREAMS = 10_000
"""Calls that may wait to be taken up; by gRPC's own default bursts of a thousand fail."""

LONGEST_PENDING_S = 600
"""That they wait for it. By default gRPC cancels them after 30 s, as if their caller had: a server
that is too busy to look at its calls refuses them all the sooner once it does."""

ChannelOptions = list[tuple[str, int | str]]

_KEEPALIVE: ChannelOptions = [
    ("grpc.keepalive_time_ms", KEEPALIVE_INTERVAL_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    # gRPC sends pings of its own, to measure the connection. While one is out none of ours is sent,
    # and it would be waited for a minute.
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    # A long forward sends nothing for minutes; the pings go on.
    ("grpc.http2.max_pings_without_data", 0),
]


def server_options(
    *, max_receive_bytes: int = MAX_MESSAGE_BYTES, connection_age_s: float | None = None
) -> ChannelOptions:
    """Options of every server.

    `connection_age_s`: how long a connection takes new calls; then its client connects anew and
    may reach another replica. Open streams go on. None: as long as it lasts.
    """
    aged: ChannelOptions = (
        [("grpc.max_connection_age_ms", int(connection_age_s * 1000))] if connection_age_s else []
    )
    return [
        ("grpc.max_receive_message_length", max_receive_bytes),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        # A second process on the same port is an error, not a peer that takes half of the calls.
        ("grpc.so_reuseport", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_INTERVAL_MS // 2),
        ("grpc.server.max_pending_requests", MAX_PENDING_STREAMS),
        ("grpc.server.max_pending_requests_hard_limit", 2 * MAX_PENDING_STREAMS),
        ("grpc.server_max_unrequested_time_in_server", LONGEST_PENDING_S),
        *_KEEPALIVE,
        *aged,
    ]


def channel_options(*, max_receive_bytes: int = MAX_MESSAGE_BYTES) -> ChannelOptions:
    """Options of every channel. Reconnects within seconds; retries are the sessions' business."""
    return [
        ("grpc.max_receive_message_length", max_receive_bytes),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.enable_retries", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 2_000),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        # Each channel has a connection of its own and its own view of its replica.
        ("grpc.use_local_subchannel_pool", 1),
        *_KEEPALIVE,
    ]
