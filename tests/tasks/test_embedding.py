"""Texts as vectors: the states that the equations and Transformers give, in any batch."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from agreement import agree
from safetensors.numpy import load_file
from scipy.spatial import distance as scipy_distance
from strategies import filled, small
from tokenizers import models

from vesalius.errors import (
    EmptyCorpus,
    EmptySequence,
    ImpossibleSetting,
    NotInVocabulary,
    SequenceTooLong,
    TokenOutOfRange,
    UnknownSetting,
    Unwritable,
    WrongKind,
)
from vesalius.model import load
from vesalius.tasks.embedding import DISTANCES, WHAT, Neighbour, cosine, embed, euclidean, similar
from vesalius.tokenizers import Tokenizer, read_word_pieces, train_byte_pairs
from vesalius.traces.dissection import dissect

pytestmark = pytest.mark.usefixtures("no_progress_bars", "one_thread")

WITHIN = 1e-5  # of the largest: single precision through a few layers
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "rain", "fell", "on", "river"]
WORDS += ["walk", "##ing", "##s", "he", "was", "in", ".", ",", "house", "wet"]
TEXTS = ["the rain", "he was walking in the house .", "rain", "on the river , rain fell", "was he"]
CONTEXT = 12
CAUSAL = {
    "rnn": {"hidden": 5, "tied": False},
    "rnn sigmoid": {"activation": "sigmoid", "layers": 3},
    "lstm": {"hidden": 5, "tied": False, "layers": 3},
    "transformer": {"variant": 1},
    "transformer 2": {"variant": 2, "key": 5, "value": 3},
    "gpt2": {},
}
CONTEXTUAL = [*CAUSAL, "bert", "transformer seeing all"]
contextual = pytest.mark.parametrize("name", CONTEXTUAL)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    file = tmp_path_factory.mktemp("pieces") / "vocab.txt"
    file.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return read_word_pieces(file)


@pytest.fixture(scope="module")
def byte_pairs():
    return train_byte_pairs([" ".join(TEXTS)] * 3, 300)


@pytest.fixture
def reading(pieces, byte_pairs):
    """A model of random numbers with a tokenizer, by the name of its family and kind."""

    def make(name, dtype="float64", **changes):
        family, _, kind = name.partition(" ")
        tokenizer = pieces if family == "bert" else byte_pairs
        changes = {"vocabulary": tokenizer.rows, **CAUSAL.get(name, {}), **changes}
        if family in ("bert", "gpt2", "transformer"):
            changes = {"context": 40, **changes}
        if kind == "seeing all":
            changes["causal"] = False
        model = filled(small(family, **changes), dtype=dtype)
        model.tokenizer = tokenizer
        return model

    return make


def traced(model, text, layer):
    """The states after a layer in the equations, n x d."""
    trace, layers = dissect(model, text), model.config.layers
    if layer is None and "H_e" in trace.names():
        return trace["H_e"].T
    layer = layers if layer is None else layer
    if model.family not in ("rnn", "lstm"):
        return trace[f"H[{layer}]"].T
    if layer == 0:
        return trace["X"].T
    return np.stack([trace[f"h[{layer},{i}]"] for i in range(1, len(trace.ids) + 1)])


@contextual
def test_the_states_after_a_layer_are_those_of_the_equations(name, reading):
    model = reading(name)
    for layer in (None, *range(model.config.layers + 1)):
        found = embed(model, TEXTS, "tokens", layer)
        for text, states in zip(TEXTS, found.vectors, strict=True):
            agree(states, traced(model, text, layer), 1e-10)


def test_the_last_layer_of_variant_2_is_normalised_by_default_only(reading):
    model = reading("gpt2")
    last, default = (embed(model, "the rain", "tokens", layer).vectors[0] for layer in (2, None))
    assert np.abs(last - default).max() > 0.1
    norm = model.network.norm
    with torch.no_grad():
        agree(norm(torch.from_numpy(last)), default)


@contextual
@pytest.mark.parametrize("what", ["mean", "tokens"])
@pytest.mark.parametrize("layer", [None, 1])
def test_the_size_of_a_batch_changes_nothing(name, what, layer, reading):
    model = reading(name, dtype="float32")
    alone = [embed(model, [text], what, layer).vectors[0] for text in TEXTS]
    for batch in (1, 2, 3, 32):
        found = embed(model, TEXTS, what, layer, batch)
        assert found.texts == TEXTS
        for ours, theirs in zip(found.vectors, alone, strict=True):
            assert ours.dtype == np.float32
            agree(ours, theirs, 1e-6)


def test_the_mean_is_over_all_real_tokens_and_cls_is_the_first(reading):
    model = reading("bert")
    tokens = embed(model, TEXTS, "tokens")
    assert tokens.tokens[0] == ["[CLS]", "the", "rain", "[SEP]"]
    assert [len(states) for states in tokens.vectors] == [len(p) for p in tokens.tokens]
    agree(embed(model, TEXTS).vectors, [states.mean(axis=0) for states in tokens.vectors])
    agree(embed(model, TEXTS, "cls").vectors, [states[0] for states in tokens.vectors])
    cls = embed(model, TEXTS, "cls", layer=1, batch=2).vectors
    agree(cls, [states[0] for states in embed(model, TEXTS, "tokens", layer=1).vectors])


def test_static_vectors_are_columns_of_the_embedding(reading):
    for name in ("bert", "gpt2", "rnn", "lstm", "transformer", "ffnn"):
        model = reading(name)
        found = embed(model, TEXTS, "static")
        rows = [model.tokenizer.encode_many([text], framed=False)[0] for text in TEXTS]
        E = model.parameters.E
        agree(found.vectors, [E[:, ids].mean(axis=1) for ids in rows])
        assert [len(pieces) for pieces in found.tokens] == [len(ids) for ids in rows]
    bert = reading("bert")
    column = bert.parameters.E[:, WORDS.index("rain")]
    np.testing.assert_array_equal(embed(bert, "rain", "static").vectors, column[None])


def test_embedding_leaves_the_model_as_it_was(reading):
    model = reading("gpt2")
    before = embed(model, TEXTS).vectors
    network = model.network
    for layer in range(3):
        embed(model, TEXTS, layer=layer)
    assert model.network is network
    assert len(network.blocks) == 2
    assert isinstance(network.norm, torch.nn.LayerNorm)
    np.testing.assert_array_equal(embed(model, TEXTS).vectors, before)


def test_states_after_a_layer_are_of_the_network_as_it_is_now(reading):
    model = reading("lstm")
    before = embed(model, TEXTS, layer=1).vectors
    with torch.no_grad():
        model.network.layers[0].input.bias.add_(1)
    assert np.abs(embed(model, TEXTS, layer=1).vectors - before).max() > 0.01


def test_progress_is_told_up_to_the_end(reading):
    for what, expected in (("mean", [(2, 5), (4, 5), (5, 5)]), ("static", [(5, 5)])):
        told = []
        embed(reading("bert"), TEXTS, what, batch=2, progress=lambda *step: told.append(step))  # noqa: B023
        assert told == [("embedding", *step) for step in expected]


# Transformers -------------------------------------------------------------------


def checkpoint(folder, kind, described, tokenizer):
    """A tiny model that Transformers made and wrote, with its tokenizer."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        theirs = getattr(transformers, kind)(described).eval()
        for parameter in theirs.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(folder)
    tokenizer.save(folder)
    return theirs, transformers.PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json")


