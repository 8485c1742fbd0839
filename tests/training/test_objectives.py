"""What the loop computes is what the paper's equations give on the same parameters and batch."""

import functools
import json

import numpy as np
import pytest
import strategies
import torch
from small import SMALL, small_recipe

from vesalius.checkpoints import layout
from vesalius.checkpoints.layout import letters
from vesalius.data.masking import IGNORED
from vesalius.equations import (
    OneHot,
    bert_mlm_logits,
    bert_pooled,
    bert_states,
    cross_entropy_of_class,
    distributions,
    feedforward_loss,
    label_logits,
    masked_loss,
    masked_square_error,
    nsp_distribution,
    patches,
    recurrent_loss,
    softmax,
    transformer_loss,
    tst_outputs,
    tst_series,
    vit_class_logits,
    vit_patches,
)
from vesalius.tasks import all_tasks, task_named
from vesalius.tasks.objective import tensors
from vesalius.training import Callback, Run
from vesalius.training.initialisation import HEADS, freeze
from vesalius.training.processes import Processes
from vesalius.training.recipe import quick_bfloat16

WITHIN = 2e-6  # relative: the loop computes in single precision, the equations in double
STILL = {"learning_rate": 0.0, "weight_decay": 0.0, "warmup": 0, "clip": 0.0}
WHOLE = {"optimiser": "sgd", "weight_decay": 0.0, "warmup": 0, "clip": 0.0, "schedule": "constant"}
UNEVEN = {"data.mask_ratio": "0.3", "data.whole_words": "true", "data.vocabulary": "80"}
"""With these, rows have different numbers of masked tokens."""


class Peek(Callback):
    """Keeps what a run begins with, and what it then says of each step."""

    def begins(self, run):
        self.config, self.batches, self.settings = run.config, run.batches, run.settings
        state = {name: t.double().numpy().copy() for name, t in run.network.state_dict().items()}
        self.theta = letters(run.config, state)
        self.losses, self.valid = [], {}

    def stepped(self, run, metrics):
        self.losses.append(metrics)

    def validated(self, run, metrics):
        self.valid = metrics


def seen(name, folder, steps=1, changes=None, **training):
    """A run without dropout whose parameters stay, as it was seen from outside."""
    peek = Peek()
    training = {"steps": steps, "batch": 6, "validate_on": 50, **STILL, **training}
    recipe = small_recipe(name, folder, dropout=0.0, changes=changes, **training)
    go(recipe, folder / "run", [peek])
    return peek


def go(recipe, folder, callbacks=()):
    with Processes("ddp") as processes:
        return Run(recipe, folder, processes, resume=False).go(list(callbacks))


def logits(peek, ids):
    return strategies.logits(peek.config, peek.theta, OneHot(ids, peek.config.vocabulary))


def close(ours, theirs):
    assert theirs > 0
    assert ours == pytest.approx(theirs, rel=WITHIN)


@pytest.mark.proves(19)
def test_the_loss_of_ffnn_is_19(tmp_path):
    peek = seen("ffnn", tmp_path)
    batch = peek.batches.train(0)
    rows = zip(batch["ids"], batch["targets"], strict=True)
    losses = [feedforward_loss(int(c), softmax(logits(peek, ids))) for ids, c in rows]
    close(peek.losses[0]["loss"], np.mean(losses))


@pytest.mark.proves(20)
@pytest.mark.parametrize("name", ["gpt2", "transformer", "igpt"])
def test_the_loss_of_a_transformer_is_20_a_token(name, tmp_path):
    peek = seen(name, tmp_path)
    batch = peek.batches.train(0)
    rows = zip(batch["ids"], batch["targets"], strict=True)
    losses = [transformer_loss(c, distributions(logits(peek, ids))) for ids, c in rows]
    close(peek.losses[0]["loss"], sum(losses) / batch["targets"].size)


