"""Learning vocabularies: always the same one, from a stream, by the rule it is named after."""

import json
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from vesalius.errors import ImpossibleSetting
from vesalius.tokenizers import (
    NotInVocabulary,
    train_byte_pairs,
    train_characters,
    train_word_pieces,
    train_words,
)

TEXTS = [
    "She sells sea shells by the sea shore; the shells she sells are surely seashells.",
    "Peter Piper picked a peck of pickled peppers. How many pickled peppers did he pick?",
    "How much wood would a woodchuck chuck if a woodchuck could chuck wood? Ça, 雨雨 42!",
]
TRAINERS = {
    "bytes": lambda texts: train_byte_pairs(texts, 320),
    "pieces": lambda texts: train_word_pieces(texts, 75),
    "characters": train_characters,
    "words": lambda texts: train_words(texts, 30),
}
every = pytest.mark.parametrize("train", TRAINERS.values(), ids=TRAINERS.keys())


def stored(tokenizer, folder):
    tokenizer.save(folder)
    return json.loads((folder / "tokenizer.json").read_text())


@every
def test_a_stream_gives_what_a_list_gives(train, tmp_path):
    from_list = stored(train(TEXTS), tmp_path / "list")
    assert stored(train(text for text in TEXTS), tmp_path / "stream") == from_list


@every
def test_one_text_is_a_text_and_not_its_characters(train, tmp_path):
    text = TEXTS[0] * 2
    assert stored(train(text), tmp_path / "text") == stored(train([text]), tmp_path / "list")


@pytest.mark.parametrize("name", TRAINERS)
def test_other_processes_learn_the_same_ids(name, tmp_path):
    """Rust's hash maps are ordered anew in every process, and ties between pairs abound here."""
    call = {"bytes": "byte_pairs(T, 320)", "pieces": "word_pieces(T, 75)", "words": "words(T, 30)"}
    code = f"import vesalius.tokenizers as t; T = {TEXTS!r}\n"
    code += f"t.train_{call.get(name, 'characters(T)')}.save({str(tmp_path)!r})"
    expected = stored(TRAINERS[name](TEXTS), tmp_path / "here")
    for _ in range(3):
        subprocess.run([sys.executable, "-c", code], check=True)
        assert json.loads((tmp_path / "tokenizer.json").read_text()) == expected


def pairs_of(words):
    counts = Counter()
    for parts, count in words.items():
        for pair in pairwise(parts):
            counts[pair] += count
    return counts


def merged(parts, pair):
    joined, at = [], 0
    while at < len(parts):
        step = 2 if parts[at : at + 2] == pair else 1
        joined.append("".join(parts[at : at + step]))
        at += step
    return tuple(joined)


def test_every_merge_was_of_the_commonest_pair(tmp_path):
    text = "low lower lowest new newer newest wide wider widest slow slower slowest"
    model = stored(train_byte_pairs([text], 300), tmp_path)["model"]
    words = Counter(tuple("Ġ" + w if i else w) for i, w in enumerate(text.split()))
    assert len(model["merges"]) > 12
    for left, right in model["merges"]:
        counts = pairs_of(words)
        assert counts[left, right] == max(counts.values())
        words = Counter({merged(parts, (left, right)): n for parts, n in words.items()})
    assert max(pairs_of(words).values(), default=0) < 2  # nothing was left that occurs twice


def test_word_pieces_are_the_commonest_of_words():
    tokenizer = train_word_pieces(["playing played player plays sing sings ringing"] * 5, 60)
    pieces = {tokenizer.piece(i) for i in range(tokenizer.size)}
    assert {"play", "##ing", "##e", "p", "[MASK]"} <= pieces
    ids = tokenizer.encode("Playing PINGS")
    assert [tokenizer.piece(i) for i in ids[1:3]] == ["playing", "p"]


@pytest.mark.parametrize("often", [2, 10_000])
def test_the_commoner_pair_becomes_a_piece_first(often):
    tokenizer = train_word_pieces(["ab " * often, "zy " * (often + 1)], 5 + 4 + 2 + 1)
    assert tokenizer.id_of("zy") == 11
    with pytest.raises(NotInVocabulary):
        tokenizer.id_of("ab")


def test_capitals_stay_where_they_are_wanted():
    cased = train_word_pieces(TEXTS, 130, lowercase=False)
    assert cased.decode(cased.encode("Peter")[1:-1]) == "Peter"
    assert cased.id_of("P") != cased.id_of("p")
    with pytest.raises(NotInVocabulary):
        train_word_pieces(TEXTS, 110).id_of("P")


