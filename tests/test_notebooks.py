"""A trace and a model show themselves in a notebook, with nothing that a notebook must trust."""

from html.parser import HTMLParser

import pytest

import vesalius as vs


class Read(HTMLParser):
    """The tags that a browser would make of it, and the text outside of styles."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.text = set(), [], ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += f"{data} "


@pytest.mark.parametrize(
    ("model", "text", "words"),
    [
        ("gpt", "He <b>shook</b>", ["He", "<", "likeliest", "%", "attention", "114 steps"]),
        ("lstm", "He shook his\n", ["↵", "bits of surprisal"]),
        ("bert", "He shook his [MASK].", ["likeliest at [MASK]", "attention"]),
    ],
)
def test_a_trace_is_shown_without_scripts_and_with_every_text_escaped(model, text, words):
    read = Read(vs.dissect(model, text)._repr_html_())
    assert not {"script", "b", "iframe", "img", "link"} & read.tags
    for word in words:
        assert word in read.text


def test_a_masked_model_is_asked_at_the_mask():
    trace = vs.dissect("bert", "He shook his [MASK].")
    best = trace.likeliest(1, trace.tokens().index("[MASK]"))[0]
    assert f"<i>{best[1]}</i>" in trace._repr_html_()
    assert best != trace.likeliest(1)[0]
    with pytest.raises(ValueError, match="position"):
        trace.likeliest(1, 99)


def test_a_model_shows_where_its_parameters_lie():
    read = Read(vs.load("gpt")._repr_html_())
    assert "4,273,664 parameters" in read.text
    assert "feedforward network Π[l]: 525,568 × 4, 49.2%" in read.text
    assert not {"script", "iframe", "img", "link"} & read.tags
