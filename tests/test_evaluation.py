"""Evaluation: every token once, from all that the model may see, and what its nats come to."""

import json
import math
import os
import re
import resource
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import NOTHING_COMPILED, vesalius
from published import published
from strategies import filled, small
from surroundings import own_cache

from vesalius import evaluation, load
from vesalius.data import parts, stories
from vesalius.data.parts import evaluation_texts, notes_on
from vesalius.data.texts import StoryTexts, read_texts
from vesalius.errors import (
    BrokenFile,
    EmptyCorpus,
    ImpossibleSetting,
    NotFetched,
    TokenOutOfRange,
    UnknownCorpus,
    WrongKind,
)
from vesalius.evaluation import evaluate
from vesalius.families import configuration
from vesalius.generation import forward
from vesalius.model import Model
from vesalius.preparation import Preparation
from vesalius.tokenizers import train_byte_pairs, train_characters, train_words

TEXT = "éa rainy day, a rainy night.\nI forgot it: a day — 雨.\n"
LANGUAGE = ("ffnn", "rnn", "lstm", "transformer", "gpt2")
FEW = StoryTexts(words=1500, seed=3)
families = pytest.mark.parametrize("family", LANGUAGE)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch, one_thread):
    monkeypatch.setenv("VESALIUS_CACHE", own_cache(tmp_path / "cache"))
    monkeypatch.setattr(parts, "HELD_OUT_STORIES", FEW)


@pytest.fixture(scope="module")
def characters():
    return train_characters([TEXT])


@pytest.fixture(scope="module")
def byte_pairs():
    return train_byte_pairs([TEXT], 262)


@pytest.fixture(scope="module")
def story_words():
    return train_words((text for text, _ in StoryTexts(60_000, 1).portions()), 2000)


def speaking(family, tokenizer, seed=0, **changes):
    """A model of random numbers that reads the tokens of a tokenizer."""
    model = filled(small(family, vocabulary=tokenizer.rows, **changes), seed)
    model.tokenizer = tokenizer
    return model


def uniform(tokenizer):
    """A model to which all tokens are equally likely."""
    model = speaking("ffnn", tokenizer)
    model.state = {name: np.zeros_like(array) for name, array in model.state.items()}
    return model


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    return file