@pytest.mark.proves(21)
@pytest.mark.parametrize("name", ["rnn", "lstm"])
def test_the_loss_of_a_recurrent_model_is_21_with_its_state_carried_from_step_to_step(
    name, tmp_path
):
    peek = seen(name, tmp_path, steps=3)
    windows = [peek.batches.train(step) for step in range(3)]
    whole = np.concatenate([batch["ids"] for batch in windows], axis=1)
    targets = np.concatenate([batch["targets"] for batch in windows], axis=1)
    assert (whole[:, 1:] == targets[:, :-1]).all()
    Y_hat = [distributions(logits(peek, ids)) for ids in whole]
    each = [
        [recurrent_loss(int(c[i]), y.T[i]) for i in range(len(c))]
        for c, y in zip(targets, Y_hat, strict=True)
    ]
    for step, losses in enumerate(np.split(np.array(each), 3, axis=1)):
        close(peek.losses[step]["loss"], losses.mean())


def test_a_state_that_is_not_carried_begins_anew_each_step(tmp_path):
    peek = seen("lstm", tmp_path, steps=2, changes={"data.carried": "false"})
    for step in range(2):
        batch = peek.batches.train(step)
        rows = zip(batch["ids"], batch["targets"], strict=True)
        losses = [transformer_loss(c, distributions(logits(peek, ids))) for ids, c in rows]
        close(peek.losses[step]["loss"], sum(losses) / batch["targets"].size)


def bert_losses(peek, batch):
    """(67) and the cross entropy of (58), row by row."""
    theta, V = peek.theta, peek.config.vocabulary
    mlm, nsp = [], []
    for row in range(len(batch["ids"])):
        ids, segments, real, targets = (
            batch[key][row] for key in ("ids", "segments", "real", "targets")
        )
        H = bert_states(theta, OneHot(ids, V), segments, real)
        m = targets != IGNORED
        if peek.config.mlm_head:
            mlm.append(masked_loss(bert_mlm_logits(theta, H), np.where(m, targets, 0), m))
        if peek.config.nsp_head:
            y_hat = nsp_distribution(theta.Pi_N, bert_pooled(theta, H))
            nsp.append(cross_entropy_of_class(int(batch["next"][row]), y_hat))
    chosen = int((batch["targets"] != IGNORED).sum())
    return sum(mlm) / chosen, np.mean(nsp) if nsp else None


@pytest.mark.proves(67)
def test_the_loss_of_masked_text_is_67_a_chosen_token(tmp_path):
    peek = seen("bert", tmp_path, changes={"objective": "mlm"})
    mlm, _ = bert_losses(peek, peek.batches.train(0))
    close(peek.losses[0]["loss"], mlm)
    assert "nsp" not in peek.losses[0]


@pytest.mark.proves(58)
def test_the_loss_of_sentence_pairs_is_the_cross_entropy_of_58(tmp_path):
    peek = seen("bert", tmp_path, changes={"objective": "nsp"})
    assert set(peek.batches.train(0)["next"]) == {0, 1}
    _, nsp = bert_losses(peek, peek.batches.train(0))
    close(peek.losses[0]["loss"], nsp)


@pytest.mark.proves(58, 67)
def test_bert_is_trained_on_the_sum_of_both(tmp_path):
    peek = seen("bert", tmp_path)
    mlm, nsp = bert_losses(peek, peek.batches.train(0))
    close(peek.losses[0]["mlm"], mlm)
    close(peek.losses[0]["nsp"], nsp)
    close(peek.losses[0]["loss"], mlm + nsp)


def label_columns(peek, batch):
    """z of every row by the equations, with its padding."""
    for ids, segments, real in zip(batch["ids"], batch["segments"], batch["real"], strict=True):
        H = bert_states(peek.theta, OneHot(ids, peek.config.vocabulary), segments, real)
        yield label_logits(peek.theta.Pi_Y, H)


