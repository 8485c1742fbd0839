"""Transformers' own generation, with its cache, on PyTorch."""

from pathlib import Path
from typing import Any

from serving import Generate, serve


def prepare(folder: Path, precision: str, threads: int) -> Generate:
    import torch
    from transformers import GPT2LMHeadModel

    torch.set_num_threads(threads)
    model = GPT2LMHeadModel.from_pretrained(folder, dtype=getattr(torch, precision)).eval()

    def generate(prompt: Any, new: int) -> Any:
        ids = torch.tensor([prompt])
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=new,
            min_new_tokens=new,
            pad_token_id=0,
        )
        return out[0, len(prompt) :].tolist()

    return generate


if __name__ == "__main__":
    serve(prepare, "transformers", "torch")
