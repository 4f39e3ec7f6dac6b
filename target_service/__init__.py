"""The target service: verifies draft tokens in one forward pass and corrects them exactly."""
