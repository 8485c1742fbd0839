"""Generation: the same text as elsewhere, alone or in company, and a clear end."""

import inspect
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import get_overloads

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers.processors import TemplateProcessing

import vesalius
from vesalius.errors import (
    EmptySequence,
    ImpossibleSetting,
    SequenceTooLong,
    TokenOutOfRange,
    UnknownConfiguration,
    WrongKind,
)
from vesalius.generation.decoding import Generation, _Settings
from vesalius.machine import warn_once

LANGUAGE = ("gpt", "lstm", "rnn", "ffnn")
OPENINGS = [
    "He shook his", "It was", "The old man", "“Come in,” said", "She", "In the morning",
    "There was a time when", "Nothing could", "My dear", "London", "I have never", "When the",
    "A dark night", "They went", "Once upon a time", "The river", "What is", "His wife", "No", "At",
]  # fmt: skip


@pytest.fixture(scope="module")
def gpt():
    return vesalius.load("gpt")


def generate(model, prompt, *arguments, **settings):
    return vesalius.generate(model, prompt, *arguments, **{"threads": 1, **settings})


def test_greedy_text_is_that_of_transformers_token_for_token(gpt, tmp_path):
    from transformers import GPT2LMHeadModel

    gpt.save(tmp_path, layout="huggingface")
    theirs = GPT2LMHeadModel.from_pretrained(tmp_path, dtype=torch.float32)
    theirs.generation_config.eos_token_id = theirs.generation_config.pad_token_id = None
    ours = generate(gpt, OPENINGS, 100, temperature=0, ignore_end=True)
    for opening, got in zip(OPENINGS, ours, strict=True):
        (ids,) = gpt.tokenizer.encode_many([opening], framed=False)
        mask = torch.ones(1, len(ids), dtype=torch.long)
        wanted = theirs.generate(
            torch.tensor([ids]), attention_mask=mask, max_new_tokens=100, do_sample=False
        )
        assert got.ids == wanted[0, len(ids) :].tolist(), opening
        assert len(got.ids) == 100


def framing(folder, frame):
    """Have the tokenizer of a folder add end-of-text tokens around texts, as ``frame`` says."""
    file = folder / "tokenizer.json"
    inner = tokenizers.Tokenizer.from_file(str(file))
    special = [("<|endoftext|>", inner.token_to_id("<|endoftext|>"))]
    inner.post_processor = TemplateProcessing(single=frame, special_tokens=special)
    inner.save(str(file))


def test_a_prompt_keeps_what_the_tokenizer_adds_before_it_as_in_transformers(gpt, tmp_path):
    from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

    gpt.save(tmp_path, layout="huggingface")
    framing(tmp_path, "<|endoftext|> $A")
    ours = vesalius.load(tmp_path)
    given = PreTrainedTokenizerFast.from_pretrained(tmp_path)("He shook his", return_tensors="pt")
    theirs = GPT2LMHeadModel.from_pretrained(tmp_path, dtype=torch.float32)
    theirs.generation_config.eos_token_id = theirs.generation_config.pad_token_id = None
    wanted = theirs.generate(
        given.input_ids, attention_mask=given.attention_mask, max_new_tokens=20, do_sample=False
    )
    assert given.input_ids[0].tolist() == vesalius.dissect(ours, "He shook his").ids
    got = generate(ours, "He shook his", 20, temperature=0, ignore_end=True)
    assert got.ids == wanted[0, given.input_ids.shape[1] :].tolist()
    assert got.ids != generate(gpt, "He shook his", 20, temperature=0, ignore_end=True).ids


def test_a_prompt_drops_what_the_tokenizer_adds_after_it(gpt, tmp_path):
    gpt.save(tmp_path)
    framing(tmp_path, "$A <|endoftext|>")
    got, plain = (generate(m, "He shook his", 9, temperature=0) for m in (tmp_path, gpt))
    assert got == plain


def test_an_empty_prompt_starts_from_the_bos_token_as_in_transformers(gpt, tmp_path):
    from transformers import GPT2LMHeadModel

    start = gpt.tokenizer.id_of("<|endoftext|>")
    model = vesalius.model.Model(gpt.config, gpt.state, gpt.tokenizer)
    model.generation_config = {"bos_token_id": start, "eos_token_id": None}
    model.save(tmp_path, layout="huggingface")
    theirs = GPT2LMHeadModel.from_pretrained(tmp_path, dtype=torch.float32)
    theirs.generation_config.eos_token_id = theirs.generation_config.pad_token_id = None
    wanted = theirs.generate(max_new_tokens=20, do_sample=False)[0].tolist()
    got = generate(tmp_path, "", 20, temperature=0, ignore_end=True)
    assert (got.prompt, [start, *got.ids]) == ("", wanted)
    assert got.text == gpt.tokenizer.decode(got.ids)
    assert generate(tmp_path, ["He", ""], 20, temperature=0, ignore_end=True)[1].ids == got.ids
    for wrong in (gpt.config.vocabulary, -1, "0", [0], True):
        model.generation_config = {"bos_token_id": wrong}
        with pytest.raises(UnknownConfiguration, match=r"bos_token_id .*; expected the id"):
            generate(model, "", 2)