def test_the_loss_of_tags_is_the_cross_entropy_of_a_word(tmp_path):
    peek = seen("bert tags", tmp_path)
    batch = peek.batches.train(0)
    assert batch["segments"].any()  # words with a capital
    counts = batch["targets"] != IGNORED
    rows = zip(label_columns(peek, batch), batch["targets"], counts, strict=True)
    losses = [masked_loss(z, np.where(m, c, 0), m) for z, c, m in rows]
    close(peek.losses[0]["loss"], sum(losses) / counts.sum())


def test_the_loss_of_answers_is_the_cross_entropy_of_start_and_end(tmp_path):
    peek = seen("bert answers", tmp_path, batch=20)
    batch = peek.batches.train(0)
    assert not batch["start"].all()  # some windows hold no answer
    losses = []
    for row, z in enumerate(label_columns(peek, batch)):
        last = int(batch["real"][row].sum()) - 1
        between = int(batch["segments"][row].argmax())
        places = [0, *range(between, last)]  # [CLS] and the paragraph
        for logits, name in zip(z[:, places], ("start", "end"), strict=True):
            losses.append(-np.log(softmax(logits)[places.index(int(batch[name][row]))]))
    close(peek.losses[0]["loss"], 2 * np.mean(losses))


def test_the_loss_of_masked_series_is_the_square_error_of_a_masked_value(tmp_path):
    peek = seen("tst series", tmp_path, changes={"model.normalisation": "layer"})
    batch = peek.batches.train(0)
    restored = np.concatenate(
        [
            tst_series(peek.theta, x.T.astype(float), real)
            for x, real in zip(batch["series"], batch["real"], strict=True)
        ],
        axis=1,
    )
    wanted, masked = (np.concatenate(list(batch[key])).T for key in ("target", "masked"))
    assert 0 < masked.sum() < masked.size
    close(
        peek.losses[0]["loss"],
        masked_square_error(restored, wanted.astype(float), ~masked),
    )


def test_the_loss_of_masked_patches_is_the_square_error_of_a_masked_value(tmp_path):
    peek = seen("vit patches", tmp_path)
    batch = peek.batches.train(0)
    errors = []
    for pixels, masked in zip(batch["pixels"], batch["masked"], strict=True):
        Omega = patches(pixels.transpose(1, 2, 0).astype(float), peek.config.patch)
        errors.append(((vit_patches(peek.theta, Omega, masked) - Omega) ** 2)[:, masked])
    close(peek.losses[0]["loss"], np.concatenate(errors, axis=1).mean())


def test_the_loss_of_masked_pixels_is_that_of_the_masked_ones(tmp_path):
    peek = seen("igpt masked", tmp_path)
    batch = peek.batches.train(0)
    chosen = batch["targets"] != IGNORED
    losses = [
        masked_loss(logits(peek, ids), np.where(m, c, 0), m)
        for ids, c, m in zip(batch["ids"], batch["targets"], chosen, strict=True)
    ]
    close(peek.losses[0]["loss"], sum(losses) / chosen.sum())


@pytest.mark.proves(17)
def test_the_loss_of_image_classes_is_their_cross_entropy(tmp_path):
    peek = seen("vit", tmp_path)
    batch = peek.batches.train(0)
    losses = []
    for pixels, c in zip(batch["pixels"], batch["labels"], strict=True):
        Omega = patches(pixels.transpose(1, 2, 0).astype(float), peek.config.patch)
        losses.append(cross_entropy_of_class(int(c), softmax(vit_class_logits(peek.theta, Omega))))
    close(peek.losses[0]["loss"], np.mean(losses))


@pytest.mark.proves(17)
def test_the_loss_of_series_classes_is_their_cross_entropy(tmp_path):
    peek = seen("tst", tmp_path, changes={"model.normalisation": "layer"})
    batch = peek.batches.train(0)
    losses = []
    for series, real, c in zip(batch["series"], batch["real"], batch["labels"], strict=True):
        z = tst_outputs(peek.theta, series[real].T.astype(float))
        losses.append(cross_entropy_of_class(int(c), softmax(z)))
    close(peek.losses[0]["loss"], np.mean(losses))


