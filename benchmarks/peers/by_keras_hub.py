"""KerasHub's GPT-2 with the same weights, its generation compiled where the backend can."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from serving import Generate, serve


def prepare(folder: Path, precision: str, threads: int) -> Generate:
    limit = _tensorflow if os.environ["KERAS_BACKEND"] == "tensorflow" else _pytorch
    limit(threads)
    model = _model(folder, precision)

    def generate(prompt: Any, new: int) -> Any:
        ids = np.zeros((1, len(prompt) + new), np.int32)
        ids[0, : len(prompt)] = prompt
        given = {"token_ids": ids, "padding_mask": np.arange(ids.size)[None] < len(prompt)}
        out = model.generate(given, stop_token_ids=None)
        return out["token_ids"][0, len(prompt) :].tolist()

    return generate


def _tensorflow(threads: int) -> None:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _pytorch(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def _model(folder: Path, precision: str) -> Any:
    import keras_hub

    import vesalius as vs
    from vesalius.checkpoints import libraries

    ours = vs.load(folder)
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=ours.config.vocabulary,
        num_layers=ours.config.layers,
        num_heads=ours.config.heads,
        hidden_dim=ours.config.embedding,
        intermediate_dim=ours.config.symbols()["d_f"],
        max_sequence_length=ours.config.context,
        dropout=0,
        dtype=precision,
    )
    weights = libraries.write_state("Keras", ours.config, ours.state)
    for variable in backbone.weights:
        variable.assign(weights.pop(variable.path))
    assert not weights, list(weights)
    model = keras_hub.models.GPT2CausalLM(backbone=backbone, preprocessor=None)
    model.compile(sampler="greedy")
    return model


if __name__ == "__main__":
    serve(prepare, "keras-hub", "keras", os.environ["KERAS_BACKEND"])
