"""How many side branches there may be, and how long: the contract's limits."""

MOST_BRANCHES = 64
"""That grow at a time."""
LONGEST_BRANCH = 64
"""Tokens drawn below the first one."""