def seen(model, ids, t, stride):
    """The tokens from which token t is to be predicted."""
    if model.family == "ffnn":
        return ([ids[0]] * model.config.context + ids[:t])[-model.config.context :]
    if model.family in ("rnn", "lstm"):
        return ids[:t]
    context = model.config.context
    end = context
    while end < t:
        end += min(stride or context // 2, context)
    return ids[max(0, min(end, len(ids) - 1) - context) : t]


def one_by_one(model, ids, stride=None):
    """Nats and right answers, each token predicted on its own."""
    nats, right = 0.0, 0
    for t in range(1, len(ids)):
        with torch.no_grad():
            logits = model.network(torch.tensor([seen(model, ids, t, stride)]))
        last = (logits if model.family == "ffnn" else logits[:, -1])[0].numpy()
        odds = np.exp(last) / np.exp(last).sum()
        nats -= math.log(odds[ids[t]])
        right += int(last.argmax()) == ids[t]
    return nats, right


@families
def test_a_model_is_asked_for_each_token_as_if_it_were_alone(family, byte_pairs, file):
    model = speaking(family, byte_pairs)
    ids = [byte_pairs.special["<|endoftext|>"], *byte_pairs.encode(TEXT)]
    ids.append(ids[0])
    nats, right = one_by_one(model, ids)
    found = evaluate(model, str(file))
    assert found.corpus == str(file)
    assert found.tokens == len(ids) - 1
    assert found.loss == pytest.approx(nats / (len(ids) - 1), rel=1e-9)
    assert found.perplexity == pytest.approx(math.exp(nats / (len(ids) - 1)), rel=1e-9)
    assert found.accuracy == right / (len(ids) - 1)
    assert found.bits_per_byte == pytest.approx(nats / math.log(2) / len(TEXT.encode()), rel=1e-9)
    assert (found.nats_per_word, found.floor, found.distance, found.unknown) == (*[None] * 3, 0)


@families
def test_without_an_end_of_texts_the_first_token_is_given(family, characters, file):
    model = speaking(family, characters)
    ids = characters.encode(TEXT)
    nats, right = one_by_one(model, ids)
    found = evaluate(model, str(file))
    assert found.tokens == len(TEXT) - 1
    assert found.loss == pytest.approx(nats / (len(TEXT) - 1), rel=1e-9)
    assert found.accuracy == right / (len(TEXT) - 1)
    assert found.bits_per_byte == pytest.approx(nats / math.log(2) / len(TEXT[1:].encode()))


@pytest.mark.parametrize("stride", [1, 2, 3, 8, 9, 10, 1000])
@pytest.mark.parametrize("length", [2, 5, 9, 10, 11, 18, 19, 30])
def test_strides_give_each_token_its_context(stride, length, characters, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT[:length], encoding="utf-8")
    model = speaking("gpt2", characters)
    assert model.config.context == 9
    nats, right = one_by_one(model, characters.encode(TEXT[:length]), stride)
    found = evaluate(model, str(file), stride)
    assert found.tokens == length - 1
    assert found.loss == pytest.approx(nats / (length - 1), rel=1e-9)
    assert found.accuracy == right / (length - 1)


def test_more_context_is_used_where_the_stride_is_shorter(characters, file):
    losses = [evaluate(speaking("gpt2", characters), str(file), stride).loss for stride in (1, 9)]
    assert abs(losses[0] - losses[1]) > 1e-3


@dataclass
class Watched:
    """An engine whose states say which token was read, and how many had been read with that."""

    asked: list = field(default_factory=list)

    def session(self, slots, length):
        return WatchedSession(self.asked, np.zeros(slots, int), length)


@dataclass
class WatchedSession:
    asked: list
    read: Any
    length: int

    def extend(self, slots, rows):
        self.asked.append((len(rows), max(map(len, rows))))
        states = []
        for slot, row in zip(slots, rows, strict=True):
            states.append(np.stack([row, self.read[slot] + np.arange(1, len(row) + 1)], axis=1))
            self.read[slot] += len(row)
        return states


def watched(how, length, *settings):
    """Of each token but the first: its place, the place before it that was read, how many were."""
    engine = Watched()
    predicted = list(how(engine, np.arange(length), *settings))
    places = np.concatenate([targets for _, targets in predicted])
    told = np.concatenate([states for states, _ in predicted])
    return places, told[:, 0], told[:, 1], engine.asked


every = settings(max_examples=300)


@every
@given(st.integers(2, 400), st.integers(1, 40), st.none() | st.integers(1, 50))
def test_a_transformer_predicts_every_token_once(length, context, stride):
    windows = evaluation.strided(length - 1, context, stride)
    places, before, read, asked = watched(evaluation.by_window, length, windows)
    assert places.tolist() == list(range(1, length))
    assert (before == places - 1).all()
    kept = context - min(context, stride or max(1, context // 2))
    assert (read >= np.minimum(places, kept + 1)).all()
    assert (read <= np.minimum(places, context)).all()
    assert max(width for _, width in asked) <= context


@every
@given(st.integers(2, 3000), st.integers(1, 20))
def test_a_window_predicts_every_token_once(length, context):
    places, before, read, _ = watched(evaluation.by_stream, length, context)
    assert places.tolist() == list(range(1, length))
    assert (before == places - 1).all()
    assert (read == places + context - 1).all()


@every
@given(st.integers(2, 900), st.integers(1, 4), st.integers(1, 5))
def test_a_recurrent_network_predicts_every_token_once(length, batch, step):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "BATCH", batch)
        patch.setattr(evaluation, "STEP", step)
        places, before, read, asked = watched(evaluation.by_stream, length, None)
    assert sorted(places) == list(range(1, length))
    assert (before == places - 1).all()
    streams = asked[0][0]
    assert streams == (batch if length > 100 * batch * step else 1)
    lacking = places - read  # what was not read: all before the token's stream
    assert len(set(lacking)) == streams
    assert (read <= math.ceil((length - 1) / streams)).all()
    assert lacking.min() == 0


@pytest.mark.parametrize("most", [1, 7, 100])
def test_logits_are_given_in_parts_that_fit_into_memory(most, characters, file, monkeypatch):
    model, asked = speaking("gpt2", characters), []
    whole = evaluate(model, str(file))
    monkeypatch.setattr(evaluation, "LOGITS", most * characters.rows)
    logits = forward.logits

    def watching(model, states):
        asked.append(len(states))
        return logits(model, states)

    monkeypatch.setattr(forward, "logits", watching)
    assert evaluate(model, str(file)).loss == pytest.approx(whole.loss, rel=1e-12)
    assert max(asked) <= most
    assert sum(asked) == whole.tokens


def test_bits_a_byte_of_a_uniform_model(byte_pairs, characters, file):
    for tokenizer, count, size in (
        (byte_pairs, len(byte_pairs.encode(TEXT)) + 1, len(TEXT.encode())),
        (characters, len(TEXT) - 1, len(TEXT.encode()) - 2),
    ):
        found = evaluate(uniform(tokenizer), str(file))
        assert found.tokens == count
        assert found.perplexity == pytest.approx(tokenizer.rows)
        assert found.bits_per_byte == pytest.approx(count * math.log2(tokenizer.rows) / size)


def test_files_of_a_folder_are_documents_with_ends(byte_pairs, tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("a rainy day")
    found = evaluate(uniform(byte_pairs), str(tmp_path))
    assert found.tokens == 2 * (len(byte_pairs.encode("a rainy day")) + 1)
    assert found.bits_per_byte == pytest.approx(found.tokens * math.log2(byte_pairs.rows) / 22)


def test_a_loss_beyond_all_numbers_has_a_perplexity(characters, file):
    model = speaking("lstm", characters)
    model.state = {name: array * 1e6 for name, array in model.state.items()}
    found = evaluate(model, str(file))
    assert found.loss > 1000
    assert math.isfinite(found.perplexity)


def test_the_floor_of_stories_is_the_grammars_own(story_words):
    found = evaluate(uniform(story_words), "stories")
    documents = list(stories.stories(3, len(list(FEW.portions()))))
    words = sum(len(stories.stream(document)) for document in documents)
    nats = -sum(map(stories.log_probability, documents))
    assert found.floor == pytest.approx(nats / words, rel=1e-9)
    assert found.nats_per_word == pytest.approx(math.log(story_words.rows))
    assert found.distance == pytest.approx(found.nats_per_word - found.floor)
    assert found.to_json()["distance"] == found.distance


def test_the_floor_comes_to_the_entropy(monkeypatch, story_words):
    monkeypatch.setattr(parts, "HELD_OUT_STORIES", StoryTexts(20_000, 3))
    assert abs(evaluate(uniform(story_words), "stories").floor - stories.entropy()) < 0.03


def test_a_model_that_knows_the_grammar_is_at_the_floor(story_words, monkeypatch):
    """Its odds are the grammar's, so nothing is left between them."""

    class Grammar(Model):
        family = "gpt2"
        config = configuration("gpt2", context=5000, vocabulary=story_words.rows)
        tokenizer = story_words
        preprocessing = Preparation()

        def __init__(self):
            """It has no weights."""

        def session(self, slots, length):
            return self

        def extend(self, slots, rows):
            words = [story_words.piece(int(i)) for i in rows[0]]
            words = [stories.END if word == "<|endoftext|>" else word for word in words[1:]]
            logits = np.full((len(words) + 1, story_words.rows), -1e9)
            for place, odds in enumerate(stories.distributions(words)):
                for word, odd in odds.items():
                    id_ = 0 if word == stories.END else story_words.id_of(word)
                    logits[place, id_] = math.log(odd) if odd else -1e9
            return [logits]

    monkeypatch.setattr(forward, "running", lambda model, tokens: model)
    monkeypatch.setattr(forward, "logits", lambda model, states: states)
    found = evaluate(Grammar(), "stories")
    assert found.unknown == 0
    assert found.distance == pytest.approx(0, abs=1e-9)
    assert found.loss == pytest.approx(found.floor)


@families
def test_a_model_that_learned_nothing_is_above_the_floor(family, story_words):
    assert evaluate(speaking(family, story_words), "stories").distance > 0.5


def test_pieces_of_words_are_counted_as_the_words_they_make():
    tokenizer = train_byte_pairs((text for text, _ in FEW.portions()), 400)
    found = evaluate(uniform(tokenizer), "stories")
    words = sum(len(stories.as_words(text)) for text, _ in FEW.portions())
    assert found.tokens > words
    assert found.nats_per_word == pytest.approx(found.tokens * math.log(400) / words)
    assert found.distance > 0


def test_unknown_words_are_counted_and_not_compared():
    """A model that always says [UNK] would else be better than the grammar."""
    tokenizer = train_words((text for text, _ in FEW.portions()), 3)
    found = evaluate(uniform(tokenizer), "stories")
    assert found.unknown / found.tokens > 0.5
    assert found.loss == pytest.approx(math.log(3))
    assert (found.nats_per_word, found.floor, found.distance) == (None, None, None)


def test_progress_is_told_while_a_text_becomes_tokens(characters, file):
    told = []
    evaluate(speaking("rnn", characters), str(file), progress=lambda *news: told.append(news))
    size = len(TEXT.encode())
    assert told[-1] == (f"tokens of {file}", size, size)


def test_a_model_that_sees_its_answers_is_refused(characters, file):
    with pytest.raises(WrongKind, match="causal is false"):
        evaluate(speaking("transformer", characters, causal=False), str(file))


def test_a_model_without_tokenizer_is_refused(file):
    with pytest.raises(WrongKind, match="has no tokenizer"):
        evaluate(filled(small("gpt2")), str(file))


def test_the_tokenizer_of_another_model_is_noticed(byte_pairs, file):
    model = filled(small("gpt2"))
    model.tokenizer = byte_pairs
    with pytest.raises(TokenOutOfRange, match=r"vocabulary has 17 tokens, but .* gives 26\d on"):
        evaluate(model, str(file))


@pytest.mark.parametrize("stride", [0, -3])
def test_strides_go_forward(stride, characters, file):
    with pytest.raises(ImpossibleSetting, match=f"stride must be at least 1, got {stride}"):
        evaluate(speaking("gpt2", characters), str(file), stride)


@pytest.mark.parametrize("name", ["storeis", "no/such/file.txt", "", "x" * 5000])
def test_unknown_corpora_are_named(name):
    with pytest.raises(UnknownCorpus, match=r"no file or folder '.* and no corpus of this name; "):
        evaluation_texts(name)


def test_what_is_wrong_with_a_file_is_said_of_the_file(tmp_path, characters):
    with pytest.raises(EmptyCorpus, match="holds no text files"):
        evaluation_texts(str(tmp_path))
    file = tmp_path / "text.txt"
    file.write_text("")
    with pytest.raises(EmptyCorpus, match=r"text\.txt is empty"):
        evaluation_texts(str(file))
    file.write_text("a")
    with pytest.raises(EmptyCorpus, match=r"text\.txt has one token, and nothing before it"):
        evaluate(speaking("gpt2", characters), str(file))
    file.write_bytes(b"a\xff")
    with pytest.raises(BrokenFile, match="0xff at offset 1"):
        evaluate(speaking("gpt2", characters), str(file))


def test_a_corpus_that_is_not_here_says_how_to_get_it(monkeypatch):
    monkeypatch.delenv("VESALIUS_DATA", raising=False)
    with pytest.raises(NotFetched, match="tinyshakespeare is not here"):
        evaluation_texts("tinyshakespeare")


def test_the_classics_are_evaluated_on_books_that_were_held_out():
    published("text/classics")
    assert {part.file.parent.name for part in evaluation_texts("classics")[0].parts} == {"valid"}


def test_ends_of_lines_change_nothing(characters, tmp_path):
    """With \\r\\n, which no model was trained on, the same text would seem harder."""
    found = []
    for name, end in (("unix", "\n"), ("windows", "\r\n"), ("mac", "\r")):
        (tmp_path / name).write_bytes(TEXT.replace("\n", end).encode())
        found.append(evaluate(speaking("gpt2", characters), str(tmp_path / name)).to_json())
    for other in found:
        assert {**other, "corpus": "", "notes": []} == {**found[0], "corpus": ""}


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_ends_of_lines_that_are_read_as_others_are_told_each_time(end, characters, tmp_path):
    for name, other in (("own.txt", end), ("plain.txt", "\n")):
        (tmp_path / name).write_bytes(TEXT.replace("\n", other).encode())
    model = speaking("gpt2", characters)
    for _ in range(2):  # the second time from the token file
        found = evaluate(model, tmp_path / "own.txt")
        assert found.notes == (r"line ends \r\n and \r were read as \n",)
        assert repr(found).count(found.notes[0]) == 1
        assert found.to_json()["notes"] == [*found.notes]
    assert evaluate(model, tmp_path).notes == (f"{found.notes[0]}, in 1 of 2 files",)
    assert evaluate(model, tmp_path / "plain.txt").notes == ()
    assert notes_on(("classics", read_texts(tmp_path / "own.txt"))) == ()  # fetched, not one's own


def test_the_table_says_how_many_tokens_are_unknown(file):
    found = evaluate(uniform(train_words([TEXT], 3)), str(file))
    share = found.unknown / found.tokens
    assert re.search(rf"of them unknown words +{found.unknown} \({share:.2%}\)", repr(found))
    assert "unknown" not in repr(evaluate(uniform(train_characters([TEXT])), str(file)))


@pytest.mark.parametrize(("cache", "most"), [("file/below", None), ("full", 100)])
def test_what_cannot_be_kept_is_said_in_a_line_and_changes_nothing(tmp_path, file, cache, most):
    (tmp_path / "file").write_text("")
    limit = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))) if most else None
    environment = {**os.environ, "VESALIUS_CACHE": str(tmp_path / cache), **NOTHING_COMPILED}
    done = vesalius("evaluate", "ffnn", str(file), "--json", env=environment, preexec_fn=limit)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"token files cannot be kept in {tmp_path / cache}")
    expected = evaluate(load("ffnn"), str(file)).to_json()
    assert json.loads(done.stdout)["bits_per_byte"] == expected["bits_per_byte"]


def single(model):
    """The same in single precision, which the compiled engines run."""
    model.state = {name: array.astype(np.float32) for name, array in model.state.items()}
    return model


@families
def test_long_texts_are_scored_alike_by_the_compiled_engines(family, characters, file, monkeypatch):
    model = single(speaking(family, characters))
    short = evaluate(model, str(file))
    monkeypatch.setattr(forward, "LONG", 0)
    long = evaluate(model, str(file))
    assert long.loss == pytest.approx(short.loss, rel=1e-6)
    assert long.accuracy == short.accuracy


@pytest.mark.usefixtures("no_progress_bars")
def test_the_loss_is_transformers(characters, tmp_path):
    import transformers

    model = single(speaking("gpt2", characters))
    text = TEXT[: model.config.context]
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    model.save(tmp_path / "model", "huggingface")
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "model")
    ids = torch.tensor([characters.encode(text)])
    with torch.no_grad():
        loss = theirs(ids, labels=ids).loss.item()
    assert evaluate(model, str(tmp_path / "text.txt")).loss == pytest.approx(loss, rel=1e-5)