def test_the_loss_of_series_values_is_their_square_error(tmp_path):
    peek = seen("tst values", tmp_path, changes={"model.normalisation": "layer"})
    batch = peek.batches.train(0)
    errors = [
        tst_outputs(peek.theta, series[real].T.astype(float)) - wanted
        for series, real, wanted in zip(
            batch["series"], batch["real"], batch["targets"], strict=True
        )
    ]
    close(peek.losses[0]["loss"], np.mean(np.square(errors)))


def test_what_a_bert_may_lack_is_known_as_a_head():
    parts = [
        {name.partition(".")[0] for name in layout.shapes(strategies.small("bert", **heads))}
        for heads in strategies.BERT_HEADS
    ]
    assert set.union(*parts) - set.intersection(*parts) <= {*HEADS}


def test_every_objective_has_a_small_recipe_or_is_part_of_one():
    small = [task_named(objective).learns for _, objective, _, _ in SMALL.values()]
    covered = [set(objective.losses) for objective in small]
    for objective in (task.learns for task in all_tasks()):
        part = any(set(objective.losses) < losses for losses in covered)
        assert objective in small or part, f"{objective.name} needs a recipe in small.py"


def test_a_validation_is_the_mean_over_all_that_is_held_out(tmp_path):
    peek = seen("gpt2", tmp_path, batch=7, validate_on=10_000)
    losses, right, count = 0.0, 0, 0
    batches = list(peek.batches.valid())
    assert len({len(batch["ids"]) for batch in batches}) == 2  # the last one is shorter
    for batch in batches:
        for ids, c in zip(batch["ids"], batch["targets"], strict=True):
            Z, m = logits(peek, ids), c != IGNORED  # padding at the end of the text
            losses += masked_loss(Z, np.where(m, c, 0), m)
            right += int((Z.argmax(axis=0) == c).sum())
            count += m.sum()
    assert count > len(peek.batches.held_out.ids) - 10
    close(peek.valid["loss"], losses / count)
    assert peek.valid["token accuracy"] == pytest.approx(right / count, abs=1e-9)


def after(name, folder, parts, changes=None):
    """Parameters after three steps of plain gradient descent, in so many parts a step."""
    how = {"steps": 3, "batch": 4, "learning_rate": 0.3, "accumulate": parts, **WHOLE}
    recipe = small_recipe(name, folder, dropout=0.0, changes=changes, **how)
    return go(recipe, folder / f"in-{parts}").model.state


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("gpt2", {}),
        ("ffnn", {}),
        ("lstm", {}),  # carries its state
        ("rnn", {}),
        ("bert", UNEVEN),
        ("vit", {}),
        ("vit patches", {}),
        ("tst series", {"model.normalisation": "layer"}),
    ],
)
def test_a_batch_in_parts_gives_the_gradients_of_the_whole(name, changes, tmp_path):
    whole = after(name, tmp_path, 1, changes)
    for parts in (2, 4):
        again = after(name, tmp_path, parts, changes)
        assert whole.keys() == again.keys()
        for key, array in whole.items():  # whose gradients are summed in another order
            np.testing.assert_allclose(again[key], array, rtol=1e-5, atol=1e-6, err_msg=key)


def test_parts_of_masked_text_differ_in_how_much_they_ask(tmp_path):
    """Otherwise the test above would not tell a mean of means from the mean."""
    peek = seen("bert", tmp_path, batch=4, changes=UNEVEN)
    chosen = (peek.batches.train(0)["targets"] != IGNORED).sum(axis=1)
    assert len(set(chosen)) > 1


