"""Hidden states without PyTorch, in NumPy and compiled, are the network's."""

import numpy as np
import pytest
import torch
from lively import MODELS, error, lively
from strategies import filled, small

from vesalius import generate
from vesalius.errors import CheckpointMismatch, NotFinite, TokenOutOfRange
from vesalius.generation import forward
from vesalius.generation.engines import engine
from vesalius.generation.engines.reference import ReferenceEngine

pytestmark = pytest.mark.usefixtures("one_thread")

BERT = {"vocabulary": 101, "context": 150, "layers": 2, "embedding": 24, "heads": 3}
SEEING_ALL = {
    "bert": ("bert", {**BERT, "mlm_head": True, "nsp_head": True}),
    "bert, other widths": (
        "bert",
        {**BERT, "key": 5, "value": 9, "feedforward": 13, "activation": "gelu_tanh"},
    ),
    "not causal": ("transformer", {**BERT, "causal": False, "variant": 2, "activation": "gelu"}),
}
CONTEXTUAL = {**{n: m for n, m in MODELS.items() if "ffnn" not in n}, **SEEING_ALL}
ROWS = [np.random.default_rng(n).integers(0, 101, n) for n in (1, 7, 140, 16)]


@pytest.fixture(scope="module", params=CONTEXTUAL, ids=CONTEXTUAL.keys())
def model(request):
    return lively(*CONTEXTUAL[request.param])


def kinds_of(row):
    return np.arange(len(row)) * 2 // len(row)


@torch.no_grad()
def expected(model, row, layers):
    """The network's states of one text after a number of layers; before the heads if None."""
    network, ids = model.network, torch.from_numpy(row)[None]
    if model.family in ("rnn", "lstm"):
        if layers is None:
            return network.run(network.embedding(ids), network.initial_state(1))[0][0].numpy()
        x = network.embedding(ids)
        for layer in network.layers[:layers]:
            shorter = type(network)(model.config.change(layers=1, tied=False, hidden=network.width))
            shorter.layers[0] = layer
            x, _ = shorter.run(x, shorter.initial_state(1))
        return x[0].numpy()
    x = network.embedding(ids)
    x = x + network.positions(x)
    if model.family == "bert":
        x = x + network.segments(torch.from_numpy(kinds_of(row))[None])
    first = model.config.block.order == "pre"
    x = x if first else network.norm(x)
    for block in network.blocks[:layers]:
        x = block(x, causal=getattr(model.config, "causal", False))
    return (network.norm(x) if first and layers is None else x)[0].numpy()


@pytest.mark.parametrize("layer", [None, 0, 1])
@pytest.mark.parametrize("kind", ["NumPy", "compiled"])
def test_states_after_every_layer_are_the_networks(model, kind, layer):
    compiled = kind == "compiled" and hasattr(model.config, "heads")
    made = engine(model, threads=2) if compiled else ReferenceEngine(model)
    session = made.session(len(ROWS), 140, layer)
    kinds = [kinds_of(row) for row in ROWS] if model.family == "bert" else None
    states = session.extend(range(len(ROWS)), ROWS, kinds)
    for row, found in zip(ROWS, states, strict=True):
        assert found.dtype == np.float32
        assert error(found, expected(model, row, layer)) < 1e-5


@pytest.mark.parametrize("kind", ["NumPy", "compiled"])
@pytest.mark.parametrize("name", ["gpt2", "variant 1", "lstm", "rnn", "ffnn"])
def test_a_text_may_come_in_parts(name, kind):
    """The KV cache, a carried state and a window all stand for what came before."""
    model = lively(*MODELS[name])
    compiled = kind == "compiled" and hasattr(model.config, "heads")
    made = engine(model, threads=1) if compiled else ReferenceEngine(model)
    (whole,) = made.session(1, 140).extend([0], [ROWS[2]])
    session = made.session(3, 140)
    session.extend([0], [ROWS[2][:50]])
    parts = [session.extend([2], [part])[0] for part in np.split(ROWS[2], [1, 2, 90])]
    assert error(np.concatenate(parts), whole) < 1e-6


def test_texts_change_nothing_in_each_others_states(model):
    together = forward.hidden_states(model, ROWS)
    for row, found in zip(ROWS, together, strict=True):
        (alone,) = forward.hidden_states(model, [row])
        assert error(found, alone) < 1e-6


