"""Clients of a coordinator: one that makes a call, and one that goes on when a call breaks."""

from outrider.client.client import DEFAULT_ADDRESS, Client
from outrider.client.errors import ClientError, RequestError, UnreachableError, client_error
from outrider.client.patience import Patience
from outrider.client.resuming import ResumingClient, Retry

__all__ = [
    "DEFAULT_ADDRESS",
    "Client",
    "ClientError",
    "Patience",
    "RequestError",
    "ResumingClient",
    "Retry",
    "UnreachableError",
    "client_error",
]
