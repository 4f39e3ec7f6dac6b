"""Text to token ids and back, with the tokenizer that the target serves."""
