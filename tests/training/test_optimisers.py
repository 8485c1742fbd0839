"""How parameters follow their gradients, and how fast."""

import math
import shutil
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small import small_recipe
from strategies import small

from vesalius.checkpoints import files
from vesalius.checkpoints.layout import letters
from vesalius.equations import arrays, find
from vesalius.errors import ImpossibleSetting
from vesalius.families import family_of
from vesalius.training import optimisers, train
from vesalius.training.optimisers import clip_gradients, optimiser
from vesalius.training.scheduler import learning_rate
from vesalius.training.settings import Training

FAMILIES = ["ffnn", "rnn", "lstm", "transformer", "gpt2", "bert", "vit", "igpt", "tst"]


def network(family, seed=0):
    torch.manual_seed(seed)
    return family_of(small(family)).network(small(family)).double()


def with_gradients(module, seed=1):
    random = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=random, dtype=parameter.dtype)
    return module


def copied(tensors):
    return {name: tensor.detach().numpy().copy() for name, tensor in tensors}


@pytest.mark.proves(22)
@pytest.mark.parametrize("family", ["ffnn", "lstm", "gpt2"])
def test_a_step_of_sgd_is_22(family):
    config, module = small(family), with_gradients(network(family))
    theta = letters(config, copied(module.named_parameters()))
    slopes = copied((name, parameter.grad) for name, parameter in module.named_parameters())
    optimiser(
        module, Training(optimiser="sgd", learning_rate=0.25, weight_decay=0.0, clip=0.0)
    ).step()
    expected = find(22).function(theta, letters(config, slopes), 0.25)
    moved = dict(arrays(letters(config, copied(module.named_parameters()))))
    before = dict(arrays(theta))
    for name, array in arrays(expected):
        # A product of two and a sum, which some processors round once and others twice.
        np.testing.assert_allclose(moved[name], array, rtol=0, atol=2e-16 * 8, err_msg=name)
        assert not np.array_equal(before[name], array)


@pytest.mark.parametrize("limit", [0.0, 0.5, 1e6])
def test_gradients_are_scaled_down_to_the_limit_and_never_up(limit):
    ours, theirs = (with_gradients(network("gpt2")) for _ in range(2))
    expected = torch.nn.utils.clip_grad_norm_(theirs.parameters(), limit or math.inf)
    assert clip_gradients(ours, limit) == float(expected) > 1
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine.grad, other.grad)


