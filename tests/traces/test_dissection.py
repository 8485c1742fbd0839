"""Dissection: every step by its name, edited on the way, read out at any depth, kept on disk."""

import html
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from agreement import agree
from processes import on_a_full_disk
from strategies import IDS, filled, given_to, small
from tokenizers import ByteLevelBPETokenizer

import vesalius as vs
from vesalius.equations import softmax
from vesalius.errors import (
    BrokenFile,
    EmptySequence,
    SequenceTooLong,
    TokenOutOfRange,
    UnknownStep,
    VesaliusError,
    WrongKind,
    WrongLength,
)
from vesalius.families import FAMILIES
from vesalius.model import Model, load
from vesalius.traces.dissection import dissect
from vesalius.traces.trace import read_trace


def dissected(family, **changes):
    config = small(family, **changes)
    return dissect(filled(config), given_to(config))


HEADS = "q[1,1] k[1,1] v[1,1] mu[1,1] P[1,1] q[1,2] k[1,2] v[1,2] mu[1,2] P[1,2]"
GATES = "q[1,{i}] p[1,{i}] k[1,{i}] r[1,{i}] d[1,{i}] c[1,{i}] s[1,{i}] h[1,{i}]"
ONE_LAYER = {
    "ffnn": "X h_0 h[1] z y_hat",
    "rnn": "X h[1,1] h[1,2] h[1,3] h[1,4] h[1,5] Z Y_hat",
    "lstm": " ".join(["X", *(GATES.format(i=i) for i in range(1, 6)), "Z Y_hat"]),
    "transformer": f"X Lambda S H[0] {HEADS} A[1] C[1] F[1] D[1] H[1] Z Y_hat",
    "gpt2": f"X S H[0] H_bar[1] {HEADS} A[1] C[1] C_bar[1] F[1] D[1] H[1] H_e Z Y_hat",
    "igpt": f"X S H[0] H_bar[1] {HEADS} A[1] C[1] C_bar[1] F[1] D[1] H[1] H_e Z Y_hat",
    "bert": f"X H[0] S {HEADS} A[1] C[1] F[1] D[1] H[1] H_M H_O Z Y_hat h_C z_C y_hat_C",
    "vit": f"X H[0] S H_bar[1] {HEADS} A[1] C[1] C_bar[1] F[1] D[1] H[1] H_e z",
    "tst": f"X H[0] S {HEADS} A[1] C[1] F[1] D[1] H[1] h_0 z",
    "patchtst": "mu_r sigma_r Omega_n Omega_p X H[0] S "
    f"{HEADS} A[1] C[1] F[1] D[1] H[1] H_f Y_n Omega_hat",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_steps_of_every_family_have_their_names_and_their_order(family):
    two_heads = {"heads": 2} if HEADS in ONE_LAYER[family] else {}
    trace = dissected(family, layers=1, **two_heads)
    expected = ONE_LAYER[family].split()
    # Other steps may come to be told of in between; those there are keep their order.
    assert [name for name in trace.names() if name in expected] == expected
    assert trace.family == family
    assert trace.ids == ([] if family in ("vit", "tst", "patchtst") else given_to(small(family)))
    for step in trace.steps:
        assert isinstance(step.value, np.ndarray)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_step_is_summed_up_in_numbers(family):
    trace = dissected(family)
    summaries = trace.summaries()
    assert [summary.name for summary in summaries] == [step.name for step in trace.steps]
    json.dumps([summary.to_json() for summary in summaries])
    for summary, step in zip(summaries, trace.steps, strict=True):
        finite = step.value[np.isfinite(step.value)]
        assert summary.shape == step.value.shape
        assert summary.norm == pytest.approx(np.sqrt((finite**2).sum()))
        assert (summary.least, summary.most) == (finite.min(), finite.max())


def test_a_mask_says_how_much_of_it_is_minus_infinity():
    trace = dissected("gpt2")
    summary = next(summary for summary in trace.summaries() if summary.name == "S")
    assert summary.masked == 10 / 25
    assert all(s.masked == 0 for s in trace.summaries() if s.name != "S")


def test_a_trace_is_a_mapping_of_names_to_values():
    trace = dissected("gpt2")
    assert len(trace) == len(trace.names())
    assert list(trace) == list(trace.keys()) == trace.names()
    assert "A[1]" in trace
    assert "A[9]" not in trace
    assert dict(trace)["A[1]"] is trace["A[1]"]
    assert trace == trace  # by identity: arrays have no one truth
    assert trace != dissected("gpt2")
    assert trace.get("A[9]") is None


def test_a_trace_tells_the_essential_in_a_few_lines(tmp_path):
    trace = dissected("gpt2")
    text = repr(trace)
    assert text.startswith(f"Trace of gpt2: {len(trace)} steps\n")
    assert "5 tokens: '3' '1' '4' '1' '5'" in text
    assert "likeliest" in text
    assert len(text.splitlines()) <= 6
    assert max(map(len, text.splitlines())) < 120
    trace.save(tmp_path / "t.safetensors")
    assert "5 tokens" in repr(read_trace(tmp_path / "t.safetensors"))
    assert repr(dissect(trace.model, IDS, only=())).startswith("Trace of gpt2: 0 steps")
    assert "tells" not in repr(dissected("vit"))
    assert "classes: '" in repr(dissected("vit"))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_trace_is_a_table_in_a_notebook(family):
    trace = dissected(family)
    page = trace._repr_html_()
    for summary in trace.summaries():
        if "," not in summary.name:
            assert f"<td>{summary.name}</td>" in page
    for title in {step.equation.title for step in trace.steps if "head" not in step.place}:
        assert page.count(html.escape(title)) >= 1
    assert "<script" not in page
    assert "<b>" not in dissected("gpt2", vocabulary=17)._repr_html_()


def test_a_step_is_found_by_its_name_and_an_unknown_one_is_named():
    trace = dissected("gpt2")
    assert trace["A[2]"].shape == (12, 5)
    assert trace["mu[1,3]"].shape == (5, 5)
    with pytest.raises(UnknownStep, match=r"no step 'A\[3\]' was recorded; did you mean A\["):
        trace["A[3]"]


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("A[2]", ["A[2]"]),
        ("mu[1]", ["mu[1,1]", "mu[1,2]", "mu[1,3]"]),
        ("mu[*,2], Z", ["mu[1,2]", "mu[2,2]", "Z"]),
        (["H"], ["H[0]", "H[1]", "H[2]"]),
        ((), []),
    ],
)
def test_only_the_steps_that_were_asked_for_are_kept(only, expected):
    model = filled(small("gpt2"))
    trace, whole = dissect(model, IDS, only=only), dissect(model, IDS)
    assert trace.names() == expected
    for name in expected:
        np.testing.assert_array_equal(trace[name], whole[name])


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("A[1], mu[9,9]", r"no step of this model is called 'mu\[9,9\]': did you mean mu\["),
        (["H", "Q", "W"], "called 'Q': .*; or 'W': "),
        ("P[3,1]", r"called 'P\[3,1\]'"),
        (3, "expected names of steps, as in .*; got int 3"),
        ([3], "expected names of steps"),
        ("A[1],", "cannot read ''"),
    ],
)
def test_a_step_that_never_comes_is_named_with_the_nearest(only, message):
    with pytest.raises(UnknownStep, match=message):
        dissect(filled(small("gpt2")), IDS, only=only)


