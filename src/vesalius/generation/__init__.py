"""Generation: engines, which compute logits on a processor, samplers, and the loop of both."""
