"""Small models with the engine's interface, and what tests and benchmarks build on them."""
