"""BERT's heads in use: words for masks, and whether a text follows another."""

import json

import numpy as np
import pytest
import torch
import transformers
from agreement import agree
from strategies import filled, small

import vesalius
from vesalius import equations as eq
from vesalius.capabilities import require_served
from vesalius.cli import cli
from vesalius.data.masking import IGNORED
from vesalius.errors import (
    EmptySequence,
    ImpossibleSetting,
    SequenceTooLong,
    UnusableData,
    WrongKind,
)
from vesalius.families import FAMILIES
from vesalius.model import load
from vesalius.tasks import task_named
from vesalius.tasks.language import filling
from vesalius.tasks.language.filling import fill, next_sentence
from vesalius.tokenizers import read_word_pieces, train_byte_pairs, train_words

pytestmark = pytest.mark.usefixtures("no_progress_bars", "one_thread")

WITHIN = 1e-5  # of the largest: single precision through a few layers
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "rain", "fell", "on", "river", "été"]
WORDS += ["walk", "##ing", "##s", "he", "was", "in", ".", ",", "house", "wet"]
CONTEXT = 12


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    file = tmp_path_factory.mktemp("pieces") / "vocab.txt"
    file.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return read_word_pieces(file, lowercase=True, strip_accents=False)


@pytest.fixture
def bert(pieces):
    """A BERT of random numbers with both heads, in double precision."""
    model = filled(small("bert", vocabulary=len(WORDS), context=CONTEXT))
    model.tokenizer = pieces
    return model