@pytest.mark.parametrize("name", LANGUAGE)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_sequence_becomes_the_same_in_any_company(name, dtype):
    model = vesalius.load(name)
    settings = {"temperature": 0.8, "top_k": 40, "seed": 4, "dtype": dtype}
    prompts = ["He shook his", "It was a dark and stormy", "“"]
    together = generate(model, prompts, 12, samples=2, **settings)
    assert len(together) == 6
    for i, prompt in enumerate(prompts):
        pair = generate(model, prompt, 12, samples=2, **settings)
        assert [g.ids for g in pair] == [g.ids for g in together[2 * i : 2 * i + 2]]
        assert pair[0].ids == generate(model, prompt, 12, **settings).ids
        assert pair[0].ids != pair[1].ids


def test_overloads_have_every_setting_and_say_when_a_list_comes(gpt):
    one, several = map(inspect.signature, get_overloads(vesalius.generate))
    assert one.return_annotation is Generation
    assert several.return_annotation == list[Generation]
    assert isinstance(generate(gpt, "He", 1), one.return_annotation)
    for many in (generate(gpt, ["He"], 1), generate(gpt, "He", 1, samples=2)):
        assert all(isinstance(each, Generation) for each in many)
    whole = inspect.signature(vesalius.generate).parameters
    assert {*whole} == {*one.parameters, *_Settings.__annotations__} - {"settings"}


def test_the_seed_decides(gpt):
    one, same, other = (generate(gpt, "It was", 15, seed=s) for s in (1, 1, 2))
    assert one == same
    assert one.ids != other.ids


def test_ids_serve_as_well_as_text(gpt):
    (ids,) = gpt.tokenizer.encode_many(["He shook his"], framed=False)
    by_ids, by_text = (generate(gpt, p, 8, temperature=0) for p in (ids, "He shook his"))
    assert by_ids.ids == by_text.ids
    assert by_ids.text == by_text.text == gpt.tokenizer.decode(by_ids.ids)
    both = generate(gpt, [np.array(ids), ids[:1]], 8, temperature=0)
    assert both[0].ids == by_text.ids


def test_text_arrives_as_it_is_certain(gpt):
    told = {0: "", 1: ""}
    result = generate(
        gpt,
        ["It was", "She"],
        20,
        on_text=lambda slot, text: told.update({slot: told[slot] + text}),
    )
    assert [told[0], told[1]] == [one.text for one in result]


def test_every_draw_can_be_looked_at(gpt):
    draws = []
    settings = {"temperature": 0.7, "top_k": 5, "repetition_penalty": 1.3}
    got = generate(gpt, "He", 6, on_draw=lambda slot, draw: draws.append(draw), **settings)
    assert [draw.token for draw in draws] == got.ids
    (ids,) = gpt.tokenizer.encode_many(["He"], framed=False)
    for i, draw in enumerate(draws):
        assert draw.before.tolist() == ids + got.ids[:i]
        with torch.no_grad():
            logits = gpt.network(torch.tensor([ids + got.ids[:i]]))[0, -1].numpy()
        assert np.abs(draw.logits - logits).max() < 1e-5 * np.abs(logits).max()
        assert draw.kept.sum() == 5
        assert draw.probabilities.sum() == pytest.approx(1)


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("several", [False, True])
def test_a_text_ends_at_the_tokens_that_its_files_name(gpt, tmp_path, file, several):
    whole = generate(gpt, "He shook his", 20, temperature=0, ignore_end=True)
    end = whole.ids[7]
    first = whole.ids.index(end)
    gpt.save(tmp_path / "theirs", layout="huggingface")
    said = {"config.json": {}, "generation_config.json": {}}
    said["config.json"] = json.loads((tmp_path / "theirs/config.json").read_text())
    said[file]["eos_token_id"] = [5, end] if several else end
    said["generation_config.json"] |= {"top_k": 7}
    for name, text in said.items():
        (tmp_path / "theirs" / name).write_text(json.dumps(text))
    vesalius.load(tmp_path / "theirs").save(tmp_path / "ours")
    vesalius.load(tmp_path / "ours").save(tmp_path / "again", layout="huggingface")
    for folder in ("theirs", "ours", "again"):
        model = vesalius.load(tmp_path / folder)
        assert model.ends == ({5, end} if several else {end})
        assert model.generation_config["top_k"] == 7
        got = generate(model, "He shook his", 20, temperature=0)
        assert (got.ids, got.finish) == (whole.ids[:first], "end")
    kept = json.loads((tmp_path / "again/generation_config.json").read_text())
    assert (kept["eos_token_id"], kept["top_k"]) == ([5, end] if several else end, 7)


