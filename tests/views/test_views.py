"""A result says once what is to be seen of it; notebooks get that as HTML."""

from html.parser import HTMLParser

import pytest

from vesalius.views.shown import Cell, Table, html

NASTY = "<b>&\"'</td></table><script>alert(1)</script>"


class Read(HTMLParser):
    """What a browser would make of it: the tags, and the text of every cell."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data


def test_every_text_is_escaped_wherever_it_stands():
    table = Table((NASTY,), [(NASTY,), (Cell(NASTY, NASTY, bold=True),)], title=NASTY)
    read = Read(html(NASTY, table))
    assert read.open == []
    assert read.cells == [NASTY, NASTY, NASTY + NASTY]
    assert "script" not in read.tags


def test_it_needs_no_script_no_other_file_and_no_colour_of_its_own():
    text = html("a line", Table(("a", "b"), [(1, 2)], right=(1,)))
    assert not {"script", "img", "link", "iframe"} & set(Read(text).tags)
    assert not [word for word in ("http", "url(", "@import", "#") if word in text]


def test_numbers_are_aligned_on_the_right_and_spaces_are_kept():
    text = html(Table(("name", "count"), [("  part", "1,000")], right=(1,)))
    assert '<td class="right">1,000</td>' in text
    assert "<td>  part</td>" in text
    assert "white-space: pre" in text


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One of everything that people get."""
    import vesalius as vs
    from vesalius.tokenizers import train_characters

    text = tmp_path_factory.mktemp("text") / "a<b>.txt"
    text.write_text("aba <b> & " * 20)
    model = vs.create("gpt2", layers=2, embedding=8, heads=2, vocabulary=9, context=16)
    model.tokenizer = train_characters(["aba <b> &"])
    gpt2 = vs.count("gpt2")
    bert = vs.load("bert")
    return {
        "Model": model,
        "Count": gpt2,
        "Cost": vs.cost("gpt2"),
        "Verification": vs.verify(model, length=3),
        "Generation": vs.generate(model, "a <", 5),
        "Embeddings": vs.embed(model, ["a <b>", "b"]),
        "Evaluation": vs.evaluate(model, str(text)),
        "Filling": vs.fill(bert, "the [MASK] & he"),
        "NextSentence": vs.next_sentence(bert, "It rained.", "He ran."),
        "Tokenizer": bert.tokenizer,
    }


KINDS = (
    *("Model", "Count", "Cost", "Verification", "Generation", "Embeddings", "Evaluation"),
    *("Filling", "NextSentence", "Tokenizer"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_repr_says_the_essential_in_a_few_lines(results, kind):
    lines = repr(results[kind]).split("\n")
    assert len(lines) <= 8
    assert all(len(line) <= 100 for line in lines)
    assert " object at 0x" not in lines[0]


def test_reprs_name_what_people_ask_for(results):
    assert repr(results["Model"]).startswith("Model: gpt2, 1,960 parameters, float32\n")
    assert "layers 2, embedding 8, heads 2" in repr(results["Model"])
    assert "Tokenizer: WordLevel, 6 tokens" in repr(results["Model"])
    assert repr(results["Count"]).startswith("gpt2: 124,439,808 parameters, E + Λ + Ξₑ + Φ\n")
    assert "Φ   transformer           85,054,464   68.3%" in repr(results["Count"])
    assert "291,648,307,200 operations forward" in repr(results["Cost"])
    assert repr(results["Verification"]).startswith("All 39 steps agree.\n  float32: ")
    assert repr(results["Generation"]).startswith(
        "Generation: 5 tokens after 'a <', ended by length"
    )
    assert "Embeddings: mean of 2 texts, 8 numbers each" in repr(results["Embeddings"])


@pytest.mark.parametrize("kind", ["Model", "Count", "Cost", "Verification", "Filling"])
def test_notebooks_show_the_tables_of_results(results, kind):
    text = results[kind]._repr_html_()
    read = Read(text)
    assert read.open == []
    assert "table" in read.tags
    assert "http" not in text


def test_a_notebook_shows_all_that_the_terminal_does(results):
    cells = Read(results["Count"]._repr_html_()).cells
    assert {"124,439,808", "38,597,376", "d_e |V|= 768 × 50,257"} <= set(cells)


def test_a_divergence_is_the_first_thing_said():
    from vesalius.verification.agreement import Agreement, Verification

    parts = Verification((Agreement("H[1]", "network", {"float32": 0.5}),))
    assert repr(parts).startswith("First divergence: H[1] against network.")
