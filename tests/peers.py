"""The field's own implementations, filled with the numbers of a parameter set of ours.

Matrices are laid out here by hand, so that the equations are compared with code that shares nothing
with them. Transformers' eager attention rounds its scores to single precision; the fused one does
not.
"""

import math

import numpy as np
import torch
import transformers


def tensor(array):
    return torch.tensor(np.ascontiguousarray(array), dtype=torch.float64)


def side_by_side(Gamma, letter):
    return np.concatenate([getattr(Psi, letter) for Psi in Gamma.Psi], axis=-1)


def fill(model, state):
    """Load a whole state: nothing missing but what is tied, nothing left over."""
    model = model.double().eval()
    missing, unexpected = model.load_state_dict({k: tensor(v) for k, v in state.items()}, False)
    tied = {"lm_head.weight", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert set(missing) <= tied, missing
    assert not unexpected, unexpected
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    return model


def gpt2(theta, config):
    state = {"wte.weight": theta.E.T, "wpe.weight": theta.Lambda.T}
    state |= {"ln_f.weight": theta.Xi_e.alpha, "ln_f.bias": theta.Xi_e.beta}
    for l, block in enumerate(theta.Phi):
        q_k_v = [side_by_side(block.Gamma, W) for W in ("W_Q", "W_K", "W_V")]
        biases = [side_by_side(block.Gamma, b) for b in ("b_Q", "b_K", "b_V")]
        state |= {
            f"h.{l}.attn.c_attn.weight": np.hstack(q_k_v),
            f"h.{l}.attn.c_attn.bias": np.hstack(biases),
            f"h.{l}.attn.c_proj.weight": block.Gamma.W_O,
            f"h.{l}.attn.c_proj.bias": block.Gamma.b_O,
            f"h.{l}.ln_1.weight": block.Xi_1.alpha,
            f"h.{l}.ln_1.bias": block.Xi_1.beta,
            f"h.{l}.ln_2.weight": block.Xi_2.alpha,
            f"h.{l}.ln_2.bias": block.Xi_2.beta,
            f"h.{l}.mlp.c_fc.weight": block.Pi.W_1.T,
            f"h.{l}.mlp.c_fc.bias": block.Pi.b_1,
            f"h.{l}.mlp.c_proj.weight": block.Pi.W_2.T,
            f"h.{l}.mlp.c_proj.bias": block.Pi.b_2,
        }
    return fill(empty_gpt2(config), {f"transformer.{name}": v for name, v in state.items()})


def empty_gpt2(config, attention="sdpa"):
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=config.vocabulary,
            n_positions=config.context,
            n_embd=config.embedding,
            n_layer=config.layers,
            n_head=config.heads,
            n_inner=config.feedforward,
            attn_implementation=attention,
            bos_token_id=0,
            eos_token_id=0,
            resid_pdrop=0,
            embd_pdrop=0,
            attn_pdrop=0,
        )
    )


BERT_BLOCK = {
    "Q": "attention.self.query",
    "K": "attention.self.key",
    "V": "attention.self.value",
    "O": "attention.output.dense",
    "1": "intermediate.dense",
    "2": "output.dense",
    "Xi_1": "attention.output.LayerNorm",
    "Xi_2": "output.LayerNorm",
}
VIT_BLOCK = {
    "Q": "attention.q_proj",
    "K": "attention.k_proj",
    "V": "attention.v_proj",
    "O": "attention.o_proj",
    "1": "mlp.fc1",
    "2": "mlp.fc2",
    "Xi_1": "layernorm_before",
    "Xi_2": "layernorm_after",
}


def encoder_block(block, prefix, names):
    state = {}
    for letter in "QKV":
        name = f"{prefix}.{names[letter]}"
        state[f"{name}.weight"] = side_by_side(block.Gamma, f"W_{letter}").T
        state[f"{name}.bias"] = side_by_side(block.Gamma, f"b_{letter}")
    return state | {
        f"{prefix}.{names['O']}.weight": block.Gamma.W_O.T,
        f"{prefix}.{names['O']}.bias": block.Gamma.b_O,
        f"{prefix}.{names['1']}.weight": block.Pi.W_1,
        f"{prefix}.{names['1']}.bias": block.Pi.b_1,
        f"{prefix}.{names['2']}.weight": block.Pi.W_2,
        f"{prefix}.{names['2']}.bias": block.Pi.b_2,
        **norm(f"{prefix}.{names['Xi_1']}", block.Xi_1),
        **norm(f"{prefix}.{names['Xi_2']}", block.Xi_2),
    }


def norm(name, Xi):
    return {f"{name}.weight": Xi.alpha, f"{name}.bias": Xi.beta}


def dense(name, Pi):
    return {f"{name}.weight": Pi.W, f"{name}.bias": Pi.b}


def encoder_config(config, attention):
    return {
        "hidden_size": config.embedding,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.symbols()["d_f"],
        "layer_norm_eps": config.epsilon,
        "attn_implementation": attention,
        "hidden_dropout_prob": 0,
        "attention_probs_dropout_prob": 0,
    }


def empty_bert(config, attention="sdpa"):
    return transformers.BertForPreTraining(
        transformers.BertConfig(
            vocab_size=config.vocabulary,
            max_position_embeddings=config.context,
            type_vocab_size=config.segments,
            **encoder_config(config, attention),
        )
    )