def test_an_end_that_is_no_token_is_told_when_generating(gpt, tmp_path):
    gpt.save(tmp_path, layout="huggingface")
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": "</s>"}')
    model = vesalius.load(tmp_path)
    with pytest.raises(UnknownConfiguration, match="eos_token_id '</s>'; expected the id of a"):
        generate(model, "He", 2)


def test_an_end_beyond_the_vocabulary_is_said_and_left_out(caplog):
    warn_once.cache_clear()
    model = vesalius.load("gpt")
    model.generation_config = {"eos_token_id": [1, 50256]}
    assert model.ends == {1}
    assert "says eos_token_id 50256, but tokens are 0 to 4095" in caplog.text


def test_a_text_ends_at_its_end_unless_told_otherwise(gpt):
    end = gpt.tokenizer.special["<|endoftext|>"]
    ended = vesalius.Model(gpt.config, dict(gpt.state), gpt.tokenizer)
    # A direction that the last state always has makes the end the likeliest token.
    ended.state["norm.bias"] = gpt.state["norm.bias"] + 50 * gpt.state["embedding.weight"][end]
    got = generate(ended, "He", 5, temperature=0)
    assert (got.ids, got.text, got.finish) == ([], "", "end")
    assert generate(ended, "He", 5, temperature=0, ignore_end=True).ids == [end] * 5


def test_stop_strings_end_a_text_before_them(gpt):
    whole = generate(gpt, "He shook his", 30, temperature=0)
    stop = gpt.tokenizer.decode(whole.ids[15:17]).strip()
    got = generate(gpt, "He shook his", 30, temperature=0, stop=["zebra", stop])
    assert got.finish == "stop"
    assert got.text == whole.text[: whole.text.index(stop)]
    assert got.ids == whole.ids[: len(got.ids)]
    assert (whole.finish, len(whole.ids)) == ("length", 30)


def test_one_that_ends_early_leaves_the_others_alone(gpt):
    alone = generate(gpt, "The river", 20, temperature=0)
    stop = generate(gpt, "He shook his", 5, temperature=0).text.strip()
    assert stop not in alone.text
    both = generate(gpt, ["He shook his", "The river"], 20, temperature=0, stop=[stop, "zebra"])
    assert both[0].finish == "stop"
    assert both[1].ids == alone.ids


def test_sliding_goes_on_from_the_later_half_of_the_context():
    model = vesalius.create(
        "gpt2", seed=2, layers=1, embedding=8, heads=2, vocabulary=30, context=8
    )
    for name, array in model.state.items():
        model.state[name] = array * (10 if array.ndim == 2 else 1)  # or it says one thing for ever
    got = generate(model, [3, 1, 4], 30, temperature=0, slide=True).ids
    ids, first = [3, 1, 4], 0
    for token in got:
        if len(ids) - first > 8:
            first = len(ids) - 4
        with torch.no_grad():
            assert token == int(model.network(torch.tensor([ids[first:]]))[0, -1].argmax())
        ids.append(token)
    assert len(set(got)) > 3
    long = generate(model, list(range(20)), 2, temperature=0, slide=True)
    assert long.ids[0] == generate(model, list(range(12, 20)), 1, temperature=0).ids[0]


def test_an_image_begins_from_nothing():
    model = vesalius.create("igpt", layers=1, embedding=8, heads=2, vocabulary=5, context=9)
    got = generate(model, None, 9)
    assert got.ids == generate(model, [4], 9).ids
    assert got.text == ""
    assert vesalius.generate(model).ids == got.ids  # the whole picture by default
    rest = generate(model, [3, 1, 2])
    assert len(rest.ids) == 6
    assert rest.ids == generate(model, [4, 3, 1, 2]).ids  # pixels follow what it starts from
    model.preprocessing = {"side": 2}
    assert len(vesalius.generate(model).ids) == 4


