"""Fine-tuning by a strategy: what is trained, at which rate, and what is saved of it."""

import hashlib
import re
import shutil

import pytest
import torch
from agreement import agree
from small import small_recipe
from strategies import SMALL as FAMILIES
from strategies import filled, small

from vesalius import equations, load
from vesalius.checkpoints import files
from vesalius.errors import AnotherRecipe, ImpossibleSetting, UnknownSetting
from vesalius.families import family_of
from vesalius.models.lora import LowRank
from vesalius.tasks import task_named
from vesalius.training import Callback, Run
from vesalius.training.optimisers import optimiser
from vesalius.training.processes import Processes
from vesalius.training.recipe import keys, recipe
from vesalius.training.scheduler import learning_rate
from vesalius.training.settings import Training
from vesalius.training.strategies import STRATEGIES
from vesalius.training.strategies.strategy import count, depths

SHORT = {"steps": 4, "save_every": 2, "keep": 4, "evaluate_every": 2, "validate_on": 8}


class Told(Callback):
    """Remembers what was told of every step."""

    def __init__(self):
        self.steps = []

    def stepped(self, run, metrics):
        self.steps.append(metrics)


def go(said, folder, resume=False, callbacks=()):
    with Processes("ddp") as processes:
        run = Run(said, folder, processes, resume)
        run.go(list(callbacks))
    return run


def said_of(first, init, strategy, changes=None, **training):
    """The recipe that goes on from a model by a strategy."""
    said = {**first.to_json(), "family": None, "init": str(init), "strategy": strategy, "model": {}}
    said["training"] = {**said["training"], **SHORT, **training}
    return recipe(said, changes)


def begun(name, folder, layers=2, **training):
    """A small recipe, and the folder of the model that it gave after two steps."""
    first = small_recipe(name, folder, changes={"model.layers": str(layers)}, **training)
    go(recipe(first.to_json(), {"training.steps": "2"}), folder / "first")
    return first, folder / "first" / "model"


def contents(checkpoint):
    return {
        (file.name, key): hashlib.sha256(array.tobytes()).hexdigest()
        for file in checkpoint.glob("*.safetensors")
        for key, array in files.read(file).arrays.items()
    }


def changed(before, after):
    """The tensors that are not the same to the last bit."""
    assert before.keys() == after.keys()
    return {name for name in after if before[name].tobytes() != after[name].tobytes()}


RUNS = {
    "gpt2": ("finetune", {"layer_decay": 0.5, "optimiser": "muon"}, ".*"),
    "tst": ("partial", {"frozen_layers": 1, "layer_decay": 0.9}, r"(blocks\.1|output)\..*"),
    "bert": ("lora", {"lora_rank": 2}, r".*\.(query|value)\.weight"),
    "lstm": ("lora", {"lora_rank": 3, "lora_alpha": 3.0}, r"layers.*weight"),
}
"""By a small recipe: how it goes on, and which tensors are other ones after it."""


@pytest.mark.parametrize("name", RUNS)
def test_a_strategy_trains_its_weights_alone_and_goes_on_to_the_same_bit(name, tmp_path):
    strategy, how, trained = RUNS[name]
    first, init = begun(name, tmp_path)
    if name == "bert":  # the layout of a model does not matter
        load(init).save(init := tmp_path / "init", layout="huggingface")
    said = said_of(first, init, strategy, **how)
    whole = go(said, tmp_path / "whole")
    kept, again = (tmp_path / run / "checkpoints" for run in ("whole", "again"))
    shutil.copytree(kept / "step-00000002", again / "step-00000002")
    go(said, tmp_path / "again", resume=True)
    assert contents(again / "step-00000004") == contents(kept / "step-00000004")
    before, model = load(init).state, load(tmp_path / "whole" / "model")
    assert changed(before, model.state) == {key for key in before if re.fullmatch(trained, key)}
    rate = learning_rate(said.training, 3)
    rates = {group["lr"]: rate * group["share"] for group in whole.optimiser.param_groups}
    assert all(lr == expected for lr, expected in rates.items())
    assert len(rates) == (1 if strategy == "lora" else 4 if name == "gpt2" else 2)
    # What was saved is a plain model, which computes what was validated.
    means = whole.objective.means(model.network, whole.batches.valid(8))
    assert means["loss"] == pytest.approx(whole.valid["loss"], rel=1e-6)


def test_a_run_does_not_go_on_from_another_model_than_it_started_from(tmp_path):
    first, init = begun("vit", tmp_path)
    said = said_of(first, init, "lora", lora_rank=1)
    run = go(said, tmp_path / "run")
    trained, every = count(run.network)
    assert every - trained == sum(load(init).state[k].size for k in load(init).state) - 17 * 3
    shutil.copy(tmp_path / "run" / "model" / "model.safetensors", init)
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000004")
    with pytest.raises(AnotherRecipe, match="is not the model that the run started from any more"):
        go(said, tmp_path / "run", resume=True)


def given_to(config):
    """Something that a network of any family can read."""
    reads, random = family_of(config).reads, torch.Generator().manual_seed(0)
    if reads in ("text", "pixels"):
        return torch.randint(config.vocabulary, (3, config.context or 6), generator=random)
    shape = family_of(config).input_shape(config)
    return torch.randn(3, *reversed(shape), generator=random, dtype=torch.float64)


def numbers_of(network, given, dtype):
    """All that a network gives, in one row."""
    given = given.to(dtype) if given.is_floating_point() else given
    with torch.no_grad():
        found = network.eval().to(dtype)(given)
    found = [found] if torch.is_tensor(found) else vars(found).values()
    return torch.cat([one.flatten() for one in found if one is not None])


