"""Speculation measured against the same target without it: the measurement before adopting it."""