@pytest.mark.parametrize(
    ("how", "theirs"),
    [
        (Training(optimiser="adamw"), lambda g: torch.optim.AdamW(g, betas=(0.9, 0.99))),
        (Training(optimiser="adam"), lambda g: torch.optim.Adam(g, betas=(0.9, 0.99))),
        (
            Training(optimiser="adamw", beta1=0.8, beta2=0.95),
            lambda g: torch.optim.AdamW(g, betas=(0.8, 0.95)),
        ),
        (
            Training(optimiser="sgd", momentum=0.9),
            lambda g: torch.optim.SGD(g, lr=1e-3, momentum=0.9),
        ),
    ],
    ids=["adamw", "adam", "adamw with other betas", "sgd with momentum"],
)
def test_steps_agree_with_pytorch_s_own_that_are_not_fused(how, theirs):
    ours, other = network("gpt2"), network("gpt2")
    groups = [
        {"params": [p for p in other.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in other.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    first, second = optimiser(ours, how), theirs(groups)
    for group in second.param_groups:
        group |= {"fused": False, "foreach": False}
    assert all(group["fused"] for group in first.param_groups)
    for step in range(5):
        for module, steps in ((ours, first), (other, second)):
            with_gradients(module, seed=step)
            steps.step()
    assert not torch.equal(ours.embedding.weight, network("gpt2").embedding.weight)
    for name, tensor in other.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], tensor, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("family", FAMILIES)
def test_matrices_decay_and_vectors_do_not(family):
    module = network(family)
    steps = optimiser(module, Training(weight_decay=0.3))
    names = {parameter: name for name, parameter in module.named_parameters()}
    decays = {
        names[parameter]: group["weight_decay"]
        for group in steps.param_groups
        for parameter in group["params"]
    }
    assert decays.keys() == set(names.values()), "each parameter is in one group"
    for name, parameter in module.named_parameters():
        vector = name.endswith(("bias", "norm.weight", "_token"))
        assert vector == (parameter.dim() == 1), name
        assert decays[name] == (0.0 if vector else 0.3), name


def test_what_is_frozen_is_left_alone():
    module = network("gpt2")
    module.embedding.weight.requires_grad_(False)
    steps = optimiser(module, Training())
    known = {id(p) for group in steps.param_groups for p in group["params"]}
    assert id(module.embedding.weight) not in known
    assert len(known) == len(list(module.parameters())) - 1


MUON = Training(optimiser="muon", learning_rate=0.01, weight_decay=0.3, beta1=0.8, beta2=0.95)


@pytest.mark.parametrize("family", FAMILIES)
def test_muon_is_for_the_matrices_of_layers_and_adamw_for_all_else(family, monkeypatch):
    monkeypatch.setattr(optimisers, "quick_bfloat16", lambda: True)
    ours, theirs = network(family), network(family)
    inner = [
        p
        for name, p in theirs.named_parameters()
        if p.dim() == 2 and name.startswith(("blocks.", "layers."))
    ]
    outer = [p for p in theirs.parameters() if all(p is not q for q in inner)]
    assert inner
    assert outer
    groups = [
        {"params": [p for p in outer if p.dim() >= 2], "weight_decay": 0.3},
        {"params": [p for p in outer if p.dim() < 2], "weight_decay": 0.0},
    ]
    by_hand = [
        torch.optim.Muon(inner, lr=0.01, weight_decay=0.3, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(groups, lr=0.01, betas=(0.8, 0.95), fused=True),
    ]
    steps = optimiser(ours, MUON)
    for step in range(3):
        for each in (steps, *by_hand):
            for group in each.param_groups:
                group["lr"] = 0.01 / (step + 1)
        for module, all_steps in ((ours, [steps]), (theirs, by_hand)):
            with_gradients(module, seed=step)
            for one in all_steps:
                one.step()
    before = network(family).state_dict()
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], tensor), name
    assert not any(torch.equal(before[name], p) for name, p in ours.named_parameters())


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_muon_without_bfloat16_takes_singular_values_near_one(shape):
    """Where bfloat16 is slow the products are in float32: here by the definition, in float64."""
    torch.manual_seed(1)
    (group,) = torch.optim.Muon([torch.nn.Parameter(torch.ones(shape))]).param_groups
    gradient = torch.randn(shape)
    U, x, Vh = torch.linalg.svd(gradient.double(), full_matrices=False)
    x = x / x.norm()
    a, b, c = group["ns_coefficients"]
    for _ in range(group["ns_steps"]):
        x = a * x + b * x**3 + c * x**5
    update = optimisers.orthogonalised(gradient, group)
    assert torch.allclose(update.double(), U @ torch.diag(x) @ Vh, rtol=0, atol=1e-4)


def test_muon_without_bfloat16_steps_as_pytorch_does_within_bfloat16(monkeypatch):
    """PyTorch rounds five iterations to 8 bits: its steps are a few per cent off."""
    steps = {}
    for quick in (True, False):
        monkeypatch.setattr(optimisers, "quick_bfloat16", lambda quick=quick: quick)
        module = network("gpt2")
        before = {name: p.detach().clone() for name, p in module.named_parameters()}
        muon = optimiser(module, MUON)
        for seed in range(3):
            with_gradients(module, seed)
            muon.step()
        steps[quick] = {name: p.detach() - before[name] for name, p in module.named_parameters()}
    for name, theirs in steps[True].items():
        assert (steps[False][name] - theirs).norm() < 0.05 * theirs.norm(), name


def test_muon_goes_on_from_its_state_to_the_last_bit():
    def go(module, steps, seeds):
        for seed in seeds:
            with_gradients(module, seed)
            steps.step()

    whole, part, again = network("gpt2"), network("gpt2"), network("gpt2", seed=9)
    first, second, third = (optimiser(module, MUON) for module in (whole, part, again))
    go(whole, first, range(4))
    go(part, second, range(2))
    again.load_state_dict(part.state_dict())
    third.load_state_dict(second.state_dict())
    go(again, third, range(2, 4))
    for name, tensor in whole.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


@pytest.mark.parametrize("name", ["gpt2", "lstm", "bert"])
def test_a_run_by_muon_goes_on_to_the_last_bit(name, tmp_path):
    recipe = small_recipe(name, tmp_path, optimiser="muon", steps=6, save_every=3)
    whole, part = train(recipe, tmp_path / "whole"), tmp_path / "part"
    kept = "checkpoints/step-00000003"
    shutil.copytree(whole.folder / kept, part / kept)
    train(recipe, part, resume=True)
    for file in ("model", "optimiser"):
        ended = f"checkpoints/step-00000006/{file}.safetensors"
        assert (part / ended).read_bytes() == (whole.folder / ended).read_bytes()
    moments = files.read(part / "checkpoints/step-00000006/optimiser.safetensors").arrays
    assert {name.rpartition(".")[2] for name in moments} == {
        *("momentum_buffer", "exp_avg", "exp_avg_sq", "step")
    }


def test_muon_needs_a_pytorch_that_has_it(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ImpossibleSetting, match=r"muon, which PyTorch has from 2\.9 on"):
        optimiser(network("gpt2"), MUON)


def rates(how, steps=None):
    return [learning_rate(how, step) for step in range(how.steps if steps is None else steps)]


def test_the_rate_rises_in_equal_steps_to_the_full_one():
    for schedule in ("cosine", "constant", "step"):
        how = Training(learning_rate=3.0, warmup=9, steps=50, schedule=schedule)
        assert np.diff(rates(how, 10)) == pytest.approx([0.3] * 9)
        assert learning_rate(how, 0) == pytest.approx(0.3)
        assert learning_rate(how, 9) == 3.0


def test_without_a_warm_up_the_first_rate_is_the_full_one():
    assert learning_rate(Training(learning_rate=3.0, warmup=0), 0) == 3.0


def test_cosine_falls_to_its_final_share():
    how = Training(learning_rate=2.0, warmup=10, steps=110, final_rate=0.25)
    assert learning_rate(how, 60) == pytest.approx(2.0 * (1 + 0.25) / 2)  # half way
    assert learning_rate(how, 110) == pytest.approx(0.5)
    assert learning_rate(how, 109) == pytest.approx(0.5, rel=1e-3)
    assert learning_rate(how, 1000) == pytest.approx(0.5)
    falling = np.diff(rates(how)[10:])
    assert (falling < 0).all()


def test_no_step_of_cosine_is_lost_where_it_ends_at_nothing():
    how = Training(learning_rate=2.0, warmup=3, steps=20, final_rate=0.0)
    assert min(rates(how)) > 0


def test_constant_stays():
    how = Training(learning_rate=2.0, warmup=5, steps=50, schedule="constant")
    assert set(rates(how)[5:]) == {2.0}


def test_step_falls_by_its_factor_every_so_many_updates_after_the_warm_up():
    how = Training(
        learning_rate=8.0,
        warmup=15,
        steps=55,
        schedule="step",
        step_every=10,
        step_factor=0.5,
    )
    found = rates(how)
    assert found[15:25] == [8.0] * 10
    assert found[25:35] == [4.0] * 10
    assert found[45:55] == [1.0] * 10


@settings(max_examples=100)
@given(
    warmup=st.integers(0, 300),
    steps=st.integers(1, 300),
    final=st.floats(0, 1),
    rate=st.floats(1e-8, 1e3),
    schedule=st.sampled_from(["cosine", "constant"]),
)
def test_the_rate_never_jumps(warmup, steps, final, rate, schedule):
    how = Training(
        warmup=warmup, steps=steps, final_rate=final, learning_rate=rate, schedule=schedule
    )
    found = rates(how, max(warmup, steps) + 2)
    rise = rate / (warmup + 1)
    fall = rate * math.pi / 2 / max(1, steps - warmup)
    assert all(0 <= r <= rate for r in found)
    for before, now in pairwise(found):
        assert -fall * 1.001 <= now - before <= rise * 1.001