@pytest.mark.parametrize("family", FAMILIES)
def test_low_rank_updates_are_l1_and_their_count_is_l2_and_merged_they_compute_the_same(family):
    # Random variances of batch normalisation enlarge what rounding leaves, layer by layer.
    config = small(family, **({"normalisation": "layer"} if family == "patchtst" else {}))
    (objective, *_) = family_of(config).objectives
    said = {"init": "x", "objective": objective, "strategy": "lora"}
    said["training"] = {"lora_rank": 2, "lora_alpha": 3.0, "lora_matrices": "all"}
    read = recipe(said)
    strategy = STRATEGIES["lora"](read, task_named(objective).learns)
    network, given = filled(config).network, given_to(config)
    before = numbers_of(network, given, torch.float64)
    strategy.prepare(network, config, [])
    agree(numbers_of(network, given, torch.float64), before)  # B begins as zero
    adapted = {n: m for n, m in network.named_modules() if isinstance(m, LowRank)}
    shapes = [tuple(module.plain.weight.shape) for module in adapted.values()]
    expected = sum(equations.low_rank_parameters(2, wide, tall) for tall, wide in shapes)
    assert count(network)[0] == expected > 0
    for number, module in enumerate(adapted.values()):
        torch.nn.init.normal_(module.B, generator=torch.Generator().manual_seed(number))
        W, A, B = (t.detach().numpy() for t in (module.plain.weight, module.A, module.B))
        agree(module.weight.detach().numpy(), equations.low_rank_update(W, A, B, 3.0), 1e-15)
    for dtype, within in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
        apart = numbers_of(network, given, dtype)
        plain = family_of(config).network(config).to(dtype)
        plain.load_state_dict(strategy.plain(network.state_dict()))
        agree(numbers_of(plain, given, dtype), apart, within)
        # The matrices are those of the adapted network to the last bit.
        merged = dict(plain.named_parameters())
        for name, module in adapted.items():
            assert torch.equal(merged[f"{name}.weight"], module.weight)
        if dtype == torch.float64:
            assert (apart - before).abs().max() > 1e-3


def test_each_layer_down_learns_by_a_factor_less():
    config = small("bert", layers=2)
    network = family_of(config).network(config)
    given = Training(optimiser="sgd", learning_rate=0.5, weight_decay=0.0, layer_decay=0.5)
    said = {"init": "x", "objective": "mlm", "training": given.to_json()}
    shares = STRATEGIES["finetune"](recipe(said), task_named("mlm").learns).shares(network, config)
    expected = {"embedding.": 1 / 8, "norm.": 1 / 8, "blocks.0.": 1 / 4, "blocks.1.": 1 / 2}
    expected |= {"mlm_head.": 1.0, "pooler.": 1.0}
    for start, share in expected.items():
        assert {shares[name] for name in shares if name.startswith(start)} == {share}
    follow = optimiser(network, given, shares)
    for group in follow.param_groups:
        group["lr"] = 0.5 * group["share"]
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    follow.step()
    for name, parameter in network.named_parameters():
        assert torch.equal(parameter, before[name] - 0.5 * shares[name]), name


@pytest.mark.parametrize("family", ["transformer 1", "transformer 2", "bert", "vit", "tst"])
def test_what_makes_the_input_of_the_first_layer_stands_below_it(family):
    family, *variant = family.split()
    config = small(family, **({"variant": int(*variant)} if variant else {}))
    network = family_of(config).network(config).double()
    seen = []
    network.blocks[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    network(given_to(config))
    seen[0].square().sum().backward()
    reached = {name for name, parameter in network.named_parameters() if parameter.grad is not None}
    assert reached == {name for name, depth in depths(network, config).items() if depth == 0}


IMPOSSIBLE = {
    "without a model": ({"family": "vit", "init": None}, "say which as init"),
    "unknown": ({"strategy": "loar"}, "unknown strategy 'loar'; did you mean lora"),
    "not a word": ({"strategy": 3}, "strategy must be text, got 3"),
    "another's setting": (
        {"training": {"frozen_layers": 1}},
        "frozen_layers is for strategy partial, not for lora",
    ),
    "no rate": (
        {"training": {"layer_decay": 0}},
        "layer_decay must be above 0 and at most 1, got 0",
    ),
    "no rank": ({"training": {"lora_rank": 0}}, "lora_rank must be at least 1"),
    "too many layers": (
        {"strategy": "partial", "training": {"frozen_layers": 3}},
        "frozen_layers is 3, but the model has 2 layers",
    ),
    "too large a rank": (
        {"training": {"lora_rank": 17}},
        "lora_rank is 17, but blocks.0.attention.query has 16 x 16 weights; expected 16 at most",
    ),
}


def test_every_strategy_is_named_where_the_key_is_explained():
    (meaning,) = (row["meaning"] for row in keys() if row["key"] == "strategy")
    assert set(STRATEGIES) <= set(re.findall(r"\w+", meaning))


def test_what_no_strategy_can_do_is_refused(tmp_path):
    first, init = begun("vit", tmp_path)
    for case, (changes, message) in IMPOSSIBLE.items():
        said = {**first.to_json(), "family": None, "init": str(init), "model": {}}
        said |= {"strategy": "lora", **changes}
        with pytest.raises((ImpossibleSetting, UnknownSetting), match=message):
            go(recipe(said), tmp_path / case)
