"""Benchmarks: programs that print medians and ratios from one run. No test asserts a time."""