def test_steps_that_two_patterns_name_are_met_by_both():
    assert dissect(filled(small("gpt2")), IDS, only="H, H[1], *[2]").names()[0] == "H[0]"


# ----------------------------------------------------------------------------------------- editing


@pytest.mark.parametrize("family", ["gpt2", "transformer", "bert"])
@pytest.mark.parametrize(("layer", "head"), [(1, 1), (1, 3), (2, 2)])
def test_a_head_that_is_switched_off_is_one_whose_rows_of_the_projection_are_zero(
    family, layer, head
):
    model = filled(small(family, value=5))
    off = dissect(model, IDS, edit={f"P[{layer},{head}]": np.zeros_like})
    state = {name: array.copy() for name, array in model.state.items()}
    # Ours is the transpose of W_O, so that its rows are columns here.
    name = f"blocks.{layer - 1}.attention.output.weight"
    state[name][:, (head - 1) * 5 : head * 5] = 0
    without = Model(model.config, state)
    with torch.no_grad():
        result = without.network(torch.tensor([IDS]))
    logits = result.mlm if family == "bert" else result
    agree(off["Z"], logits[0].T, within=1e-10)
    assert not np.allclose(off["Z"], dissect(model, IDS)["Z"])
    assert not off[f"P[{layer},{head}]"].any()


