"""What the draft and the target service share beyond the engine."""
