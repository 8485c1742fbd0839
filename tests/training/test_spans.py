"""Tags and answers end to end: trained, used without PyTorch, measured, and handed to others."""

import json

import numpy as np
import pytest
import torch
import transformers
from small import small_recipe

from vesalius import answer, dissect, evaluate, load, tag
from vesalius.analyses import targets
from vesalius.cli import main
from vesalius.errors import EmptySequence, ImpossibleSetting, UnusableData, WrongKind
from vesalius.explorer.reading import Asked, what
from vesalius.explorer.suggestions import ASKED, HOLDS, TAGGED, offered
from vesalius.explorer.uploads import Uploads
from vesalius.model import create
from vesalius.tasks.answering.passages import Candidates, Reader
from vesalius.tasks.answering.use import answered
from vesalius.training import train

pytestmark = pytest.mark.usefixtures("no_progress_bars")

QUICK = {"learning_rate": 1e-2, "batch": 8, "validate_on": 1000, "save_every": 1000}
TEXT = "Ben Lee lived in York Street. Ada didn't!"


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tags")
    recipe = small_recipe("bert tags", folder, dropout=0.0, steps=80, evaluate_every=80, **QUICK)
    return train(recipe, folder / "run")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    recipe = small_recipe(
        "bert answers", folder, dropout=0.0, steps=150, evaluate_every=150, **QUICK
    )
    return train(recipe, folder / "run")


def corpus(outcome, name):
    return str(outcome.folder.parent / name)