def test_texts_of_like_length_make_batches_of_limited_size():
    lengths = [4, 10, 9, 3, 200, 1]
    assert list(forward._batches(lengths, 32)) == [[4], [1, 2, 0, 3, 5]]
    assert list(forward._batches(lengths, 2)) == [[4], [1, 2], [0, 3], [5]]
    assert [len(some) for some in forward._batches([100] * 5, 32)] == [2, 2, 1]


@torch.no_grad()
@pytest.mark.parametrize("long", [False, True])
def test_logits_of_all_heads_are_the_networks(long, monkeypatch):
    monkeypatch.setattr(forward, "LONG", 0 if long else forward.LONG)
    for name in ("gpt2", "other widths", "lstm, wider", "rnn"):
        model = lively(*MODELS[name])
        (states,) = forward.hidden_states(model, [ROWS[2]])
        wanted = model.network(torch.from_numpy(ROWS[2])[None])[0].numpy()
        assert error(forward.logits(model, states), wanted) < 1e-5
    bert = lively(*SEEING_ALL["bert"])
    ids, kinds = ROWS[2], kinds_of(ROWS[2])
    (states,) = forward.hidden_states(bert, [ids], segments=[kinds])
    out = bert.network(torch.from_numpy(ids)[None], torch.from_numpy(kinds)[None])
    assert error(forward.mlm_logits(bert, states), out.mlm[0].numpy()) < 1e-5
    assert error(forward.nsp_logits(bert, states[:1]), out.nsp.numpy()) < 1e-5


def test_double_precision_stays_double():
    model = filled(small("bert"))
    (states,) = forward.hidden_states(model, [[1, 2, 3]])
    assert states.dtype == np.float64
    assert isinstance(forward.running(model, 10**12), ReferenceEngine)


def test_nats_are_the_cross_entropy():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 30, (50, 7)).astype(np.float32)
    targets = rng.integers(0, 7, 50)
    nats, right = forward.score(logits, targets)
    given = torch.from_numpy(logits), torch.from_numpy(targets)
    wanted = torch.nn.functional.cross_entropy(*given, reduction="sum")
    assert nats == pytest.approx(float(wanted), rel=1e-6)
    assert right == int((given[0].argmax(-1) == given[1]).sum())


@pytest.mark.parametrize("long", [False, True])
def test_ids_beyond_the_vocabulary_are_refused(long, monkeypatch):
    monkeypatch.setattr(forward, "LONG", 0 if long else forward.LONG)
    for name in ("gpt2", "lstm"):
        model = lively(*MODELS[name])
        for bad in (-1, 101):
            with pytest.raises(TokenOutOfRange, match="token ids go from 0 to 100"):
                forward.hidden_states(model, [[3, bad]])


# Weights that are edited after a first use ----------------------------------------


def logits_of(model):
    session = engine(model, threads=1).session(1, 8)
    return session.prefill([0], [[3, 1, 4]])[0].copy()


EDITS = {
    "in place, in the state": lambda model: model.state["norm.bias"].__iadd__(1),
    "in place, in the paper's letters": lambda model: model.parameters.Xi_e.beta.__iadd__(1),
    "one number": lambda model: model.state["embedding.weight"].__setitem__((3, 0), 9),
    "two numbers exchanged": lambda model: swapped(model.state["norm.weight"]),
    "another array in the state": lambda model: model.state.__setitem__(
        "norm.bias", model.state["norm.bias"] + 1
    ),
    "several other arrays": lambda model: model.state.update(
        {name: array * 1.5 for name, array in model.state.items()}
    ),
    "another state": lambda model: setattr(
        model, "state", {name: array * 1.5 for name, array in model.state.items()}
    ),
    "in place, by torch": lambda model: model.network.norm.bias.data.add_(1),
    "a loaded state of torch": lambda model: model.network.load_state_dict(
        {name: tensor * 1.5 for name, tensor in model.network.state_dict().items()}
    ),
}


