"""The verbs that take models apart: real processes, exit codes, one-line errors."""

import json
import os
import re

import pytest
from processes import is_complaint, shown, vesalius

from vesalius import count, dissect, equations
from vesalius.families import names


def test_count_prints_the_papers_table():
    text = shown("count", "gpt2")
    assert "2 M d_e (d_k + d_v) + ζ (M (2 d_k + d_v) + d_e)" in text
    assert "= 768 × 50,257" in text
    assert "124,439,808" in text
    assert "31.0 %" in text
    assert "float32 497.8 MB" in text
    assert "163,037,184  with input and output embeddings not tied" in text


@pytest.mark.parametrize("name", names())
def test_every_model_is_counted_as_json_too(name):
    found = json.loads(shown("count", name, "--json", "--cost"))
    assert found["total"] == count(name).total
    assert found["cost"]["training_step"] > 2 * found["cost"]["forward"] > 0


def test_set_changes_any_hyperparameter():
    found = json.loads(shown("count", "gpt2", "--set", "heads=8", "--set", "value=10", "--json"))
    assert found["total"] == count("gpt2", heads=8, value=10).total
    assert found["config"]["heads"] == 8
    text = shown("count", "bert-base-uncased", "--set", "mlm_head=true", "--set", "nsp_head=true")
    assert "110,106,428" in text
    text = shown("count", "rnn", "--set", "vocabulary=1,000", "--set", "embedding=3")
    assert "= 3 × 1,000" in text


def test_cost_says_what_an_operation_is_and_counts_attention_and_output():
    text = shown("count", "gpt2", "--cost", "--length", "512", "--batch", "2")
    assert "Operations on 2 sequences of 512 tokens; a multiply-add is two" in text
    for line in ("attention scores", "logits", "training step", "Adam's moments", "activations"):
        assert line in text
    assert "Generation keeps the KV cache, for every token: 73.73 kB" in text


def test_equations_are_listed_and_shown_in_full():
    listing = shown("equations")
    for number in range(1, 68):
        assert f"({number}) " in listing
    assert "GELU" not in listing.split("(1)")[0]
    assert "The sigmoid function" in shown("equations", "--all")
    assert "The sigmoid function" not in listing
    text = shown("equations", "28")
    assert "(28) Self-attention of one head" in text
    assert "d_e×d_k" in text
    assert "vesalius/equations/attention.py:" in text


def test_equations_are_a_list_for_machines():
    found = json.loads(shown("equations", "--json"))
    assert [entry["number"] for entry in found] == list(range(1, 68))
    assert all(entry["latex"] and entry["section"] and entry["symbols"] for entry in found)
    assert json.loads(shown("equations", "28", "--json")) == equations.find(28).to_json()


def test_an_equation_names_its_errata_and_an_erratum_can_be_read():
    text = shown("equations", "25")
    (line,) = [line for line in text.splitlines() if "E17" in line]
    title = line.split(": ", 1)[1]
    erratum = shown("equations", "E17")
    assert title in erratum
    assert "self_attention passes 1/√d_k" in " ".join(erratum.split())
    assert json.loads(shown("equations", "e17", "--json"))["title"] == title
    assert "Erratum" not in shown("equations", "2")
    done = vesalius("equations", "E99")
    assert done.returncode == 2
    assert is_complaint(done.stderr)
    assert "there is no erratum E99" in done.stderr


def test_save_says_its_format_in_the_help_and_before_anything_is_run(tmp_path):
    assert ".safetensors" in " ".join(shown("dissect", "--help").partition("--save")[2].split())
    done = vesalius("dissect", "no-such-model", "He", "--save", str(tmp_path / "run.npz"))
    assert done.returncode == 2
    assert is_complaint(done.stderr)
    assert "ends in .safetensors" in done.stderr
    with pytest.raises(ValueError, match=r"ends in \.safetensors.*numpy\.savez"):
        dissect("gpt", [1], "X").save(tmp_path / "run.npz")


