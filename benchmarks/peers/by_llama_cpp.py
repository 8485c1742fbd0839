"""llama.cpp, from the same weights written as GGUF, without a tokenizer.

Its functions are called one by one, so that Python does nothing for a token but take the argmax.
"""

import ctypes
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from serving import Generate, serve

NAMES = {
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
"""GGUF's names of a block's parts, by Transformers'."""


def prepare(folder: Path, precision: str, threads: int) -> Generate:
    import llama_cpp

    llama_cpp.llama_backend_init()
    with tempfile.TemporaryDirectory() as converted:
        file = Path(converted) / "model.gguf"
        config = _convert(folder, precision, file)
        settings = llama_cpp.llama_model_default_params()
        model = llama_cpp.llama_model_load_from_file(bytes(file), settings)
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = config["n_positions"]
    settings.n_batch = settings.n_ubatch = 512
    settings.n_threads = settings.n_threads_batch = threads
    if precision == "float32":  # by default cache and attention are in half precision
        settings.type_k = settings.type_v = llama_cpp.GGML_TYPE_F32
        settings.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = llama_cpp.llama_init_from_model(model, settings)
    memory = llama_cpp.llama_get_memory(context)
    vocabulary = config["vocab_size"]

    def step(tokens: Any) -> int:
        batch = llama_cpp.llama_batch_get_one(tokens, len(tokens))
        if llama_cpp.llama_decode(context, batch):
            raise RuntimeError("llama_decode failed")
        logits = llama_cpp.llama_get_logits_ith(context, -1)
        return int(np.ctypeslib.as_array(logits, (vocabulary,)).argmax())

    def generate(prompt: Any, new: int) -> Any:
        llama_cpp.llama_memory_clear(memory, False)
        one = (ctypes.c_int32 * 1)()
        ids = [step((ctypes.c_int32 * len(prompt))(*prompt))]
        while len(ids) < new:
            one[0] = ids[-1]
            ids.append(step(one))
        return ids

    return generate


def _convert(folder: Path, precision: str, file: Path) -> dict[str, Any]:
    """Write the weights as GGUF; give back Transformers' configuration."""
    import json

    import gguf

    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(file, "gpt2")
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(config["n_inner"])
    writer.add_block_count(config["n_layer"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    for name, array in _tensors(folder):
        if precision == "q8_0" and array.ndim == 2 and name != "position_embd.weight":
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return config


def _tensors(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    from safetensors.numpy import load_file

    outside = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
    for name, array in load_file(folder / "model.safetensors").items():
        part, _, kind = name.removeprefix("transformer.").rpartition(".")
        if part in outside:
            yield f"{outside[part]}.{kind}", array
        else:
            _, block, part = part.split(".", 2)
            # Transformers' matrices of a block are for rows times matrix, GGUF's the other way.
            yield f"blk.{block}.{NAMES[part]}.{kind}", np.ascontiguousarray(array.T)


if __name__ == "__main__":
    serve(prepare, "llama-cpp-python", "gguf")
