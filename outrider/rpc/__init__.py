"""gRPC plumbing that all three services share: servers, channels, limits, errors, checks."""
