"""Whether a decoder's output is distributed as its target's: two laws, tested in two stages.

The decoder is a parameter: the rule in process, or the services behind a network.
"""
