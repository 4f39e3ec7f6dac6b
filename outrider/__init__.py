"""Outrider: exact speculative decoding as a distributed service.

The shared library under the three services: contract (`v1`), engine, gRPC plumbing (`rpc`),
what both workers share (`worker`) and the command line (`cli`).
"""

__version__ = "0.1.0"

PROTOCOL_VERSION = 2
"""The newest version of the contract between coordinator and workers."""

OLDEST_PROTOCOL_VERSION = 1
"""The oldest version that is still spoken: services are upgraded one after the other."""
