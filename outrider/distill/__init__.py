"""Making a draft for a target: text that it writes, layers of its own, training, a card."""
