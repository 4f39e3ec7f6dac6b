"""gRPC plumbing that all three services share."""
