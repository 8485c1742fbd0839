"""Converting checkpoints, and what is said of those that cannot be read."""

import shutil

import pytest
from processes import shown, vesalius


def test_convert_writes_both_layouts_and_reads_pickles_only_here(gpt2, tmp_path):
    import torch
    from safetensors.numpy import load_file

    assert "vesalius's layout" in shown("convert", gpt2, str(tmp_path / "own"), "--to", "vesalius")
    shown("convert", str(tmp_path / "own"), str(tmp_path / "back"))
    original = load_file(f"{gpt2}/model.safetensors")
    back = load_file(tmp_path / "back" / "model.safetensors")
    assert original.keys() == back.keys()
    assert all((original[name] == back[name]).all() for name in original)

    pickled = tmp_path / "pickled"
    pickled.mkdir()
    shutil.copy(f"{gpt2}/config.json", pickled)
    tensors = {name: torch.tensor(array) for name, array in original.items()}
    torch.save(tensors, pickled / "pytorch_model.bin")
    refused = vesalius("verify", str(pickled))
    assert refused.returncode == 2
    assert "convert it with: vesalius convert" in refused.stderr
    shown("convert", str(pickled), str(tmp_path / "unpickled"))
    unpickled = load_file(tmp_path / "unpickled" / "model.safetensors")
    assert all((original[name] == unpickled[name]).all() for name in original)


