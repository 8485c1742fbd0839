"""A trace and a model show themselves in a notebook, with nothing that a notebook must trust."""

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt

import vesalius as vs
from vesalius.views import rasters
from vesalius.views.colours import THEMES, rgb


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


def test_an_image_is_shown_with_its_patches_and_where_every_head_looks():
    model = vs.create("vit", embedding=12, heads=2, layers=1, image=8, patch=4, channels=1)
    bright = np.zeros((8, 8, 1))
    bright[4:, :4] = 255
    page = vs.dissect(model, bright, raw=True)._repr_html_()
    assert "2 × 2 patches of 4 × 4" in page
    address = re.search(r'<img alt="[^"]+" src="([^"]+)"', page)[1]
    pixels = plt.imread(io.BytesIO(base64.b64decode(address.partition(",")[2])))
    assert pixels.shape[0] == pixels.shape[1] >= 168
    side = len(pixels)
    assert pixels[3 * side // 4, side // 4, :3].tolist() == [1, 1, 1]
    assert pixels[side // 4, side // 4, :3].tolist() == [0, 0, 0]
    assert page.count('<i style="-webkit-mask: url(') == 2
    assert "http" not in page


def test_scores_of_a_long_text_are_drawn_by_their_largest():
    found = np.zeros((300, 300))
    found[299, 7] = 1.0
    address = rasters.scores(found, 46)
    alpha = plt.imread(io.BytesIO(base64.b64decode(address.partition(",")[2])))[..., -1]
    assert alpha.max() == 1
    assert len(alpha) <= 184
    row, column = np.unravel_index(alpha.argmax(), alpha.shape)
    assert row / len(alpha) > 0.98
    assert column / len(alpha) < 0.03


def test_a_trace_of_a_long_text_is_no_longer_than_can_be_used():
    model = vs.create("lstm", layers=1, embedding=8, vocabulary=40)
    page = vs.dissect(model, [k % 40 for k in range(600)])._repr_html_()
    read = Read(page)
    assert "bits of surprisal" in read.text
    assert page.count("<tr>") < 60
    assert "h[1,600]" in read.text
    assert "h[1,599]" not in read.text
    assert "steps of earlier tokens left out" in read.text
    attends = vs.create("gpt2", layers=1, embedding=8, heads=2, vocabulary=40, context=400)
    page = vs.dissect(attends, [k % 40 for k in range(400)])._repr_html_()
    assert page.count('class="heads"') == 1
    assert len(page) < 300_000


def test_colours_are_those_of_the_page():
    css = (Path(__file__).parents[2] / "frontend/src/page.css").read_text()
    for theme, rule in (("light", ":root {"), ("dark", ':root[data-theme="dark"] {')):
        block = css[css.index(rule) :].partition("}")[0]
        said = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        common = said.keys() & THEMES[theme].keys()
        assert {"paper", "ink", "soft", "parameter", "bias", "state", "score", "output"} <= common
        assert {name: THEMES[theme][name] for name in common} == {n: said[n] for n in common}


@pytest.mark.parametrize("model", ["gpt", "vit"])
def test_a_notebook_is_dark_where_it_says_so(model):
    given = "He shook his" if model == "gpt" else vs.example("vit")
    page = vs.dissect(model, given)._repr_html_()
    light, dark = (", ".join(map(str, rgb("output", theme))) for theme in ("light", "dark"))
    assert ".vesalius { --v-" in page
    assert page.index(f"--v-output: {light}") < page.index(
        '[data-jp-theme-light="false"] .vesalius'
    )
    assert page.index('[data-jp-theme-light="false"] .vesalius') < page.index(f"--v-output: {dark}")
    assert "rgba(var(--v-output)" in page
