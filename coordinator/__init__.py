"""The coordinator: drives draft and target and streams the result. No model, no torch."""