def test_a_pickle_that_would_run_code_is_refused(gpt2, tmp_path):
    import pickle

    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    folder = tmp_path / "trap"
    folder.mkdir()
    shutil.copy(f"{gpt2}/config.json", folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"wte.weight": Trap()}))
    done = vesalius("convert", str(folder), str(tmp_path / "out"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "cannot be read as weights alone" in done.stderr
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "out").exists()


def broken(gpt2, tmp_path, name="model.safetensors", content=None):
    folder = tmp_path / "broken"
    shutil.copytree(gpt2, folder)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content((folder / name).read_bytes()))
    return str(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", None, "holds no config.json"),
        ("model.safetensors", None, "holds no model.safetensors"),
        ("model.safetensors", lambda data: data[:-4], "cut short"),
        ("model.safetensors", lambda data: b"", "no safetensors file, or is cut short"),
        ("model.safetensors", lambda data: b"\xff" * 8 + data, "no safetensors file"),
        (
            "model.safetensors",
            lambda data: b"version https://git-lfs.github.com",
            "Git LFS pointer",
        ),
        ("config.json", lambda data: b"{", "is not JSON"),
        ("config.json", lambda data: data.replace(b'"gpt2"', b'"gpt9"'), "model_type 'gpt9'"),
        (
            "config.json",
            lambda data: data.replace(b'"n_head": 3', b'"n_head": 5'),
            "divided among 5",
        ),
        (
            "config.json",
            lambda data: data.replace(b'"n_layer": 2', b'"n_layer": 3'),
            "missing: h.2.",
        ),
        (
            "config.json",
            lambda data: data.replace(b'"n_layer": 2', b'"n_layer": 1'),
            "unexpected: h.1",
        ),
        ("config.json", lambda data: data.replace(b'"n_embd": 12', b'"n_embd": 6'), "misshapen: "),
        ("tokenizer.json", lambda data: b"{}", "tokenizer"),
        ("config.json", lambda data: data.replace(b": 270", b": 27"), "misshapen: wte.weight"),
    ],
)
def test_a_broken_checkpoint_gets_one_line_and_exit_code_2(gpt2, tmp_path, name, content, message):
    done = vesalius("dissect", broken(gpt2, tmp_path, name, content), "--ids", "1")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_weights_that_are_not_numbers_are_named(gpt2, tmp_path):
    import numpy as np
    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "nan"
    shutil.copytree(gpt2, folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["transformer.h.1.ln_2.bias"][3] = np.nan
    save_file(tensors, folder / "model.safetensors")
    done = vesalius("verify", str(folder))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "NaN or infinity in transformer.h.1.ln_2.bias" in done.stderr


def test_a_tokenizer_larger_than_the_embedding_is_refused(gpt2, tmp_path):
    from vesalius import create

    small = create("gpt2", layers=1, embedding=12, vocabulary=200, context=9)
    small.save(tmp_path, layout="huggingface")
    shutil.copy(f"{gpt2}/tokenizer.json", tmp_path)
    done = vesalius("dissect", str(tmp_path), "take")
    assert done.returncode == 2
    assert "the tokenizer's ids go up to 269, the embedding's rows to 199" in done.stderr


def test_all_tensors_that_do_not_fit_are_listed_at_once(gpt2, tmp_path):
    import numpy as np
    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "misfit"
    shutil.copytree(gpt2, folder)
    tensors = load_file(folder / "model.safetensors")
    del tensors["transformer.wpe.weight"], tensors["transformer.ln_f.bias"]
    tensors["transformer.h.0.ln_1.weight"] = np.ones(5, dtype=np.float32)
    tensors["something.else"] = np.ones(5, dtype=np.float32)
    save_file(tensors, folder / "model.safetensors")
    done = vesalius("dissect", str(folder), "--ids", "1")
    assert done.returncode == 2
    assert (
        "(4): missing: ln_f.bias; missing: wpe.weight; unexpected: something.else; " in done.stderr
    )
    assert "misshapen: h.0.ln_1.weight is (5,), expected (12,)" in done.stderr


def test_a_specimen_is_converted_by_its_name_and_other_names_are_refused(tmp_path):
    assert "tst in vesalius's layout" in shown(
        "convert", "tst", str(tmp_path / "own"), "--to", "vesalius"
    )
    refused = vesalius("convert", "gtp2", str(tmp_path / "other"))
    assert refused.returncode == 2
    assert "unknown model 'gtp2'; did you mean gpt2?" in refused.stderr


def test_every_verb_that_loads_a_model_can_pass_over_extra_tensors():
    import re
    from pathlib import Path

    import vesalius.cli as package

    for file in Path(package.__file__).parent.glob("*.py"):
        verbs = re.split(r"^@click.command", file.read_text(), flags=re.M)[1:]
        for verb in verbs:
            if re.search(r"[ (.]load\(model\)|read_model\(", verb):
                assert re.search(r"^@(options\.)?extra_option", verb, flags=re.M), (
                    f"{file.name}: {verb[:200]}"
                )


def test_extra_tensors_are_passed_over_when_that_is_said(gpt2, tmp_path):
    import numpy as np
    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "scored"
    shutil.copytree(gpt2, folder)
    held = load_file(folder / "model.safetensors")
    save_file(held | {"multiple_choice_head.bias": np.zeros(3)}, folder / "model.safetensors")
    refused = vesalius("convert", str(folder), str(tmp_path / "new"))
    assert refused.returncode == 2
    assert "unexpected: multiple_choice_head.bias (the head of GPT2Double" in refused.stderr
    assert "--ignore-extra" in refused.stderr
    shown("convert", str(folder), str(tmp_path / "new"), "--ignore-extra")
    assert load_file(tmp_path / "new" / "model.safetensors").keys() == held.keys()


def test_names_of_tensors_cannot_command_a_terminal_or_turn_its_text_around(tmp_path):
    import numpy as np
    from safetensors.numpy import load_file, save_file

    import vesalius as vs

    folder = tmp_path / "model"
    vs.create("gpt2", layers=1, embedding=12, heads=2, vocabulary=9).save(folder)
    file = folder / "model.safetensors"
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202e\u2066\r"
    save_file({**load_file(file), evil: np.zeros(3, np.float32)}, file)
    seen = ""
    for words in (["inspect"], ["inspect", "--json"], ["count"], ["dissect", "1 2"], ["convert"]):
        target = [str(tmp_path / "new")] if words == ["convert"] else []
        done = vesalius(words[0], str(folder), *words[1:], *target)
        seen += done.stdout + done.stderr
        assert not set(evil[:1] + "\x07\x9b\x7f\u202e\u2066\r") & set(done.stdout + done.stderr)
    assert "␛]0;owned␇␛[2J" in seen