def test_the_context_may_be_filled_to_the_last_token(gpt):
    model = vesalius.create("gpt2", layers=1, embedding=8, heads=2, vocabulary=30, context=8)
    assert len(generate(model, [1, 2, 3], 6).ids) == 6
    with pytest.raises(SequenceTooLong, match=r"3 tokens of the prompt and 7 new .* ask for 6 at"):
        generate(model, [1, 2, 3], 7)
    with pytest.raises(SequenceTooLong, match="prompt has 9 tokens, the model's context 8"):
        generate(model, list(range(9)), 1)


@pytest.mark.parametrize(
    ("prompt", "settings", "error", "message"),
    [
        ("", {}, EmptySequence, "the prompt is empty"),
        ([], {}, EmptySequence, "the prompt is empty"),
        (["He", ""], {}, EmptySequence, "prompt 2 of 2 is empty"),
        ([[1], [2], []], {}, EmptySequence, "prompt 3 of 3 is empty"),
        ("He", {"max_new_tokens": 0}, ImpossibleSetting, "max_new_tokens must be at least 1"),
        ("He", {"samples": 0}, ImpossibleSetting, "samples must be at least 1, got 0"),
        ("He", {"temperature": -1}, ImpossibleSetting, "temperature should be 0 or more"),
        ("He", {"top_p": 2}, ImpossibleSetting, "top_p"),
        ("He", {"stop": ""}, ImpossibleSetting, "an empty one"),
        ("He", {"dtype": "float16"}, ImpossibleSetting, "one of float32, int8"),
        ([4096], {}, TokenOutOfRange, "0 to 4095, got 4096"),
    ],
)
def test_what_cannot_be_is_refused(gpt, prompt, settings, error, message):
    with pytest.raises(error, match=message):
        generate(gpt, prompt, **settings)


def test_models_of_another_kind_say_what_they_serve():
    bert = vesalius.create("bert", layers=1, embedding=8, heads=2, vocabulary=30)
    with pytest.raises(WrongKind, match="this is bert, which serves fill"):
        generate(bert, [1])
    blind = vesalius.create(
        "transformer", layers=1, embedding=8, heads=2, vocabulary=9, causal=False
    )
    with pytest.raises(WrongKind, match="cannot continue"):
        generate(blind, [1])
    bare = vesalius.create("rnn", embedding=8, vocabulary=9)
    with pytest.raises(WrongKind, match="no tokenizer"):
        generate(bare, "He")
    with pytest.raises(WrongKind, match="no tokenizer"):
        generate(bare, [1], stop="x")


def test_several_callers_at_once_get_what_each_would_alone(gpt, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    alone = [generate(gpt, opening, 15, temperature=0).ids for opening in OPENINGS[:4]]
    with ThreadPoolExecutor(4) as pool:
        together = pool.map(lambda o: generate(gpt, o, 15, temperature=0, threads=2), OPENINGS[:4])
        assert [one.ids for one in together] == alone


def in_a_fork(queue):
    queue.put(generate(vesalius.load("gpt"), "He shook his", 5, temperature=0, threads=2).ids)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_of_a_process_has_threads_of_its_own(gpt, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    generate(gpt, "He shook his", 5, threads=2)  # so that there are threads to be lost
    wanted = generate(gpt, "He shook his", 5, temperature=0).ids
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_a_fork, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=600) == wanted
    finally:
        child.kill()
        child.join()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_while_another_thread_generates_generates_the_same(gpt, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    wanted = generate(gpt, "He shook his", 20, seed=1, threads=2).ids
    over, codes = threading.Event(), []

    def work():
        while not over.is_set():
            generate(gpt, "He shook his", 20, seed=1, threads=2)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(15):
            child = os.fork()
            if not child:
                signal.alarm(120)  # ends a child that hangs
                code = 1
                try:
                    code = int(generate(gpt, "He shook his", 20, seed=1, threads=2).ids != wanted)
                finally:
                    os._exit(code)
            codes.append(os.waitpid(child, 0)[1])
    finally:
        over.set()
        thread.join()
    assert codes == [0] * 15


INTERRUPTED = """
import os, random, signal, time
import vesalius

os.cpu_count = lambda: 2

def interrupt(*_):
    raise KeyboardInterrupt

gpt = vesalius.load("gpt")
ask = lambda: vesalius.generate(gpt, "He shook his", 40, temperature=0, threads=2).ids
wanted, begun = ask(), time.perf_counter()
assert ask() == wanted
takes = time.perf_counter() - begun
signal.signal(signal.SIGALRM, interrupt)
interrupts, rng = 0, random.Random(0)
while interrupts < 30:  # however quick the machine is, and whatever else it does
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, takes))
        ask()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupts += 1
assert ask() == wanted
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such timers")
def test_an_interrupt_leaves_no_thread_at_a_barrier():
    subprocess.run([sys.executable, "-c", INTERRUPTED], check=True, timeout=600)
