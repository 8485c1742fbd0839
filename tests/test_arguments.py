"""Whatever is given to a public function: a result, or an error of ours that says what is wrong."""

import inspect

import numpy as np
import pytest

import vesalius as vs
from vesalius import tokenizers
from vesalius.errors import VesaliusError

STRANGE = {
    "None": None,
    "empty text": "",
    "empty list": [],
    "object": object(),
    "1.5": 1.5,
    "-1": -1,
    "text": "x",
    "NaN": float("nan"),
    "infinity": float("inf"),
    "true": True,
    "bytes": b"x",
    "list of None": [None],
    "nested": [[[1.5]]],
    "array of NaN": np.array([np.nan]),
    "dictionary": {"a": 1},
}


@pytest.fixture(scope="module")
def gpt():
    model = vs.create("gpt2", layers=1, embedding=8, heads=2, vocabulary=40, context=16)
    model.tokenizer = tokenizers.train_characters(["abcdefghij <x>. None[]1"])
    return model


@pytest.fixture(scope="module")
def bert():
    return vs.load("bert")


@pytest.fixture(scope="module")
def calls(gpt, bert, tmp_path_factory):
    """Every public call with arguments that it can use."""
    folder = tmp_path_factory.mktemp("arguments")
    (folder / "a.txt").write_text("abc abc. " * 9)
    words = gpt.tokenizer
    text = {"text": "abc"}
    return {
        "generate": (vs.generate, {"model": gpt, "prompt": "abc", "max_new_tokens": 2}),
        "embed": (vs.embed, {"model": gpt, "texts": ["abc", "b"]}),
        "similar": (vs.similar, {"model": gpt, "query": "a"}),
        "similar texts": (vs.similar, {"model": gpt, "query": "a", "among": ["b", "c"]}),
        "neighbours": (vs.neighbours, {"model": gpt, "word": "a"}),
        "fill": (vs.fill, {"model": bert, "text": "the [MASK]."}),
        "next_sentence": (vs.next_sentence, {"model": bert, "first": "a", "second": "b"}),
        "figure": (vs.figure, {"model": gpt, "part": "head", "text": "abc"}),
        "evaluate": (vs.evaluate, {"model": gpt, "corpus": str(folder / "a.txt")}),
        "create": (vs.create, {"family": "rnn", "embedding": 2, "vocabulary": 3}),
        "train": (vs.train, {"recipe": str(folder / "none.toml"), "folder": str(folder / "run")}),
        "encode": (words.encode, text),
        "encode_many": (words.encode_many, {"texts": ["abc"]}),
        "encode_with_offsets": (words.encode_with_offsets, text),
        "encode_pair": (bert.tokenizer.encode_pair, {"first": "a", "second": "b"}),
        "decode": (words.decode, {"ids": [1, 2]}),
        "piece": (words.piece, {"id_": 1}),
        "bytes_of": (words.bytes_of, {"id_": 1}),
        "continues": (words.continues, {"id_": 1}),
        "id_of": (words.id_of, {"token": "a"}),
        "words": (tokenizers.words, text),
        "sentences": (tokenizers.sentences, text),
        "train_byte_pairs": (tokenizers.train_byte_pairs, {"texts": ["abc"], "size": 300}),
        "train_word_pieces": (tokenizers.train_word_pieces, {"texts": ["abc"], "size": 300}),
        "train_characters": (tokenizers.train_characters, {"texts": ["abc"]}),
        "train_words": (tokenizers.train_words, {"texts": ["abc"], "size": 300}),
        "read_tokenizer": (tokenizers.read_tokenizer, {"folder": str(folder)}),
    }


CALLS = (
    *("generate", "embed", "similar", "similar texts", "neighbours", "fill"),
    *("next_sentence", "figure", "evaluate", "create", "train", "encode", "encode_many"),
    *("encode_with_offsets", "encode_pair", "decode"),
    *("piece", "bytes_of", "continues", "id_of", "words", "sentences", "train_byte_pairs"),
    *("train_word_pieces", "train_characters", "train_words", "read_tokenizer"),
)


@pytest.mark.parametrize("name", CALLS)
def test_strange_arguments_give_a_result_or_an_error_of_ours(calls, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    call, usual = calls[name]
    names = {p.name for p in inspect.signature(call).parameters.values() if p.kind != p.VAR_KEYWORD}
    found = []
    for parameter in sorted(names | set(usual)):
        for what, value in STRANGE.items():
            try:
                call(**{**usual, parameter: value})
            except (VesaliusError, OSError):
                pass
            except Exception as error:  # what the test looks for
                found.append(f"{parameter} = {what}: {type(error).__name__}: {error}")
    assert not found, "\n".join(found)


def test_the_numbers_of_other_libraries_are_numbers(gpt):
    import torch

    usual = vs.generate(gpt, [1, 2, 3], 4, temperature=0.5, top_k=3, seed=7).ids
    others = {
        "max_new_tokens": np.int64(4),
        "temperature": np.float32(0.5),
        "top_k": torch.tensor(3),
        "seed": np.uint8(7),
        "samples": np.int32(1),
    }
    for prompt in ([1, 2, 3], (1, 2, 3), np.array([1, 2, 3]), torch.tensor([1, 2, 3])):
        assert vs.generate(gpt, prompt, **others).ids == usual
    several = vs.generate(gpt, torch.tensor([[1, 2, 3], [1, 2, 3]]), **others)
    assert [one.ids for one in several] == [usual, usual]
    assert gpt.tokenizer.decode(np.array([1, 2])) == gpt.tokenizer.decode([1, 2])
    assert vs.embed(gpt, ["a"], layer=np.int64(1), batch=np.int8(2)).layer == 1
    assert len(vs.similar(gpt, "a", top=np.int64(2))) == 2


def test_settings_may_be_numpys_and_stay_plain():
    import json

    config = vs.create(
        "rnn", embedding=np.int64(2), vocabulary=np.int32(3), seed=np.int64(1)
    ).config
    assert config == vs.create("rnn", embedding=2, vocabulary=3, seed=1).config
    json.dumps(config.to_json())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"prompt": 1.5}, "prompt must be a text, token ids, or a list of prompts, got 1.5"),
        ({"prompt": [1.5]}, "each of prompt must be a whole number, got 1.5"),
        ({"prompt": "a", "top_k": "x"}, "top_k must be a whole number, got 'x'"),
        ({"prompt": "a", "temperature": None}, "temperature must be a number, got None"),
        ({"prompt": "a", "seed": -1}, "seed must be at least 0, got -1"),
        ({"prompt": "a", "stop": 3}, "stop must be a string or several, got 3"),
    ],
)
def test_an_error_names_the_argument_what_was_expected_and_what_came(gpt, arguments, said):
    with pytest.raises(VesaliusError) as caught:
        vs.generate(gpt, **arguments)
    assert str(caught.value) == said