def checkpoint(folder, kind, pieces):
    """A tiny model that Transformers made and wrote, with its tokenizer."""
    settings = {"vocab_size": len(WORDS), "max_position_embeddings": CONTEXT, "hidden_size": 24}
    settings |= {"num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40}
    with torch.random.fork_rng():
        torch.manual_seed(7)
        theirs = getattr(transformers, kind)(transformers.BertConfig(**settings)).eval()
        for parameter in theirs.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(folder)
    pieces.save(folder)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json")
    return theirs, tokenizer


def preferring(model, *words):
    """The same model, whose best candidates are these words, best first."""
    bias = model.state["mlm_head.bias"]
    for n, word in enumerate(words):
        bias[WORDS.index(word)] = 1000 - 100 * n
    return model


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertForPreTraining"])
def test_candidates_have_the_probabilities_that_transformers_gives(kind, pieces, tmp_path):
    theirs, tokenizer = checkpoint(tmp_path, kind, pieces)
    text = "the [MASK] fell on [MASK] house"
    given = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        out = theirs(**given)
    logits = out.logits if "logits" in out else out.prediction_logits
    places = (given["input_ids"][0] == WORDS.index("[MASK]")).nonzero()[:, 0]
    probabilities = logits[0, places].softmax(-1)

    masks = fill(load(tmp_path), text, top=4).masks
    assert [mask.position for mask in masks] == places.tolist() == [2, 5]
    for mask, expected in zip(masks, probabilities, strict=True):
        best = expected.topk(4)
        assert [c.id for c in mask.candidates] == best.indices.tolist()
        assert [c.token for c in mask.candidates] == [WORDS[i] for i in best.indices]
        agree([c.probability for c in mask.candidates], best.values, WITHIN)


def test_probabilities_are_those_of_equation_56(bert):
    text = "the [MASK] was [MASK]"
    ids = bert.tokenizer.encode(text)
    expected = eq.masked_lm(bert.parameters, eq.OneHot(ids, len(WORDS)))
    for mask in fill(bert, text, top=len(WORDS)).masks:
        found = {c.id: c.probability for c in mask.candidates}
        agree([found[i] for i in range(len(WORDS))], expected[:, mask.position])


@pytest.fixture
def predicted(monkeypatch):
    """The states that words were predicted from."""
    shapes, predict = [], filling.mlm_logits

    def watching(model, states):
        shapes.append(states.shape)
        return predict(model, states)

    monkeypatch.setattr(filling, "mlm_logits", watching)
    return shapes


def test_words_are_predicted_at_the_masks_alone_and_in_one_pass(bert, predicted):
    fill(bert, "the [MASK] fell on the [MASK]")
    assert predicted == [(2, bert.config.embedding)]


def test_the_text_is_given_back_with_the_best_candidates(bert):
    filled_in = fill(preferring(bert, "rain", "river"), "L'été,  the [MASK] fell on [MASK].", top=2)
    assert filled_in.text == "L'été,  the rain fell on rain."
    assert [[c.token for c in mask.candidates] for mask in filled_in.masks] == [
        ["rain", "river"]
    ] * 2


def test_a_candidate_that_goes_on_with_a_word_is_joined_to_it(bert):
    filled_in = fill(preferring(bert, "##ing"), "he was walk [MASK] on")
    assert filled_in.text == "he was walking on"
    assert filled_in.masks[0].candidates[0].token == "##ing"


def test_all_of_the_vocabulary_is_there_when_more_is_asked_for(bert):
    (mask,) = fill(bert, "the [MASK]", top=10_000).masks
    assert sorted(c.id for c in mask.candidates) == list(range(len(WORDS)))
    probabilities = [c.probability for c in mask.candidates]
    assert sum(probabilities) == pytest.approx(1, abs=1e-12)
    assert probabilities == sorted(probabilities, reverse=True)


def test_a_filling_is_json(bert):
    filled_in = fill(bert, "the [MASK]", top=1)
    said = json.loads(json.dumps(filled_in.to_json()))
    (best,) = filled_in.masks[0].candidates
    candidate = {"token": best.token, "id": best.id, "probability": best.probability}
    assert said == {"text": filled_in.text, "masks": [filled_in.masks[0].to_json()], "hint": ""}
    assert said["masks"] == [{"position": 2, "candidates": [candidate]}]


def test_a_text_may_be_as_long_as_the_context_and_no_longer(bert):
    longest = " ".join(["the"] * (CONTEXT - 3)) + " [MASK]"
    assert fill(bert, longest).masks[0].position == CONTEXT - 2
    with pytest.raises(SequenceTooLong, match="the text has 13 tokens, the model reads 12"):
        fill(bert, f"the {longest}")


@pytest.mark.parametrize(
    ("text", "top", "error", "message"),
    [
        ("the rain", 5, UnusableData, r"there is no \[MASK\] in 'the rain'; write it"),
        ("x" * 500, 5, UnusableData, r"no \[MASK\] in 'x{60}…'"),
        ("", 5, UnusableData, r"there is no \[MASK\] in ''"),
        ("the [MASK]", 0, ImpossibleSetting, "top must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_filled_is_refused(bert, text, top, error, message):
    with pytest.raises(error, match=message):
        fill(bert, text, top)


def test_filling_needs_the_head_and_a_tokenizer_with_masks(bert, pieces):
    headless = filled(small("bert", vocabulary=len(WORDS), mlm_head=False))
    headless.tokenizer = pieces
    with pytest.raises(WrongKind, match=r"no head for masked tokens; expected .*BertForMaskedLM"):
        fill(headless, "the [MASK]")
    bert.tokenizer = train_words(["the rain"], 10)
    with pytest.raises(WrongKind, match=r"tokenizer has no \[MASK\]"):
        fill(bert, "the [MASK]")
    bert.tokenizer = None
    with pytest.raises(WrongKind, match=r"no tokenizer.*expected tokenizer\.json"):
        fill(bert, "the [MASK]")


# Next sentences -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["BertForNextSentencePrediction", "BertForPreTraining"])
@pytest.mark.parametrize(
    ("first", "second"), [("the rain fell", "he was wet ."), ("he was wet .", "the rain fell")]
)
def test_the_first_logit_of_transformers_means_that_a_text_follows(
    kind, first, second, pieces, tmp_path
):
    theirs, tokenizer = checkpoint(tmp_path, kind, pieces)
    given = tokenizer(first, second, return_tensors="pt", return_token_type_ids=True)
    assert given["token_type_ids"].sum() == len(second.split()) + 1
    with torch.no_grad():
        out = theirs(**given)
    logits = out.logits if "logits" in out else out.seq_relationship_logits
    found = next_sentence(load(tmp_path), first, second)
    agree([found.follows, found.elsewhere], logits[0].softmax(-1), WITHIN)
    said = transformers.BertForNextSentencePrediction.forward.__doc__
    assert "0 indicates sequence B is a continuation of sequence A" in said


def test_it_means_the_same_as_in_training(bert):
    pair = bert.tokenizer.encode_pair("the rain fell", "he was wet")
    ids, segments = torch.tensor([pair.ids]), torch.tensor([pair.segments])
    batch = {"ids": ids, "segments": segments, "real": torch.ones_like(ids, dtype=torch.bool)}
    batch |= {"targets": torch.full_like(ids, IGNORED), "next": torch.tensor([0])}
    with torch.no_grad():
        sums, _ = task_named("mlm+nsp").learns.sums(bert.network, batch, None)
    found = next_sentence(bert, "the rain fell", "he was wet")
    assert sums["nsp"].item() == pytest.approx(-np.log(found.follows), rel=1e-6)


def test_the_two_probabilities_are_those_of_equation_59(bert):
    pair = bert.tokenizer.encode_pair("the rain fell", "he was wet")
    Omega = eq.OneHot(pair.ids, len(WORDS))
    expected = eq.next_sentence(bert.parameters, Omega, pair.segments)
    found = next_sentence(bert, "the rain fell", "he was wet")
    agree([found.follows, found.elsewhere], expected)
    odds = {"follows": found.follows, "elsewhere": found.elsewhere}
    assert found.to_json() == {**odds, "hint": ""}


def test_a_pair_needs_no_words_to_be_predicted(bert, predicted):
    next_sentence(bert, "the rain", "fell")
    assert predicted == []


def test_a_pair_needs_two_texts_that_fit(bert):
    for texts, which in ((("", "he was"), "first"), (("he was", " "), "second")):
        with pytest.raises(EmptySequence, match=f"the {which} text is empty"):
            next_sentence(bert, *texts)
    next_sentence(bert, "the rain fell", "he was in the house")
    with pytest.raises(SequenceTooLong, match="the pair of texts has 13 tokens"):
        next_sentence(bert, "the rain fell", "he was in the house , wet")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nsp_head": False}, "no head for next sentences; expected .*BertForPreTraining"),
        ({"segments": 1}, "one segment"),
    ],
)
def test_a_pair_needs_the_head_and_two_segments(pieces, changes, message):
    model = filled(small("bert", vocabulary=len(WORDS), **changes))
    model.tokenizer = pieces
    with pytest.raises(WrongKind, match=message):
        next_sentence(model, "the", "rain")


def test_a_pair_needs_a_tokenizer_for_pairs(bert):
    bert.tokenizer = train_byte_pairs(["the rain"], 260)
    with pytest.raises(WrongKind, match=r"no \[SEP\]"):
        next_sentence(bert, "the", "rain")


# Which verb serves whom ---------------------------------------------------------


def test_a_model_of_another_family_is_told_what_it_serves():
    with pytest.raises(WrongKind) as error:
        fill(filled(small("gpt2")), "the [MASK]")
    assert str(error.value) == (
        "fill needs a model of bert, this is gpt2, which serves generate, classify, embed, "
        "similar and evaluate"
    )
    with pytest.raises(WrongKind, match="next-sentence needs a model of bert, this is lstm"):
        next_sentence(filled(small("lstm")), "the", "rain")
    with pytest.raises(
        WrongKind, match=r"gpt2 or bert, this is vit, which serves classify and evaluate$"
    ):
        require_served(filled(small("vit")), "embed")


VERBS = sorted({verb for family in FAMILIES.values() for verb in family.verbs})


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_verb_takes_exactly_the_families_whose_row_names_it(verb, family):
    model = filled(small(family))
    if verb in FAMILIES[family].verbs:
        require_served(model, verb)
    else:
        with pytest.raises(WrongKind, match=f"{verb} needs a model of .*this is {family}, which"):
            require_served(model, verb)


def test_what_families_serve_is_a_command_and_a_function():
    assert {*VERBS} <= cli.commands.keys()
    assert {verb.replace("-", "_") for verb in VERBS} <= {*vesalius.__all__}


def test_verbs_agree_with_what_families_are_trained_for():
    """A verb that reads a head is for families that have an objective for it."""
    for family in FAMILIES.values():
        text = family.reads == "text"
        assert ("evaluate" in family.verbs) == bool(family.objectives)
        assert ("generate" in family.verbs) == (family.predicts_text or family.reads == "pixels")
        assert ("fill" in family.verbs) == ("mlm" in family.objectives)
        assert ("next-sentence" in family.verbs) == ("nsp" in family.objectives)
        assert ("tag" in family.verbs) == ("tags" in family.objectives)
        assert ("answer" in family.verbs) == ("answers" in family.objectives)
        assert ("embed" in family.verbs) == ("similar" in family.verbs) == text
        decodes = family.session is not None  # in NumPy; kernels are not needed for it
        assert decodes or family.engine is None
        assert decodes or not {"generate", "embed"} & set(family.verbs)