def bert(theta, config):
    state = {
        "bert.embeddings.word_embeddings.weight": theta.E.T,
        "bert.embeddings.position_embeddings.weight": theta.Lambda_p.T,
        "bert.embeddings.token_type_embeddings.weight": theta.Lambda_s.T,
        "cls.predictions.bias": theta.b_E,
        **norm("bert.embeddings.LayerNorm", theta.Xi_e),
        **dense("bert.pooler.dense", theta.Pi_C),
        **dense("cls.predictions.transform.dense", theta.Pi_M),
        **norm("cls.predictions.transform.LayerNorm", theta.Xi_m),
        **dense("cls.seq_relationship", theta.Pi_N),
    }
    for l, block in enumerate(theta.Phi):
        state |= encoder_block(block, f"bert.encoder.layer.{l}", BERT_BLOCK)
    return fill(empty_bert(config), state)


def empty_vit(config, attention="sdpa"):
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            image_size=config.image,
            patch_size=config.patch,
            num_channels=config.channels,
            num_labels=config.classes,
            **encoder_config(config, attention),
        )
    )


def empty_patchtst(config):
    return transformers.PatchTSTForPrediction(
        transformers.PatchTSTConfig(
            num_input_channels=config.channels,
            context_length=config.context,
            patch_length=config.patch,
            patch_stride=config.stride,
            prediction_length=config.horizon,
            num_hidden_layers=config.layers,
            d_model=config.embedding,
            num_attention_heads=config.heads,
            ffn_dim=config.feedforward,
            pooling_type=None,
            attn_implementation="eager",
        )
    )


def vit(theta, config):
    P, C = config.patch, config.channels
    kernel = theta.E.reshape(-1, P, P, C).transpose(0, 3, 1, 2)
    state = {
        "vit.embeddings.cls_token": theta.x_class[None, None],
        "vit.embeddings.position_embeddings": theta.Lambda.T[None],
        "vit.embeddings.patch_embeddings.projection.weight": kernel,
        "vit.embeddings.patch_embeddings.projection.bias": theta.b_e,
        **norm("vit.layernorm", theta.Xi_e),
        **dense("classifier", theta.Pi_Y),
    }
    for l, block in enumerate(theta.Phi):
        state |= encoder_block(block, f"vit.layers.{l}", VIT_BLOCK)
    return fill(empty_vit(config), state)


class TST(torch.nn.Module):
    """TST as its authors publish it, put together from PyTorch's own modules."""

    def __init__(self, config):
        super().__init__()
        d_e, d_f, batch = config.embedding, config.feedforward, config.normalisation == "batch"

        def norm():
            return (torch.nn.BatchNorm1d if batch else torch.nn.LayerNorm)(d_e, eps=config.epsilon)

        self.project = torch.nn.Linear(config.channels, d_e)
        self.positions = torch.nn.Parameter(torch.empty(config.context, d_e))
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleDict(
                {
                    "attention": torch.nn.MultiheadAttention(d_e, config.heads, batch_first=True),
                    "norm1": norm(),
                    "linear1": torch.nn.Linear(d_e, d_f),
                    "linear2": torch.nn.Linear(d_f, d_e),
                    "norm2": norm(),
                }
            )
            for _ in range(config.layers)
        )
        self.output = torch.nn.Linear(d_e * config.context, config.outputs)

    @staticmethod
    def normalise(norm, x):
        if isinstance(norm, torch.nn.LayerNorm):
            return norm(x)
        return norm(x.transpose(1, 2)).transpose(1, 2)

    def forward(self, series, real):
        gelu = torch.nn.functional.gelu
        x = self.project(series) * math.sqrt(self.positions.shape[1]) + self.positions
        for layer in self.layers:
            attended = layer["attention"](x, x, x, key_padding_mask=~real)[0]
            x = self.normalise(layer["norm1"], x + attended)
            fed = layer["linear2"](gelu(layer["linear1"](x)))
            x = self.normalise(layer["norm2"], x + fed)
        states = gelu(x) * real[..., None]
        return states, self.output(states.flatten(1))


def tst(theta, config):
    state = {"project.weight": theta.E, "project.bias": theta.b_e, "positions": theta.Lambda.T}
    state |= dense("output", theta.Pi_Y)
    for l, block in enumerate(theta.Phi):
        weight, bias = (
            np.hstack([side_by_side(block.Gamma, f"{kind}_{letter}") for letter in "QKV"])
            for kind in "Wb"
        )
        state |= {
            f"layers.{l}.attention.in_proj_weight": weight.T,
            f"layers.{l}.attention.in_proj_bias": bias,
            f"layers.{l}.attention.out_proj.weight": block.Gamma.W_O.T,
            f"layers.{l}.attention.out_proj.bias": block.Gamma.b_O,
            f"layers.{l}.linear1.weight": block.Pi.W_1,
            f"layers.{l}.linear1.bias": block.Pi.b_1,
            f"layers.{l}.linear2.weight": block.Pi.W_2,
            f"layers.{l}.linear2.bias": block.Pi.b_2,
            **norm(f"layers.{l}.norm1", block.Xi_1),
            **norm(f"layers.{l}.norm2", block.Xi_2),
        }
        for name, Xi in (("norm1", block.Xi_1), ("norm2", block.Xi_2)):
            if Xi.mean is not None:
                state[f"layers.{l}.{name}.running_mean"] = Xi.mean
                state[f"layers.{l}.{name}.running_var"] = Xi.variance
                state[f"layers.{l}.{name}.num_batches_tracked"] = np.array(0)
    return fill(TST(config), state)