def command(monkeypatch, capfd, *arguments):
    monkeypatch.setattr("sys.argv", ["vesalius", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capfd.readouterr()
    return ended.value.code, out, err


def test_a_tagger_learns_names_and_says_them_as_spans(tagger, monkeypatch, capfd):
    found = tag(tagger.model, TEXT)
    assert [(w.word, w.tag) for w in found.words[:6]] == [
        *(("Ben", "B-PER"), ("Lee", "I-PER"), ("lived", "O"), ("in", "O")),
        *(("York", "B-LOC"), ("Street", "I-LOC")),
    ]
    assert all(TEXT[w.start : w.end] == w.word for w in found.words)
    assert [w.sentence for w in found.words] == [0] * 7 + [1] * 4
    assert [(e.kind, e.text) for e in found.entities[:2]] == [
        ("PER", "Ben Lee"),
        ("LOC", "York Street"),
    ]
    assert found.words[0].probability > 0.9
    listed = tag(tagger.model, ["Ada", "lived", "in", "York", "Street"])
    assert (listed.words[0].start, listed.entities[1].text) == (None, "York Street")
    done = command(monkeypatch, capfd, "tag", tagger.folder / "model", TEXT, "--json")
    assert json.loads(done[1]) == json.loads(json.dumps(found.to_json()))
    assert "York Street" in command(monkeypatch, capfd, "tag", tagger.folder / "model", TEXT)[1]
    # Every word of a long sentence has a tag, the same as in a short one where names are far apart.
    words = (["Ada", *["lived"] * 9] * 8)[:75]
    tags = tag(tagger.model, words).tags
    assert len(tags) == 75


def test_a_dissected_text_has_the_tags_that_tagging_gives(tagger, monkeypatch, capfd):
    said = tag(tagger.model, "Ben lived in York").words
    trace = dissect(tagger.model, "Ben lived in York")
    assert trace.graph.segments[1] == 1, "Ben begins with a capital"
    firsts = [one for one in trace.tags()[1:-1] if not one[0].startswith("##")]
    assert [name for _, name, _ in firsts] == [word.tag for word in said]
    odds = [p for _, _, p in firsts]
    assert odds == pytest.approx([word.probability for word in said], abs=1e-6)  # of float32
    assert trace.to_json()["tags"][1]["tag"] == said[0].tag
    done = command(monkeypatch, capfd, "dissect", tagger.folder / "model", "Ben lived in York")
    assert "B-PER" in done[1]
    assert targets.find(trace).column == len(trace.ids) - 2, "the last word, not [SEP]"
    on_the_page = what(tagger.model, Asked(text="Ben lived in York"), Uploads()).given
    assert on_the_page.segments == trace.graph.segments
    assert offered(tagger.model)["text"] == TAGGED


def test_an_evaluation_of_tags_is_the_validation_and_entities(tagger, tmp_path):
    found = evaluate(tagger.model, corpus(tagger, "names.conll"))
    assert found.part == "the 4 sentences that training held out"
    numbers = dict(found.numbers)
    assert numbers.pop("words") > 20
    assert numbers["entity_f1"] == 1.0
    valid = tagger.valid
    near = {"loss": valid["tags"], "accuracy": valid["tags accuracy"]}
    assert {k: numbers[k] for k in near} == pytest.approx(near, rel=1e-5)
    file = tmp_path / "new.conll"
    file.write_text("Ada\tB-PER\nlived\tB-ORG\n")
    with pytest.raises(UnusableData, match=r"new\.conll, line 2: 'lived' has the tag 'B-ORG'"):
        evaluate(tagger.model, str(file))
    file.write_text("Ada\tB-LOC\nlived\tO\n")
    wrong = evaluate(tagger.model, str(file))
    assert (wrong.part, wrong.numbers["entity_f1"], wrong.numbers["accuracy"]) == ("all", 0, 0.5)


def test_a_reader_answers_with_places_and_probabilities(reader, monkeypatch, capfd, tmp_path):
    context = "It was cold . " * 6 + "Cy lived in Bath ."
    found = answer(reader.model, "Who lived there ?", context, top=2)
    assert found.windows == 3
    assert [context[a.start : a.end] for a in found.answers] == [a.text for a in found.answers]
    assert found.answers[0].probability > found.answers[1].probability > 0
    assert not found.impossible
    file = tmp_path / "context.txt"
    file.write_text(context)
    said = ("answer", reader.folder / "model", "Who lived there ?", "--context")
    for given in (context, file):
        done = command(monkeypatch, capfd, *said, given, "--top", "2", "--json")
        assert json.loads(done[1]) == json.loads(json.dumps(found.to_json()))
    # A model that has learnt questions without answers may say that there is none.
    model = reader.model
    model.preprocessing = model.preprocessing.change(impossible=True)
    made = Candidates(3)
    passage = Reader(model.tokenizer, 24).passages("Who ?", "Cy was cold .")[0]
    logs = np.full((2, len(passage.ids)), -5.0)
    last = passage.begins[1:].argmax()  # the name may be of several pieces
    logs[0, passage.before] = logs[1, passage.before + last] = -0.9
    for none, text in ((-1.0, "Cy"), (-0.8, "")):
        made.nothing, logs[:, 0] = 1.0, none
        made.add(passage, *logs)
        assert answered(model, "Cy was cold .", made) == text


def test_an_analysis_of_an_answer_is_about_its_start(reader):
    trace = dissect(reader.model, ("Who lived ?", "Cy lived in Bath ."))
    text = [i for i, one in enumerate(trace.graph.segments) if one][:-1]
    target = targets.find(trace)
    assert target.column == max(text, key=lambda i: trace["z"][0, i])
    told = offered(reader.model)
    assert (told["text"], told["second"]) == ASKED
    assert told["pairs"] == HOLDS


def test_of_a_long_question_the_beginning_is_read_and_that_is_said(reader):
    context = "Ada lived in the old house by the river."
    short, long, longer = (
        answer(reader.model, "Who lived there ? " * times, context) for times in (1, 60, 61)
    )
    assert (short.cut, long.answers) == (0, longer.answers)
    assert 0 < long.cut == longer.to_json()["cut"]
    said = f"of the question the first {long.cut} tokens were read; the rest is cut off"
    assert said in [*long.view()]
    assert not any("question" in str(part) for part in short.view() if isinstance(part, str))


def test_an_evaluation_of_answers_is_the_validation_and_texts(reader):
    found = evaluate(reader.model, corpus(reader, "questions.json"))
    assert found.part == "the 2 questions on 1 article that training held out"
    assert found.numbers["questions"] == 2
    # the logarithm of what is nearly one: its rounding is that of logits, whatever its size
    assert found.numbers["loss"] == pytest.approx(reader.valid["loss"], rel=1e-5, abs=1e-6)
    learnt = reader.model
    learnt.preprocessing = learnt.preprocessing.change(held_out=None)
    whole = evaluate(learnt, corpus(reader, "questions.json"))
    assert (whole.part, whole.numbers["questions"]) == ("all", 20)
    assert whole.numbers["exact_match"] > 0.8
    assert whole.numbers["exact_match"] <= whole.numbers["f1"] <= 1


def test_transformers_predicts_the_same_from_what_was_exported(tagger, reader, tmp_path):
    tagger.model.save(tmp_path / "tags", layout="huggingface")
    theirs = transformers.BertForTokenClassification.from_pretrained(tmp_path / "tags").eval()
    assert theirs.config.id2label == dict(enumerate(["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]))
    pieces = transformers.PreTrainedTokenizerFast(tokenizer_file=f"{tmp_path}/tags/tokenizer.json")
    words = ["Cy", "lived", "in", "York", "Street"]
    given = pieces(words, is_split_into_words=True, return_tensors="pt")
    first = [given.word_ids().index(number) for number in range(len(words))]
    capital = [i is not None and words[i][0].isupper() for i in given.word_ids()]
    given["token_type_ids"] = torch.tensor([capital]).long()
    with torch.no_grad():
        expected = theirs(**given).logits[0, first].softmax(-1).max(-1)
    for model in (tagger.model, load(tmp_path / "tags")):
        found = tag(model, words)
        assert found.tags == [theirs.config.id2label[int(i)] for i in expected.indices]
        assert [w.probability for w in found.words] == pytest.approx(expected.values, rel=1e-5)

    (tmp_path / "tags/preprocessing.json").unlink()  # as in a folder that Transformers wrote
    assert {*tag(load(tmp_path / "tags"), words).tags} <= {*theirs.config.id2label.values()}

    reader.model.save(tmp_path / "answers", layout="huggingface")
    theirs = transformers.BertForQuestionAnswering.from_pretrained(tmp_path / "answers").eval()
    question, context = "Who lived there ?", "Ben Lee lived in Ely ."
    given = pieces_of(tmp_path / "answers")(question, context, return_tensors="pt")
    inside = torch.tensor([[i == 1 for i in given.sequence_ids(0)]])
    inside[0, 0] = True
    with torch.no_grad():
        out = theirs(**given)
    start, end = (
        logits.masked_fill(~inside, -np.inf).softmax(-1)[0]
        for logits in (out.start_logits, out.end_logits)
    )
    # Answers are whole words: ## says which pieces go on with one.
    goes_on = torch.tensor([t.startswith("##") for t in given.tokens(0)] + [False])
    both = torch.triu((start * ~goes_on[:-1])[:, None] * (end * ~goes_on[1:])[None, :])
    both[0] = 0
    first, last = divmod(int(both.argmax()), len(end))
    span = given.token_to_chars(0, first).start, given.token_to_chars(0, last).end
    best = answer(load(tmp_path / "answers"), question, context).answers[0]
    assert (best.start, best.end) == span
    assert best.probability == pytest.approx(float(both.max()), rel=1e-5)


def pieces_of(folder):
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=f"{folder}/tokenizer.json", model_input_names=["input_ids", "token_type_ids"]
    )


def test_a_model_of_any_heads_can_be_begun_from_and_leaves_them_behind(tagger, tmp_path):
    """From a tagger, or from a bert with other heads."""
    begun = create(
        "bert", **tagger.model.config.change(labels=0, mlm_head=True, pooler=True).to_json()
    )
    begun.tokenizer = tagger.model.tokenizer
    for number, start in enumerate((tagger.model, begun)):
        start.save(tmp_path / f"start-{number}")
        changes = {"family": "none", "init": str(tmp_path / f"start-{number}")}
        changes |= {f"model.{name}": "none" for name in ("layers", "heads", "embedding", "context")}
        recipe = small_recipe("bert tags", tmp_path, changes=changes, steps=1)
        model = train(recipe, tmp_path / f"run-{number}").model
        assert {name.partition(".")[0] for name in model.state} == {
            *("embedding", "positions", "segments", "norm", "blocks", "label_head")
        }
        assert (model.config.labels, model.config.mlm_head, model.config.pooler) == (
            5,
            False,
            False,
        )
        assert model.tokenizer.digest() == begun.tokenizer.digest()


def test_models_of_another_kind_say_what_serves(tagger, reader, monkeypatch, capfd):
    with pytest.raises(WrongKind, match=r"no head for tags of words.*BertForTokenClassification"):
        tag(reader.model, "Ada")
    with pytest.raises(WrongKind, match=r"no head for answers.*BertForQuestionAnswering"):
        answer(tagger.model, "Who?", "Ada.")
    for verb, rest in (("tag", ["x"]), ("answer", ["x", "--context", "y"])):
        code_, out, err = command(monkeypatch, capfd, verb, "gpt", *rest)
        assert (code_, out) == (2, "")
        assert err.startswith(f"vesalius: {verb} needs a model of bert, this is gpt2, which serves")
    assert command(monkeypatch, capfd, "tag", tagger.folder / "model")[0] == 2
    for empty in ("", " \n ", [], ["Ada", " "]):
        with pytest.raises(EmptySequence):
            tag(tagger.model, empty)
    with pytest.raises(EmptySequence, match="the paragraph is empty"):
        answer(reader.model, "Who?", " ")
    with pytest.raises(ImpossibleSetting, match="top must be at least 1"):
        answer(reader.model, "Who?", "Ada.", top=0)
    bare = tagger.model
    bare.tokenizer = None
    with pytest.raises(WrongKind, match="no tokenizer"):
        tag(bare, "Ada")


def test_recipes_that_do_not_fit_are_refused(tmp_path):
    def going(name, **changes):
        recipe = small_recipe(name, tmp_path, changes=changes, steps=1)
        return train(recipe, tmp_path / "run")

    with pytest.raises(ImpossibleSetting, match="labels is 3, but the data have 5"):
        going("bert tags", **{"model.labels": "3"})
    with pytest.raises(ImpossibleSetting, match="stride is 40, but a window holds"):
        going("bert answers", **{"data.stride": "40"})
    with pytest.raises(ImpossibleSetting, match="segments is 1, but questions and texts are two"):
        going("bert answers", **{"model.segments": "1"})
    with pytest.raises(WrongKind, match="tags is for bert, not gpt2"):
        small_recipe("bert tags", tmp_path, changes={"family": "gpt2"})
    other = {"family": "none", "init": "gpt"}
    other |= {f"model.{name}": "none" for name in ("layers", "heads", "embedding", "context")}
    with pytest.raises(WrongKind, match="tags is for bert, not gpt2"):
        going("bert tags", **other)