def test_an_edit_changes_what_follows_and_nothing_before_it():
    model = filled(small("gpt2"))
    state = {name: array.copy() for name, array in model.state.items()}
    plain = dissect(model, IDS)
    edited = dissect(model, IDS, edit={"A[2]": lambda A: A + 1})
    names = plain.names()
    for name in names[: names.index("A[2]")]:
        np.testing.assert_array_equal(edited[name], plain[name])
    np.testing.assert_array_equal(edited["A[2]"], plain["A[2]"] + 1)
    for name in ("C[2]", "D[2]", "H[2]", "Z", "Y_hat"):
        assert not np.array_equal(edited[name], plain[name])
    for name, array in model.state.items():
        np.testing.assert_array_equal(array, state[name])


def test_a_value_of_another_trace_can_be_patched_in():
    model = filled(small("gpt2"))
    clean, other = dissect(model, IDS), dissect(model, [9, 9, 4, 1, 5])
    patched = dissect(model, [9, 9, 4, 1, 5], edit={"H[1]": lambda _: clean["H[1]"]})
    np.testing.assert_array_equal(patched["Z"], clean["Z"])
    assert not np.allclose(other["Z"], clean["Z"])

    def last_token(H):
        H = H.copy()
        H[:, -1] = clean["H[1]"][:, -1]
        return H

    partly = dissect(model, [9, 9, 4, 1, 5], edit={"H[1]": last_token})
    agree(partly["Z"][:, :-1], other["Z"][:, :-1])
    assert not np.allclose(partly["Z"][:, -1], other["Z"][:, -1])


def test_a_gate_can_be_held_shut():
    model = filled(small("lstm", layers=1))
    shut = dissect(model, IDS, edit={f"p[1,{i}]": np.zeros_like for i in range(1, 6)})
    assert not shut["p[1,3]"].any()
    assert not shut["k[1,3]"].any(), "nothing of the context is kept"
    assert not np.allclose(shut["Z"], dissect(model, IDS)["Z"])
    assert shut.steps.edited == {f"p[1,{i}]" for i in range(1, 6)}


def test_edits_hold_although_their_steps_are_not_kept():
    model = filled(small("gpt2"))
    edit = {"A[1]": np.zeros_like}
    whole, only = dissect(model, IDS, edit=edit), dissect(model, IDS, only="Z", edit=edit)
    assert only.names() == ["Z"]
    np.testing.assert_array_equal(only["Z"], whole["Z"])


@pytest.mark.parametrize("wrong", [lambda A: A[:, :-1], lambda A: A.T, lambda A: A[None], np.sum])
def test_an_edit_of_another_shape_is_refused(wrong):
    with pytest.raises(WrongLength, match=r"edit of A\[1\] gives shape .*expected \(12, 5\)"):
        dissect(filled(small("gpt2")), IDS, edit={"A[1]": wrong})


@pytest.mark.parametrize("step", ["A[3]", "A[1,1]", "P[3]", "mu[1,4]", "nonsense", ""])
def test_an_edit_of_a_step_that_never_comes_is_refused(step):
    with pytest.raises(UnknownStep, match="to edit"):
        dissect(filled(small("gpt2")), IDS, edit={step: np.zeros_like})


