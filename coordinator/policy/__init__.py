"""When to speculate, how far, and how long to wait: decided by measurement."""

from coordinator.policy.generation import GenerationPolicy
from coordinator.policy.pool import PoolPolicy

__all__ = ["GenerationPolicy", "PoolPolicy"]