def test_sizes_are_kept_to():
    assert train_byte_pairs(TEXTS, 270).size == 270
    assert train_byte_pairs(TEXTS, 257).size == 257
    assert train_byte_pairs(TEXTS, 9000).size < 9000
    assert train_word_pieces(TEXTS, 75).size == 75
    assert train_characters(TEXTS).size == len(set("".join(TEXTS)))
    assert train_words(TEXTS, 20).size == 20
    assert train_words(TEXTS, 9000).size < 100


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (lambda: train_byte_pairs(TEXTS, 256), "at least 257 here: 256 bytes and 1 special token;"),
        (lambda: train_byte_pairs(TEXTS, 300, special=("e",)), "'e' could be a piece of a text"),
        (lambda: train_byte_pairs(TEXTS, 300, special=("",)), "'' could be a piece of a text"),
        (lambda: train_word_pieces(TEXTS, 5), "at least 6 here"),
        (lambda: train_word_pieces(TEXTS, 20), "characters of the texts, alone and in words"),
        (lambda: train_characters(["", ""]), "the texts are empty"),
        (lambda: train_word_pieces([" \n"], 50), "the texts hold no words"),
        (lambda: train_words(TEXTS, 2), "at least 3 here: 2 special tokens and one word; got 2"),
        (lambda: train_words([" \n"], 50), "the texts hold no words"),
    ],
)
def test_what_cannot_be_learned_is_said(train, message):
    with pytest.raises(ImpossibleSetting, match=message):
        train()


def test_an_error_while_reading_texts_is_not_hidden():
    def texts():
        yield TEXTS[0]
        raise OSError("the disk is gone")

    for train in TRAINERS.values():
        with pytest.raises(OSError, match="the disk is gone"):
            train(texts())


def test_training_is_silent(capfd):
    for train in TRAINERS.values():
        train(TEXTS)
    assert capfd.readouterr() == ("", "")


def test_words_are_numbered_by_how_often_they_occur_then_by_alphabet():
    tokenizer = train_words(["Rain, rain; go away.", "RAIN again, go! Zebras, go"], 9000)
    pieces = [tokenizer.piece(i) for i in range(tokenizer.size)]
    assert pieces[:2] == ["<|endoftext|>", "[UNK]"]
    assert pieces[2:] == [",", "go", "rain", "!", ".", ";", "again", "away", "zebras"]
    assert tokenizer.rows == len(pieces)


def test_the_commonest_words_are_kept_and_others_are_unknown():
    tokenizer = train_words(["go go go, rain rain. away"], 4)
    assert tokenizer.encode("Go, RAIN!") == [2, 1, 3, 1]
    assert tokenizer.special == {"<|endoftext|>": 0, "[UNK]": 1}


def test_words_become_readable_text_again():
    tokenizer = train_words(['Anna said, "I do not know it." Why? Rain!'], 100)
    ids = tokenizer.encode('Anna said, "I do not know it." Why? Rain!')
    assert tokenizer.decode(ids) == 'anna said, " i do not know it. " why? rain!'
    assert tokenizer.encode(tokenizer.decode(ids)) == ids
    unknown = tokenizer.encode("<|endoftext|>Anna said # snow")
    assert tokenizer.decode(unknown) == "<|endoftext|> anna said [UNK] [UNK]"
    assert tokenizer.encode(tokenizer.decode(unknown)) == unknown


def test_words_of_stories_are_the_words_of_the_grammar():
    from vesalius.data import stories

    text = stories.text(seed=1, words=60_000)
    tokenizer = train_words([text], 9000)
    assert tokenizer.size == len(stories.vocabulary()) + 1  # [UNK]; the end of a text is END
    known = [word for word in stories.as_words(text) if word != stories.END]
    ids = tokenizer.encode(text)
    assert len(ids) == len(known)
    pairs = set(zip(ids, known, strict=True))
    assert len(pairs) == len(dict(pairs)) == len({word for _, word in pairs}) == tokenizer.size - 2
    assert all(tokenizer.piece(id_) == word for id_, word in pairs)


def test_words_are_as_they_were_after_saving(tmp_path):
    from vesalius.tokenizers import read_tokenizer

    tokenizer = train_words(TEXTS, 40)
    tokenizer.save(tmp_path)
    read = read_tokenizer(tmp_path)
    assert read.digest() == tokenizer.digest()
    ids = tokenizer.encode(TEXTS[1])
    assert read.encode(TEXTS[1]) == ids
    assert read.decode(ids) == tokenizer.decode(ids)
