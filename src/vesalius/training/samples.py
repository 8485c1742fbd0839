"""Samples of text while a model is trained: plain, without a cache, a few dozen tokens."""

import torch
from torch import nn

from vesalius.tasks.language.objective import prompt_ids
from vesalius.tokenizers import Tokenizer
from vesalius.tokenizers.kinds import END_OF_TEXT


@torch.no_grad()
def sample(
    network: nn.Module,
    tokenizer: Tokenizer,
    prompt: str,
    window: int,
    length: int = 40,
    temperature: float = 0.8,
    seed: int = 0,
) -> str:
    """The prompt and what the network makes of it; ``window`` tokens are all that it sees."""
    random = torch.Generator().manual_seed(seed)
    start = tokenizer.special.get(END_OF_TEXT, 0)
    ids = [start] * window + prompt_ids(tokenizer, prompt)
    known = len(ids)
    inner = getattr(network, "module", network)  # within what several processes wrap it in
    fixed = not hasattr(inner, "blocks") and not hasattr(inner, "initial_state")
    device = next(network.parameters()).device
    for _ in range(length):
        # To a model of a fixed window, ends of texts stand before the prompt.
        seen = ids[-window:] if fixed else ids[max(window - 1, len(ids) - window) :]
        logits = network(torch.tensor([seen], device=device))
        last = (logits if logits.dim() == 2 else logits[:, -1])[0].float().cpu()
        odds = torch.softmax(last / temperature, dim=-1)
        ids.append(int(torch.multinomial(odds, 1, generator=random)))
    # Decoded together, because a space may stand between the prompt and what follows.
    return prompt + tokenizer.decode(ids[window:])[len(tokenizer.decode(ids[window:known])) :]
