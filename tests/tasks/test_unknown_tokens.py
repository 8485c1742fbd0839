"""Words without a token: whoever reads a text says how many tokens of it are unknown."""

import numpy as np
import pytest

import vesalius as vs

TEXT = "雨 was 日 [MASK]."  # [CLS] [UNK] was [UNK] [MASK] . [SEP]
NOTE = "2 of 7 tokens are unknown"


@pytest.fixture(scope="module")
def bert():
    return vs.load("bert")


def labelled(bert, what, labels, preprocessing=None):
    """BERT with a head of labels that has learnt nothing."""
    config = bert.config.change(labels=labels, labelled=what, mlm_head=False, nsp_head=False)
    state = {n: a for n, a in bert.state.items() if "_head" not in n}
    state["label_head.weight"] = np.zeros((labels, 192), "f4")
    state["label_head.bias"] = np.zeros(labels, "f4")
    return vs.Model(config, state, bert.tokenizer, preprocessing=preprocessing or {})


def test_every_verb_that_reads_a_text_reports_unknown_tokens(bert):
    for result in (
        vs.dissect(bert, TEXT),
        vs.fill(bert, TEXT),
        vs.embed(bert, TEXT),
        vs.next_sentence(bert, "雨 was", "日 [MASK]"),  # one [SEP] more, and no full stop
    ):
        assert result.hint == NOTE, result
        assert f"note: {NOTE}" in [part for part in result.view() if isinstance(part, str)]
        assert NOTE in repr(result)
        assert result.to_json()["hint"] == NOTE


@pytest.mark.parametrize("kind", ["classes", "labels", "values"])
def test_a_class_tells_of_unknown_tokens(bert, kind):
    labels = 1 if kind == "values" else 2
    model = labelled(bert, "sequence", labels, {"labels": kind})
    result, clean = vs.classify(model, [TEXT, "It was."])
    assert result.hint == result.to_json()["hint"] == NOTE
    assert f"note: {NOTE}" in list(result.view())
    assert not clean.hint
    assert not any(str(part).startswith("note") for part in clean.view())


def test_tags_and_answers_tell_of_unknown_tokens(bert):
    names = {"names": ["B-x", "I-x"]}
    tags = vs.tag(labelled(bert, "tokens", 2, names), "雨 was wet.")
    assert tags.hint == tags.to_json()["hint"] == "1 of 4 tokens is unknown"
    answers = vs.answer(labelled(bert, "span", 2), "Who?", "雨 was wet.")
    assert answers.hint == answers.to_json()["hint"] == "1 of 9 tokens is unknown"
    for result in (tags, answers):
        assert f"note: {result.hint}" in list(result.view())


def test_a_trace_keeps_its_note_in_a_file(bert, tmp_path):
    vs.dissect(bert, TEXT, only="X").save(tmp_path / "run.safetensors")
    assert vs.read_trace(tmp_path / "run.safetensors").hint == NOTE


def test_known_texts_and_tokenizers_of_bytes_have_no_note(bert):
    assert not vs.dissect(bert, "It was.").hint
    assert not vs.dissect("gpt", "雨 was 日").hint