# ----------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("gpt2", {}),
        ("gpt2", {"tied": False}),
        ("igpt", {}),
        ("transformer", {"variant": 1}),
        ("transformer", {"variant": 2, "tied": False}),
        ("bert", {}),
        ("lstm", {}),
        ("rnn", {"tied": False, "output_bias": True}),
    ],
)
def test_the_last_layer_reads_out_as_the_model_itself(family, changes):
    trace = dissected(family, **changes)
    np.testing.assert_array_equal(trace.read_out(2), trace["Y_hat"])
    for layer in (0, 1):
        early = trace.read_out(layer)
        assert early.shape == trace["Y_hat"].shape
        agree(early.sum(axis=0), np.ones(5))
        assert not np.allclose(early, trace["Y_hat"])


def test_reading_out_is_refused_where_there_is_nothing_to_read(tmp_path):
    with pytest.raises(VesaliusError, match="no MLM head"):
        dissected("bert", mlm_head=False).read_out(2)
    trace = dissected("gpt2")
    with pytest.raises(UnknownStep, match=r"H\[3\]"):
        trace.read_out(3)
    trace.save(tmp_path / "trace.safetensors")
    with pytest.raises(WrongKind, match="has no model"):
        read_trace(tmp_path / "trace.safetensors").read_out(2)


@pytest.mark.parametrize("family", ["ffnn", "rnn", "lstm", "transformer", "gpt2", "bert"])
def test_the_likeliest_words_come_first_with_their_probabilities(family):
    trace = dissected(family)
    logits = trace["z"] if family == "ffnn" else trace["Z"][:, -1]
    found = trace.likeliest(5)
    assert [i for i, _, _ in found] == np.argsort(-logits)[:5].tolist()
    agree([p for _, _, p in found], np.sort(softmax(logits))[::-1][:5])
    assert len(trace.likeliest(100)) == 17
    assert sum(p for _, _, p in trace.likeliest(17)) == pytest.approx(1)


def test_likeliest_words_need_their_distribution():
    with pytest.raises(UnknownStep, match="record Y_hat"):
        dissect(filled(small("gpt2")), IDS, only="A").likeliest()
    with pytest.raises(UnknownStep, match="no distribution"):
        dissected("vit").likeliest()


# ------------------------------------------------------------------------------------------ saving


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_trace_comes_back_from_its_file_to_the_last_bit(tmp_path, family, dtype):
    config = small(family)
    trace = dissect(filled(config, dtype=dtype), given_to(config))
    trace.save(tmp_path / "trace.safetensors")
    again = read_trace(tmp_path / "trace.safetensors")
    assert again.names() == trace.names()
    assert (again.family, again.ids, again.tokens()) == (family, trace.ids, trace.tokens())
    latest = list({step.name: step for step in trace.steps}.values())  # X of ViT comes twice
    for before, after in zip(latest, again.steps, strict=True):
        assert (after.name, after.symbol, after.place) == (before.name, before.symbol, before.place)
        assert after.equation is before.equation
        assert after.value.dtype == before.value.dtype
        np.testing.assert_array_equal(after.value, before.value)


def test_a_saved_trace_has_the_permissions_of_other_files(tmp_path):
    (tmp_path / "ordinary").touch()
    dissected("gpt2").save(tmp_path / "trace.safetensors")
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1


def test_a_trace_that_does_not_fit_on_the_disk_leaves_the_one_that_was_there(tmp_path):
    file = tmp_path / "trace.safetensors"
    file.write_text("what was there")
    done = on_a_full_disk("dissect", "gpt", "He shook", "--save", str(file))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert file.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [file]


def test_a_trace_of_some_steps_can_be_saved_too(tmp_path):
    trace = dissect(filled(small("gpt2")), IDS, only="mu, Y_hat")
    trace.save(tmp_path / "trace.safetensors")
    again = read_trace(tmp_path / "trace.safetensors")
    assert again.names() == trace.names()
    assert again.likeliest(3) == trace.likeliest(3)


