"""Features that are computed once, and scikit-learn's model of them as the head."""

import sys

import numpy as np
import pytest
import torch
from agreement import agree
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small import small_recipe
from test_strategies import Told, begun, go, said_of

from vesalius import load
from vesalius.errors import MissingExtra, UnusableData, WrongKind
from vesalius.models.series import TSTNetwork
from vesalius.models.vision import ViTNetwork
from vesalius.training.recipe import recipe
from vesalius.training.strategies.probing import LBFGS, Part, logistic

NETWORKS = {"vit": ViTNetwork, "tst": TSTNetwork, "tst values": TSTNetwork}


def read_by_head(model, batch):
    """What the head reads, and what the model gives, by the network's own parts."""
    network, (inputs, *masks) = model.network, [torch.from_numpy(batch[k]) for k in batch][:-1]
    with torch.no_grad():
        if model.family == "vit":
            return network(inputs).hidden[:, 0].numpy(), network(inputs).logits.numpy()
        hidden = network.hidden(inputs, *masks) * masks[0][..., None]
        return hidden.flatten(1).numpy(), network(inputs, *masks).numpy()


def solved(name, penalty, x, y):
    """What scikit-learn predicts, by itself."""
    steps = [StandardScaler(), LogisticRegression(C=1 / penalty, **LBFGS)]
    if name == "tst values":
        return make_pipeline(steps[0], Ridge(alpha=penalty)).fit(x, y).predict
    return make_pipeline(*steps).fit(x, y).predict_proba


@pytest.mark.parametrize("name", NETWORKS)
def test_the_saved_model_predicts_as_scikit_learn_does(name, tmp_path, monkeypatch):
    monkeypatch.setenv("VESALIUS_CACHE", str(tmp_path / "cache"))
    first, init = begun(name, tmp_path)
    said, told = said_of(first, init, "features"), Told()
    run = go(said, tmp_path / "run", callbacks=[told])
    model = load(tmp_path / "run" / "model")
    train, valid = list(run.batches.once()), list(run.batches.valid())
    assert sum(len(batch[run.objective.answers]) for batch in train) == len(run.batches.training)
    x = np.concatenate([read_by_head(model, batch)[0] for batch in train]).astype(np.float64)
    y = np.concatenate([batch[run.objective.answers] for batch in train])
    predict = solved(name, told.steps[0]["penalty"], x, y)
    for batch in train + valid:
        features, found = read_by_head(model, batch)
        if name != "tst values":
            found = torch.softmax(torch.from_numpy(found), dim=1).numpy()
        expected = predict(features.astype(np.float64)).reshape(found.shape)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    # Validation, which asks the cached features, gives what the network would.
    means = run.objective.means(model.network, run.batches.valid())
    assert run.valid == pytest.approx(means, rel=1e-5)
    # All but the head is as it was.
    before = load(init).state
    same = [key for key in before if np.array_equal(before[key], model.state[key])]
    head = {f"{run.objective.linear_head}.{kind}" for kind in ("weight", "bias")}
    assert set(before) - set(same) == head

    def refused(*_):
        raise AssertionError("the network is not to be asked again")

    with monkeypatch.context() as patch:
        patch.setattr(NETWORKS[name], "forward", refused)
        go(said, tmp_path / "again")
    again = load(tmp_path / "again" / "model").state
    assert all(np.array_equal(again[key], array) for key, array in model.state.items())


def test_features_that_are_damaged_are_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("VESALIUS_CACHE", str(tmp_path / "cache"))
    first, init = begun("tst", tmp_path)
    go(said_of(first, init, "features"), tmp_path / "run")
    kept = sorted((tmp_path / "cache" / "features").iterdir())
    assert len(kept) == 2  # the training part, and the validation part
    sizes = [file.stat().st_size for file in kept]
    for file in kept:
        file.write_bytes(file.read_bytes()[:-5])
    go(said_of(first, init, "features"), tmp_path / "again")
    assert [file.stat().st_size for file in kept] == sizes
    # Other weights give other features.
    go(said_of(first, tmp_path / "run" / "model", "features"), tmp_path / "same backbone")
    assert len(list((tmp_path / "cache" / "features").iterdir())) == 2
    go(said_of(first, first_of_another_seed(first, tmp_path), "features"), tmp_path / "other")
    assert len(list((tmp_path / "cache" / "features").iterdir())) == 4


def first_of_another_seed(first, folder):
    said = recipe(first.to_json(), {"training.steps": "1", "seed": "9"})
    go(said, folder / "seed")
    return folder / "seed" / "model"


def test_classes_that_are_not_there_get_no_share_and_heads_without_a_bias_none():
    rng = np.random.default_rng(0)
    answers = np.repeat([0, 2], 20)
    rows = (rng.normal(size=(40, 3)) + answers[:, None]).astype(np.float32)
    part = Part(rows, answers)
    fit = logistic(part, part, 4, biased=True)
    likely = torch.softmax(torch.from_numpy(rows @ fit.weight.T + fit.bias), dim=1).numpy()
    assert likely[:, [1, 3]].max() < 1e-30
    expected = solved("", fit.penalty, rows.astype(np.float64), answers)(rows.astype(np.float64))
    agree(likely[:, [0, 2]], expected, 1e-6)
    assert not logistic(part, part, 3, biased=False).bias.any()
    with pytest.raises(UnusableData, match="all 20 examples to train on have one class"):
        logistic(Part(rows[:20], answers[:20]), part, 3, biased=True)


def test_features_are_for_linear_heads_and_need_scikit_learn(tmp_path, monkeypatch):
    first = small_recipe("bert", tmp_path)
    with pytest.raises(WrongKind, match=r"features is for text-classes, .*, not for mlm\+nsp"):
        said_of(first, "bert", "features")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtra, match=r"pip install 'vesalius\[transfer\]'"):
        said_of(small_recipe("vit", tmp_path), "vit", "features")