def test_models_lists_every_name_and_the_settings_of_one():
    text = shown("models")
    assert all(name in text for name in names())
    assert {row["name"] for row in json.loads(shown("models", "--json"))} == set(names())
    settings = json.loads(shown("models", "vit-base-patch16-224", "--json"))
    patch = next(row for row in settings if row["name"] == "patch")
    assert (patch["symbol"], patch["value"]) == ("P", 16)


BAD = [
    (["count", "gpt-2"], "unknown model 'gpt-2'; did you mean gpt2"),
    (["count", "bert-base"], "did you mean bert-base"),
    (["count", "gpt2", "--set", "head=8"], "unknown setting 'head'; did you mean heads"),
    (["count", "gpt2", "--set", "heads=many"], "heads must be a whole number, got 'many'"),
    (["count", "gpt2", "--set", "heads=1.5"], "heads must be a whole number, got '1.5'"),
    (["count", "gpt2", "--set", "heads=0"], "heads must be at least 1, got 0"),
    (["count", "gpt2", "--set", "embedding=-3"], "embedding must be at least 1, got -3"),
    (["count", "gpt2", "--set", "heads=7"], "768 cannot be divided among 7 heads"),
    (["count", "gpt2", "--set", "tied=maybe"], "tied must be true or false, got 'maybe'"),
    (["count", "gpt2", "--set", "epsilon=nan"], "epsilon must be at least 0, got nan"),
    (["count", "gpt2", "--set", "activation=swish"], "activation must be one of gelu, gelu_tanh"),
    (["count", "gpt2", "--set", "variant=3"], "variant must be one of 1, 2"),
    (["count", "gpt2", "--set", "layers=none"], "layers must be a whole number, got 'none'"),
    (["count", "gpt2", "--set", "heads"], "--set takes name=value"),
    (["count", "gpt2", "--cost", "--length", "2000"], "1024 positions, got length 2000"),
    (["count", "gpt2", "--length", "x"], "'x' is not a valid integer"),
    (["count", "lstm", "--set", "hidden=3"], "set tied to false"),
    (["count", "vit", "--set", "patch=15"], "cannot be cut into patches of 15"),
    (["count", "bert", "--set", "nsp_head=true", "--set", "pooler=false"], "set pooler to true"),
    (["count"], "Missing argument 'MODEL'"),
    (["dissekt"], "No such command 'dissekt'"),
    (["equations", "68"], "the paper numbers them from 1 to 67"),
    (["equations", "softmaxx"], "did you mean softmax"),
    (["models", "gpt3"], "unknown model 'gpt3'"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=lambda value: " ".join(value)[:40])
def test_bad_input_gets_one_line_and_exit_code_2(arguments, message):
    done = vesalius(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert is_complaint(done.stderr)
    assert message in done.stderr


def test_dissect_shows_every_step_and_the_likeliest_words(gpt2):
    text = shown("dissect", gpt2, "take my")
    for name in ("H[0]", "A[2]", "H_e", "Y_hat", "likeliest"):
        assert name in text
    assert "mu[1,1]" not in text
    assert "30 steps inside heads are left out" in text
    assert text.count("All heads' results") == 1
    assert "% masked" in text


def test_dissect_draws_attention_with_its_tokens_and_shows_values(gpt2):
    text = shown("dissect", gpt2, "take my", "--only", "mu[1,3], A[1]")
    assert "mu[1,3] (25): rows are queries, columns are keys" in text
    assert "A[1] (30): a column for each token" in text
    assert "likeliest" not in text


def test_dissect_saves_and_speaks_json(gpt2, tmp_path):
    file = tmp_path / "run.safetensors"
    found = json.loads(shown("dissect", gpt2, "--ids", "1 2 3", "--save", str(file), "--json"))
    assert found["ids"] == [1, 2, 3]
    assert len(found["likeliest"]) == 10
    names = {step["name"] for step in found["steps"]}
    from vesalius.traces.trace import read_trace

    assert set(read_trace(file).names()) == names >= {"A[1]", "mu[2,3]", "Z"}


def test_dissect_reads_token_ids_where_a_model_has_no_tokenizer(gpt2):
    found = json.loads(shown("dissect", "igpt", "1 2, 3", "--json"))
    assert found == json.loads(shown("dissect", "igpt", "--ids", "1 2 3", "--json"))
    assert found["ids"] == [1, 2, 3]
    assert json.loads(shown("dissect", gpt2, "1 2 3", "--json"))["ids"] != [1, 2, 3]
    words = vesalius("dissect", "igpt", "He shook")
    assert words.returncode == 2
    assert words.stderr.endswith("expected token ids, as in '3 1 4', got 'He shook'\n")
    two = vesalius("dissect", "igpt", "1 2", "--second", "3")
    assert two.returncode == 2
    assert "--second goes with a TEXT; this model has no tokenizer" in two.stderr


def test_dissect_reads_images_and_series_from_files(tmp_path):
    import numpy as np

    from vesalius import create

    settings = {"layers": 1, "embedding": 12, "heads": 3}
    create("vit", image=4, patch=2, classes=3, **settings).save(tmp_path / "vit")
    create("tst", channels=2, context=5, **settings).save(tmp_path / "tst")
    np.save(tmp_path / "image.npy", np.ones((4, 4, 3)))
    np.save(tmp_path / "series.npy", np.ones((2, 5)))
    image = shown("dissect", str(tmp_path / "vit"), "--array", str(tmp_path / "image.npy"))
    assert "An image as a sequence of flattened patches" in image
    series = shown("dissect", str(tmp_path / "tst"), "--array", str(tmp_path / "series.npy"))
    assert "The output layer of classification" in series
    wrong = vesalius("dissect", str(tmp_path / "vit"), "hello")
    assert wrong.returncode == 2
    assert "does not read text; expected an image" in wrong.stderr
    odd = vesalius("dissect", str(tmp_path / "vit"), "--array", str(tmp_path / "vit/config.json"))
    assert odd.returncode == 2
    assert "config.json cannot be read as an image; expected a file of .png" in odd.stderr


def test_verify_says_that_all_agrees(gpt2):
    assert re.search(r"All \d+ steps agree\.", shown("verify", gpt2, "--against", "transformers"))
    found = json.loads(shown("verify", gpt2, "--json"))
    assert found["agrees"] is True
    assert found["first_divergence"] is None


def test_count_reads_a_checkpoints_folder(gpt2):
    found = json.loads(shown("count", gpt2, "--json"))
    assert found["family"] == "gpt2"
    assert found["total"] == 270 * 12 + 9 * 12 + 2 * 12 + 2 * (12 * 144 + 13 * 12)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["../../etc/nothing-here", "x"], 2, "cannot be a Hugging Face name"),
        (["/etc/nothing-here", "x"], 2, "cannot be a Hugging Face name"),
        (["/etc/passwd", "x"], 2, "names a file"),
        (["nobody/nothing", "x"], 3, "the network is not to be used"),
        (["FOLDER"], 2, "expected TEXT or FILE, --ids or --array"),
        (["FOLDER", "--ids", "1 two"], 2, "expected token ids, as in '3 1 4', got '1 two'"),
        (["FOLDER", "--ids", "270"], 2, "token id 270 at position 0"),
        (["FOLDER", "--ids", ""], 2, "at least one token"),
        (["FOLDER", "--ids", "1 1 1 1 1 1 1 1 1 1"], 2, "10 positions, the model 9"),
        (["FOLDER", "--ids", "1", "--only", "A[x]"], 2, "cannot read 'A[x]'"),
        (["FOLDER", "--ids", "1", "--only", "A[1], mu[9,9]"], 2, "called 'mu[9,9]': did you mean"),
        (["FOLDER", "--ids", "1", "--raw"], 2, "are for images and series"),
    ],
)
def test_dissecting_what_cannot_be_is_refused(gpt2, arguments, code, message):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    given = [gpt2 if argument == "FOLDER" else argument for argument in arguments]
    done = vesalius("dissect", *given, env=environment)
    assert done.returncode == code
    assert done.stdout == ""
    assert is_complaint(done.stderr)
    assert message in done.stderr