def swapped(array):
    array[[0, 1]] = array[[1, 0]]


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
@pytest.mark.parametrize("held", [False, True])
def test_whatever_is_edited_all_parts_follow(edit, held):
    """What was taken out before the edit may be what is edited."""
    model = lively(*MODELS["gpt2"])
    before = logits_of(model)
    if held:
        model.parameters, model.network  # noqa: B018
    edit(model)
    after = logits_of(model)
    assert error(after, before) > 1e-3
    (states,) = forward.hidden_states(model, [[3, 1, 4]])
    assert error(forward.logits(model, states)[-1], after) < 1e-5
    with torch.no_grad():
        network = model.network(torch.tensor([[3, 1, 4]]))[0, -1].numpy()
    assert error(network, after) < 1e-5
    from vesalius.equations import OneHot, transformer_logits

    equations = transformer_logits(model.parameters, OneHot([3, 1, 4], 101))[:, -1]
    assert error(equations, after) < 1e-5


ORDERLY = {
    "identity": np.eye(256),
    "pairs": np.kron(np.eye(128), np.ones((2, 2))),
    "signs": np.where(np.arange(256 * 256).reshape(256, 256) * 7919 % 13 < 6, -1, 1),
    "random": np.random.default_rng(1).normal(size=(256, 256)),
    "small": np.eye(24),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ORDERLY)
def test_no_edit_in_place_goes_unseen(name, dtype):
    """Orderly matrices have words whose differences are multiples of large powers of two."""
    model = lively("lstm", {"vocabulary": len(ORDERLY[name]), "embedding": len(ORDERLY[name])})
    weight = model.state["embedding.weight"] = ORDERLY[name].astype(dtype)
    rng, seen = np.random.default_rng(2), {model.fingerprint(): hash(weight.tobytes())}
    for _ in range(500):
        i, j = rng.choice(len(weight), 2, replace=False)
        edited = (weight, weight.T, weight[::-1, 1:], weight.reshape(-1, 2))[rng.integers(4)]
        i, j = i % len(edited), j % len(edited)
        match rng.integers(4):
            case 0:
                edited[[i, j]] = edited[[j, i]]
            case 1:
                edited[i, j % edited.shape[1]] *= -1
            case 2:
                edited[i, :2] = edited[i, 1::-1]
            case 3:
                edited[i, j % edited.shape[1]] = np.nextafter(edited[i, 0], dtype(9))
        content = hash(weight.tobytes())
        assert seen.setdefault(model.fingerprint(), content) == content


def test_the_engine_follows_rows_that_are_exchanged_in_an_identity():
    model = lively("lstm", {"vocabulary": 128, "embedding": 128, "tied": False, "hidden": 128})
    weight = model.state["output.weight"] = np.eye(128, dtype=np.float32)
    before = logits_of(model)
    weight[[5, 13]] = weight[[13, 5]]
    np.testing.assert_array_equal(logits_of(model)[[13, 5]], before[[5, 13]])


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("norm.bias", np.zeros(3, np.float32), r"norm.bias is \(\d+,\), got \(3,\)"),
        ("norm.bias", [0.0], "an array of floating point, got list"),
        ("norm.bias", np.zeros(3, int), "an array of floating point, got int64"),
        ("norm.bais", np.zeros(3, np.float32), "no 'norm.bais'; did you mean norm.bias"),
    ],
)
def test_a_weight_is_replaced_only_by_what_fits(name, array, said):
    """Compiled code would read beyond what is too short."""
    model = lively(*MODELS["gpt2"])
    before = logits_of(model)
    with pytest.raises(CheckpointMismatch, match=said):
        model.state[name] = array
    with pytest.raises(CheckpointMismatch, match="with zeros instead"):
        del model.state["norm.bias"]
    assert (logits_of(model) == before).all()


def test_nan_in_the_weights_is_told_when_generating():
    model = lively(*MODELS["gpt2"])
    model.state["norm.bias"][0] = np.nan
    with pytest.raises(NotFinite, match="the model's logits are NaN"):
        generate(model, [1, 2], 3)


def test_a_weight_of_the_network_that_is_no_longer_the_models_is_an_error():
    model = lively(*MODELS["gpt2"])
    logits_of(model)
    model.network.norm.bias = torch.nn.Parameter(model.network.norm.bias.detach() + 1)
    with pytest.raises(CheckpointMismatch, match=r"network's norm.bias was replaced.*model.state"):
        logits_of(model)
    with pytest.raises(CheckpointMismatch, match="was replaced"):
        forward.hidden_states(model, [[3, 1]])
    model.state["norm.bias"] = model.network.norm.bias.detach().numpy()
    logits_of(model)


def test_an_engine_is_packed_once_where_nothing_changes():
    model = lively(*MODELS["gpt2"])
    assert engine(model, threads=1) is engine(model, threads=1)
