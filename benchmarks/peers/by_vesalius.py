"""Our own engine, with one prompt or several."""

from pathlib import Path
from typing import Any

from serving import Generate, serve

import vesalius as vs


def prepare(folder: Path, precision: str, threads: int) -> Generate:
    model = vs.load(folder)

    def generate(prompt: Any, new: int) -> Any:
        out = vs.generate(
            model, prompt, max_new_tokens=new, temperature=0, dtype=precision, threads=threads
        )
        return [one.ids for one in out] if isinstance(out, list) else out.ids

    return generate


if __name__ == "__main__":
    serve(prepare, "vesalius")
