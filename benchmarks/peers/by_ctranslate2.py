"""CTranslate2's generator, from Transformers' weights through its own converter.

Its vocabulary is made up: the name of a token is its number.
"""

import tempfile
from pathlib import Path
from typing import Any

from serving import Generate, serve


def prepare(folder: Path, precision: str, threads: int) -> Generate:
    import ctranslate2

    with tempfile.TemporaryDirectory() as converted:
        _convert(folder, precision, converted)
        generator = ctranslate2.Generator(
            converted, compute_type=precision, inter_threads=1, intra_threads=threads
        )

    def generate(prompt: Any, new: int) -> Any:
        out = generator.generate_batch(
            [list(map(str, prompt))],
            min_length=new,
            max_length=new,
            include_prompt_in_result=False,
            sampling_topk=1,
        )
        return out[0].sequences_ids[0]

    return generate


def _convert(folder: Path, precision: str, converted: str) -> None:
    from ctranslate2.converters.transformers import GPT2Loader
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(folder)
    spec = GPT2Loader().get_model_spec(model)
    tokens = list(map(str, range(model.config.vocab_size)))
    spec.register_vocabulary(tokens)
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = tokens[-1]
    spec.config.layer_norm_epsilon = model.config.layer_norm_epsilon
    spec.validate()
    spec.optimize(quantization=precision)
    spec.save(converted)


if __name__ == "__main__":
    serve(prepare, "ctranslate2", "transformers")