def test_a_trace_that_is_damaged_is_named(tmp_path):
    file, description = tmp_path / "trace.safetensors", tmp_path / "trace.safetensors.json"
    dissected("gpt2").save(file)
    whole = json.loads(description.read_text())
    description.write_text("{")
    with pytest.raises(BrokenFile, match=r"trace\.safetensors\.json is not JSON"):
        read_trace(file)
    extra = whole["steps"][0] | {"name": "W", "symbol": "W"}
    description.write_text(json.dumps(whole | {"steps": [*whole["steps"], extra]}))
    with pytest.raises(BrokenFile, match="lacks the step 'W'"):
        read_trace(file)
    first = whole["steps"][0]
    for wrong in (
        {"steps": 3},
        {"steps": [3]},
        {"steps": [{"name": "X"}]},
        {"steps": [first | {"symbol": 3}]},
        {"steps": [first | {"place": {"layer": "\ud800"}}]},
        {"ids": ...},
        {"ids": "123"},
        {"family": "\ud800"},
        {"layers": math.inf},
    ):
        changed = {k: v for k, v in (whole | wrong).items() if v is not ...}
        description.write_text(json.dumps(changed))
        with pytest.raises(BrokenFile, match=r"trace\.safetensors\.json"):
            read_trace(file)
    description.write_text(json.dumps(whole))
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BrokenFile, match=r"trace\.safetensors is cut short"):
        read_trace(file)


@pytest.mark.parametrize("missing", ["trace.safetensors", "trace.safetensors.json"])
def test_a_trace_without_one_of_its_files_is_named(tmp_path, missing):
    dissected("gpt2").save(tmp_path / "trace.safetensors")
    (tmp_path / missing).unlink()
    with pytest.raises(BrokenFile, match=rf"there is no \S*/{missing}; a trace is two files, as"):
        read_trace(tmp_path / "trace.safetensors")


@pytest.mark.parametrize("name", ["", "nothing", "x" * 300])
def test_a_trace_that_is_not_there_is_named_with_what_to_do(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BrokenFile, match=rf"there is no .*{name}.*'vesalius dissect --save'"):
        read_trace(name)


@pytest.mark.parametrize("name", ["trace.safetensors", "trace.safetensors.json"])
def test_a_folder_in_the_place_of_a_trace_is_named(tmp_path, name):
    dissected("gpt2").save(tmp_path / "trace.safetensors")
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(BrokenFile, match=rf"{name} is a folder; expected a file"):
        read_trace(tmp_path / "trace.safetensors")


# ------------------------------------------------------------------------------------------- input


@pytest.fixture
def with_tokenizer(tmp_path):
    tokenizer = ByteLevelBPETokenizer()
    text = ["it was going to rain but I forgot to take my umbrella"] * 3
    tokenizer.train_from_iterator(text, vocab_size=280, min_frequency=1, show_progress=False)
    vocabulary = tokenizer.get_vocab_size()
    filled(small("gpt2", vocabulary=vocabulary, context=20)).save(tmp_path / "model")
    tokenizer.save(str(tmp_path / "model" / "tokenizer.json"))
    return load(tmp_path / "model"), tokenizer


def test_text_is_dissected_as_its_tokens(with_tokenizer):
    model, tokenizer = with_tokenizer
    text = "I forgot to take"
    trace = dissect(model, text)
    assert trace.ids == tokenizer.encode(text).ids
    assert "".join(trace.tokens()) == text
    np.testing.assert_array_equal(trace["Z"], dissect(model, trace.ids)["Z"])
    for i, word, _ in trace.likeliest(4):
        assert word == model.tokenizer.piece(i)
    with pytest.raises(EmptySequence):
        dissect(model, "")


def test_text_without_a_tokenizer_is_refused():
    with pytest.raises(WrongKind, match="has no tokenizer; give token ids in place of text"):
        dissect(filled(small("gpt2")), "rain")


@pytest.mark.parametrize(("family", "expected"), [("vit", "an image"), ("tst", "a series")])
def test_models_that_do_not_read_text_say_what_they_read(family, expected):
    with pytest.raises(WrongKind, match=f"does not read text; expected {expected}"):
        dissect(filled(small(family)), "rain")


@pytest.mark.parametrize(
    ("ids", "error"),
    [
        ([], EmptySequence),
        ([17], TokenOutOfRange),
        ([-1], TokenOutOfRange),
        ([1.5, 2.0], TokenOutOfRange),
        ([True, False], TokenOutOfRange),
        ([[1, 2]], TokenOutOfRange),
        (list(range(10)), SequenceTooLong),
    ],
)
def test_tokens_that_the_model_cannot_read_are_refused(ids, error):
    with pytest.raises(error):
        dissect(filled(small("gpt2")), ids)
    with pytest.raises(error):
        dissect(filled(small("gpt2")), np.array(ids))


