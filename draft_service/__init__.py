"""The draft service: proposes tokens with the distributions they were drawn from."""