@pytest.mark.parametrize(
    "name", ["gpt2", "lstm", *(pytest.param(n, marks=pytest.mark.slow) for n in ("vit", "ffnn"))]
)
def test_a_compiled_network_computes_the_same(name, tmp_path, monkeypatch):
    compiler = functools.partial(torch.compile, backend="aot_eager")  # needs no compiler for C
    monkeypatch.setattr(torch, "compile", compiler)
    losses = {}
    for compiled in (False, True):
        how = {"steps": 3, "batch": 4, "learning_rate": 0.3, "compile": compiled, **WHOLE}
        peek = Peek()
        recipe = small_recipe(name, tmp_path, dropout=0.0, **how)
        go(recipe, tmp_path / f"{compiled}", [peek])
        losses[compiled] = [metrics["loss"] for metrics in peek.losses]
    assert losses[True] == pytest.approx(losses[False], rel=1e-5)
    assert len(set(losses[True])) == 3


@pytest.mark.skipif(not quick_bfloat16(), reason="this processor has no bfloat16")
@pytest.mark.parametrize("name", ["ffnn", "rnn", "lstm", "gpt2", "bert", "vit", "tst series"])
def test_in_bfloat16_the_loss_is_nearly_the_same_and_parameters_stay_single(name, tmp_path):
    losses = {}
    for precision in ("float32", "bfloat16"):
        how = {"steps": 3, "batch": 4, "learning_rate": 0.03, "precision": precision, **WHOLE}
        peek = Peek()
        recipe = small_recipe(name, tmp_path, dropout=0.0, **how)
        outcome = go(recipe, tmp_path / precision, [peek])
        losses[precision] = [metrics["loss"] for metrics in peek.losses]
        assert {array.dtype.name for array in outcome.model.state.values()} == {"float32"}
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.02)
    assert losses["bfloat16"] != losses["float32"]


@pytest.mark.parametrize("quick", [True, False])
def test_the_fastest_precision_is_bfloat16_where_hardware_does_it(quick, tmp_path, monkeypatch):
    monkeypatch.setattr("vesalius.training.loop.quick_bfloat16", lambda: quick)
    monkeypatch.setattr("vesalius.training.recipe.quick_bfloat16", lambda: True)
    losses = {}
    for precision in ("fastest", "bfloat16" if quick else "float32"):
        peek = Peek()
        recipe = small_recipe("ffnn", tmp_path, dropout=0.0, steps=2, precision=precision)
        outcome = go(recipe, tmp_path / precision, [peek])
        losses[precision] = [metrics["loss"] for metrics in peek.losses]
        position = outcome.folder / "checkpoints/step-00000002/position.json"
        used = json.loads(position.read_text())["machine"]
        assert used.endswith(", bfloat16" if quick else ", float32")
    assert losses["fastest"] == losses["bfloat16" if quick else "float32"]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, {}) for name in SMALL),
        ("bert", {"objective": "mlm"}),
        ("bert", {"objective": "nsp", "model.mlm_head": "true"}),
        ("bert", {"model.labels": "3"}),
        ("vit", {"model.masked_patch_head": "true", "model.pooler": "true"}),
        ("vit patches", {"model.classes": "3"}),
    ],
)
def test_what_gets_no_gradient_is_known_beforehand(name, changes, tmp_path):
    recipe = small_recipe(name, tmp_path, dropout=0.0, changes=changes, batch=4)
    with Processes("ddp") as processes:
        run = Run(recipe, tmp_path, processes, resume=False)
    run.network.requires_grad_(True)
    batch = tensors(run.batches.train(0), slice(None), run.device)
    sums, _ = run.objective.sums(run.network.train(), batch, None)
    sum(sums[part] for part in run.objective.losses).backward()
    reached = {k for k, p in run.network.named_parameters() if p.grad is not None}
    freeze(run.network, run.objective)
    wanted = {k for k, p in run.network.named_parameters() if p.requires_grad}
    assert reached == wanted