@pytest.fixture
def bert_peer(tmp_path, pieces):
    sizes = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 40, "vocab_size": len(WORDS)}
    described = transformers.BertConfig(max_position_embeddings=CONTEXT, **sizes)
    theirs, tokenizer = checkpoint(tmp_path, "BertModel", described, pieces)
    tokenizer.pad_token = "[PAD]"
    given = tokenizer(TEXTS, return_tensors="pt", padding=True)
    return load(tmp_path), theirs, given, tokenizer


@pytest.fixture
def gpt2_peer(tmp_path, byte_pairs):
    sizes = {"n_positions": 40, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_inner": 40}
    described = transformers.GPT2Config(
        vocab_size=byte_pairs.rows, bos_token_id=0, eos_token_id=0, **sizes
    )
    theirs, tokenizer = checkpoint(tmp_path, "GPT2Model", described, byte_pairs)
    return load(tmp_path), theirs, tokenizer


def test_all_layers_of_bert_agree_with_transformers(bert_peer):
    model, theirs, given, _ = bert_peer
    with torch.no_grad():
        hidden = theirs(**given, output_hidden_states=True).hidden_states
    real = given["attention_mask"].bool()
    for layer, states in [*enumerate(hidden), (None, hidden[-1])]:
        found = embed(model, TEXTS, "tokens", layer).vectors
        for i, ours in enumerate(found):
            agree(ours, states[i, real[i]], WITHIN)
        agree(embed(model, TEXTS, "cls", layer).vectors, states[:, 0], WITHIN)


def test_the_mean_is_that_of_sentence_transformers(bert_peer):
    model, theirs, given, _ = bert_peer
    with torch.no_grad():
        states = theirs(**given).last_hidden_state
    weights = given["attention_mask"][..., None].float()
    mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
    agree(embed(model, TEXTS).vectors, mean, WITHIN)


def test_all_layers_of_gpt2_agree_with_transformers(gpt2_peer):
    model, theirs, tokenizer = gpt2_peer
    raw = []
    theirs.h[-1].register_forward_hook(lambda _, given, out: raw.append(out))
    for i, text in enumerate(TEXTS):
        with torch.no_grad():
            hidden = theirs(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        last = raw.pop()
        last = last[0] if isinstance(last, tuple) else last
        before_norm = last if last.ndim == 3 else last[None]
        expected = {**dict(enumerate(hidden.hidden_states)), 3: before_norm}
        expected[None] = hidden.last_hidden_state
        for layer, states in expected.items():
            agree(embed(model, TEXTS, "tokens", layer).vectors[i], states[0], WITHIN)


# Too long, too little, impossible -----------------------------------------------


def test_a_text_that_is_too_long_is_refused_or_cut(bert_peer, gpt2_peer):
    model, theirs, _, tokenizer = bert_peer
    long = "he was " * 20
    with pytest.raises(SequenceTooLong, match=r"text 2 of 2 has 42 tokens, the model reads 12"):
        embed(model, ["rain", long])
    with pytest.raises(SequenceTooLong, match=r"the text has 42 tokens.*say truncate"):
        embed(model, long)
    found = embed(model, ["rain", long], truncate=True)
    given = tokenizer(long, truncation=True, max_length=CONTEXT, return_tensors="pt")
    assert found.tokens[0] == ["[CLS]", "rain", "[SEP]"]
    assert found.tokens[1] == tokenizer.convert_ids_to_tokens(given["input_ids"][0])
    with torch.no_grad():
        agree(found.vectors[1], theirs(**given).last_hidden_state[0].mean(0), WITHIN)

    model, *_ = gpt2_peer
    pieces = embed(model, "rain" * 50, "tokens", truncate=True).tokens[0]
    assert len(pieces) == 40
    assert "".join(pieces) == ("rain" * 50)[: len("".join(pieces))]


def test_the_longest_text_that_fits_is_read_whole(bert_peer):
    longest = "he " * (CONTEXT - 2)
    assert len(embed(bert_peer[0], longest, "tokens").vectors[0]) == CONTEXT


def test_recurrent_models_and_static_vectors_know_no_longest_text(reading):
    long = "the rain fell on " * 50
    assert len(embed(reading("lstm"), long, "tokens").vectors[0]) > 100
    for name in ("ffnn", "bert", "gpt2"):
        embed(reading(name), long, "static")


@pytest.mark.parametrize(
    ("name", "texts", "options", "error", "message"),
    [
        ("bert", TEXTS, {"what": "max"}, UnknownSetting, "mean, cls, tokens or static, got 'max'"),
        ("bert", TEXTS, {"layer": 3}, ImpossibleSetting, "layers 0 to 2, got 3"),
        ("lstm", TEXTS, {"layer": -1}, ImpossibleSetting, "layers 0 to 3, got -1"),
        ("bert", TEXTS, {"what": "static", "layer": 1}, ImpossibleSetting, "have no layer"),
        ("bert", TEXTS, {"batch": 0}, ImpossibleSetting, "batch must be at least 1, got 0"),
        ("bert", [], {}, EmptyCorpus, "there are no texts"),
        ("bert", ["rain", " "], {}, EmptySequence, "text 2 of 2 is empty"),
        ("gpt2", "", {}, EmptySequence, "the text is empty"),
        ("gpt2", ["", "x"], {"what": "static"}, EmptySequence, "text 1 of 2 is empty"),
        ("gpt2", TEXTS, {"what": "cls"}, WrongKind, r"puts no \[CLS\] before a text"),
        ("ffnn", TEXTS, {}, WrongKind, "mean needs a state for every token.*serves static"),
        ("ffnn", TEXTS, {"what": "tokens"}, WrongKind, "tokens needs a state"),
        ("ffnn", TEXTS, {"what": "cls"}, WrongKind, "cls needs a state"),
    ],
)
def test_what_cannot_be_embedded_is_refused(name, texts, options, error, message, reading):
    with pytest.raises(error, match=message):
        embed(reading(name), texts, **options)


def test_a_model_needs_text_and_a_tokenizer_of_its_own(reading, tmp_path):
    with pytest.raises(WrongKind, match=r"embed needs a model of ffnn, .* or bert, this is igpt"):
        embed(filled(small("igpt")), "the rain")
    filled(small("gpt2"), dtype="float32").save(tmp_path)
    for verb in (embed, similar):
        with pytest.raises(WrongKind, match=r"no tokenizer.*tokenizer\.json"):
            verb(load(tmp_path), "the rain")
    small_one = reading("gpt2", vocabulary=100)
    for what in ("mean", "static"):
        with pytest.raises(TokenOutOfRange):
            embed(small_one, TEXTS, what)


def test_a_vocabulary_with_cls_does_not_yet_put_it_before_texts(reading):
    model = reading("bert")
    inner = models.WordLevel({"[CLS]": 0, "[UNK]": 1, "rain": 2}, unk_token="[UNK]")
    model.tokenizer = Tokenizer(tokenizers.Tokenizer(inner))
    assert "[CLS]" in model.tokenizer.special
    with pytest.raises(WrongKind, match=r"puts no \[CLS\] before a text"):
        embed(model, "rain", "cls")


# Files --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("what", WHAT)
def test_vectors_are_saved_as_they_are(what, dtype, reading, tmp_path):
    found = embed(reading("bert", dtype), TEXTS, what)
    found.save(tmp_path / "v.safetensors")
    read = load_file(tmp_path / "v.safetensors")
    assert {array.dtype for array in read.values()} == {np.dtype(dtype)}
    if what == "tokens":
        assert sorted(read) == list("01234")
        for i, states in enumerate(found.vectors):
            np.testing.assert_array_equal(read[str(i)], states)
        with pytest.raises(WrongKind, match=r"one array for each text.*\.safetensors"):
            found.save(tmp_path / "v.npy")
    else:
        np.testing.assert_array_equal(read.pop("vectors"), found.vectors)
        assert not read
        found.save(str(tmp_path / "v.npy"))
        read = np.load(tmp_path / "v.npy")
        assert read.dtype == dtype
        np.testing.assert_array_equal(read, found.vectors)
    kept = {"v.safetensors"} if what == "tokens" else {"v.safetensors", "v.npy"}
    assert {file.name for file in tmp_path.iterdir()} == kept


def test_names_that_cannot_be_saved_under_are_refused(reading, tmp_path):
    found = embed(reading("bert"), TEXTS)
    for name in ("v.txt", "v", "v.npz"):
        with pytest.raises(WrongKind, match=r"\.npy or \.safetensors, got '.*v"):
            found.save(tmp_path / name)
    with pytest.raises(Unwritable, match=r"there is no folder .*nowhere to write v\.npy in"):
        found.save(tmp_path / "nowhere" / "v.npy")


@pytest.mark.parametrize("name", ["v.npy", "v.safetensors"])
def test_a_failure_leaves_the_older_file_as_it_was(name, reading, tmp_path, monkeypatch):
    found, file = embed(reading("bert"), TEXTS), tmp_path / name
    file.write_bytes(b"older")

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        found.save(file)
    assert [f.name for f in tmp_path.iterdir()] == [name]
    assert file.read_bytes() == b"older"
    monkeypatch.undo()
    found.save(file)
    assert file.read_bytes() != b"older"


def test_embeddings_are_json(reading):
    found = embed(reading("bert"), ["the rain", "he"], layer=1)
    said = json.loads(json.dumps(found.to_json()))
    assert (said["what"], said["layer"]) == ("mean", 1)
    assert said["texts"][0]["text"] == "the rain"
    assert said["texts"][0]["tokens"] == ["[CLS]", "the", "rain", "[SEP]"]
    np.testing.assert_array_equal([row["vector"] for row in said["texts"]], found.vectors)


# Nearness -----------------------------------------------------------------------


def test_distances_are_those_of_scipy(rng):
    vectors, to = rng.normal(size=(20, 7)), rng.normal(size=7)
    agree(cosine(vectors, to), [1 - scipy_distance.cosine(v, to) for v in vectors])
    agree(euclidean(vectors, to), [scipy_distance.euclidean(v, to) for v in vectors])


def test_the_cosine_of_nothing_is_zero_and_none_goes_beyond_one(rng):
    vectors, to = rng.normal(size=(500, 3)).astype(np.float32), np.float32([1, 2, 3])
    vectors[0] = 0
    assert cosine(vectors, to)[0] == 0
    np.testing.assert_array_equal(cosine(vectors, np.zeros(3, np.float32)), np.zeros(500))
    assert max(cosine(vectors, v).max() for v in vectors) == 1
    assert min(cosine(vectors, -v).min() for v in vectors) == -1


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("query", ["rain", "walking in"])
def test_the_nearest_words_are_those_of_the_nearest_columns(distance, query, reading):
    model = reading("bert", vocabulary=len(WORDS) + 3)  # rows that no word has
    E, own = model.parameters.E, query.replace("ing", " ##ing").split()
    vector = np.mean([E[:, WORDS.index(word)] for word in own], axis=0)
    measure = getattr(scipy_distance, distance)
    others = [word for word in WORDS if word not in (*own, *WORDS[:5])]
    expected = sorted(others, key=lambda word: measure(E[:, WORDS.index(word)], vector))

    found = similar(model, query, top=1000, distance=distance)
    assert [word for word, _ in found] == expected
    scores = [measure(E[:, WORDS.index(word)], vector) for word in expected]
    agree(
        [score for _, score in found], scores if distance == "euclidean" else 1 - np.array(scores)
    )
    assert similar(model, query, top=3, distance=distance) == found[:3]
    assert similar(model, query, top=10**20, distance=distance) == found


def test_the_end_of_texts_is_no_word(reading):
    model = reading("lstm")
    assert "<|endoftext|>" in model.tokenizer.special
    pieces = [word for word, _ in similar(model, "the", top=1000)]
    assert "<|endoftext|>" not in pieces
    assert " rain" in pieces


def test_the_nearest_texts_are_those_of_the_nearest_vectors(reading):
    model = reading("bert")
    query = "the rain fell ."
    for what, distance in itertools.product(("mean", "cls", "static"), DISTANCES):
        vector = embed(model, query, what).vectors[0]
        measure = getattr(scipy_distance, distance)
        far = {text: measure(embed(model, text, what).vectors[0], vector) for text in TEXTS}
        found = similar(model, query, TEXTS, distance=distance, what=what)
        assert [text for text, _ in found] == sorted(TEXTS, key=far.get)
        expected = [far[t] if distance == "euclidean" else 1 - far[t] for t, _ in found]
        agree([score for _, score in found], expected, 1e-10)
    assert similar(model, query, TEXTS) == similar(model, query, iter(TEXTS), what="mean")
    assert len(similar(model, query, TEXTS, top=2)) == 2


def test_a_text_is_nearest_to_itself(reading):
    model = reading("gpt2", dtype="float32")
    assert similar(model, TEXTS[3], TEXTS, top=1) == [(TEXTS[3], pytest.approx(1))]
    nearest = similar(model, TEXTS[3], TEXTS, 1, "euclidean")
    assert nearest == [(TEXTS[3], pytest.approx(0, abs=1e-5))]


def test_texts_of_ffnn_are_compared_by_static_vectors(reading):
    model = reading("ffnn")
    assert similar(model, "rain", TEXTS) == similar(model, "rain", TEXTS, what="static")


def test_texts_that_are_compared_can_be_cut(reading):
    model, long = reading("bert", context=CONTEXT), "he was " * 20
    for query, texts in ((long, ["rain"]), ("rain", [long])):
        with pytest.raises(SequenceTooLong, match="say truncate"):
            similar(model, query, texts)
        assert len(similar(model, query, texts, truncate=True)) == 1


def test_a_neighbour_is_json(reading):
    first = similar(reading("bert"), "rain", top=1)[0]
    assert isinstance(first, Neighbour)
    assert first.to_json() == {"text": first.text, "score": first.score}
    json.dumps(first.to_json())


@pytest.mark.parametrize(
    ("query", "options", "error", "message"),
    [
        ("rain", {"top": 0}, ImpossibleSetting, "top must be at least 1, got 0"),
        ("rain", {"distance": "cosinus"}, UnknownSetting, "did you mean cosine"),
        ("rain", {"what": "mean"}, ImpossibleSetting, "words are compared by their static"),
        ("rain", {"among": TEXTS, "what": "tokens"}, ImpossibleSetting, "one vector each"),
        ("rain", {"among": TEXTS, "what": "avg"}, UnknownSetting, "tokens or static, got 'avg'"),
        ("rain", {"among": []}, EmptyCorpus, "no texts to compare with"),
        ("rain", {"among": ["on", ""]}, EmptySequence, "text 2 of 2 is empty"),
        ("", {}, EmptySequence, "the text is empty"),
        ("", {"among": TEXTS}, EmptySequence, "the text is empty"),
        ("xyzzy", {}, NotInVocabulary, "'xyzzy' is not in the vocabulary"),
    ],
)
def test_what_cannot_be_compared_is_refused(query, options, error, message, reading):
    with pytest.raises(error, match=message):
        similar(reading("bert"), query, **options)


def test_only_models_of_text_compare(reading):
    with pytest.raises(WrongKind, match=r"similar needs a model of .*this is tst, which serves"):
        similar(filled(small("tst")), "rain")