@pytest.mark.parametrize("wrong", [None, 3, 1.5, b"12", {1: 2}, object(), ["a"], [None], [[1]]])
def test_what_is_neither_text_nor_ids_is_refused(wrong):
    with pytest.raises(TokenOutOfRange, match="expected a text, or a sequence of whole token ids"):
        dissect(filled(small("gpt2")), wrong)


@pytest.mark.parametrize("wrong", [3, "A[1]", ["A[1]"]])
def test_edits_without_the_names_of_steps_are_refused(wrong):
    with pytest.raises(WrongKind, match="edit takes what to put in the place of steps"):
        dissect(filled(small("gpt2")), IDS, edit=wrong)


def test_an_edit_may_give_a_tensor_but_not_nothing():
    model = filled(small("gpt2"))
    edit = {"A[1]": lambda A: torch.zeros(A.shape, requires_grad=True)}
    assert not dissect(model, IDS, edit=edit)["A[1]"].any()
    with pytest.raises(WrongLength, match=r"edit of A\[1\] gives no array of numbers"):
        dissect(model, IDS, edit={"A[1]": lambda A: "none"})


@pytest.mark.parametrize(
    ("family", "shape"),
    [
        ("vit", (6, 6)),
        ("vit", (6, 6, 4)),
        ("vit", (7, 6, 3)),
        ("vit", (8, 8, 3)),
        ("tst", (7,)),
        ("tst", (5, 7)),
        ("tst", (4, 8)),
        ("tst", (4, 0)),
    ],
)
def test_images_and_series_of_the_wrong_shape_are_refused(family, shape):
    with pytest.raises(VesaliusError):
        dissect(filled(small(family)), np.zeros(shape))


def test_ids_may_come_as_any_sequence():
    model = filled(small("gpt2"))
    expected = dissect(model, IDS)["Z"]
    for ids in (tuple(IDS), np.array(IDS), np.array(IDS, dtype=np.uint8), torch.tensor(IDS)):
        trace = dissect(model, ids)
        assert trace.ids == IDS
        np.testing.assert_array_equal(trace["Z"], expected)


def test_dissecting_a_loaded_model_needs_no_torch(tmp_path):
    filled(small("gpt2")).save(tmp_path)
    code = (
        "import sys\n"
        "from vesalius.traces.dissection import dissect\n"
        "from vesalius.model import load\n"
        f"dissect(load({str(tmp_path)!r}), [1, 2]).likeliest()\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_pair_of_texts_is_read_in_two_segments(tmp_path):
    model, pair = vs.load("bert"), ("It began to rain.", "He opened his umbrella.")
    trace = vs.dissect(model, pair)
    assert trace["y_hat_C"][0] == pytest.approx(vs.next_sentence(model, *pair).follows, abs=1e-6)
    encoded = model.tokenizer.encode_pair(*pair)
    assert trace.ids == encoded.ids
    alone = vs.dissect(model, encoded.ids)  # the same tokens, all of the first segment
    assert not np.allclose(alone["y_hat_C"], trace["y_hat_C"])
    for column in (1, len(trace.ids) - 2):
        unfolded = vs.unfold(trace, "H[0]", 5, column)
        assert abs(unfolded.difference) < 1e-5
        (segment,) = [t.factors[0] for t in unfolded.terms if t.factors[0].name == "Lambda_s"]
        assert segment.at == (5, encoded.segments[column])
    assert abs(vs.attribute(trace, None, len(trace.ids) - 2).difference) < 1e-4
    trace.save(tmp_path / "pair.safetensors")
    again = vs.read_trace(tmp_path / "pair.safetensors", model)
    assert vs.unfold(again, "H[0]", 5, column).terms == unfolded.terms
    with pytest.raises(WrongKind, match="a pair of texts is for bert"):
        vs.dissect("gpt", pair)
