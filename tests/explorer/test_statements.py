"""What the page says of its numbers is so: ticks, factors, scales, ranks, sources of examples."""

import json
import math
import re

import numpy as np
import pytest
from explorer.test_page import START, TEXT, Watched, hero, percent, uncut, watched  # noqa: F401
from playwright.sync_api import expect

import vesalius as vs
from vesalius import specimens
from vesalius.data.examples import example, shelf
from vesalius.equations import softmax

STORY = "#t=He%20shook%20his%20head"
TICK, CROSS = "[data-agrees=yes]", "[data-agrees=no]"


def shown(text):
    """A number as the page writes it."""
    return float(text.replace("−", "-"))


def test_a_score_shows_the_factor_that_its_products_have(watched):  # noqa: F811
    page = watched.open(f"/gpt/dissect/mu[3,3]?at=2,1{START}")
    rows = page.locator("[data-factors]")
    expect(rows.first).to_contain_text("1/√dₖ = 0.1250")
    terms = vs.unfold(uncut(), "mu[3,3]", 2, 1).terms
    for k in range(3):
        product = math.prod(json.loads(rows.nth(k).get_attribute("data-factors")))
        assert product == pytest.approx(terms[k].value, rel=1e-9)
    assert r"\sqrt{d_k}" in page.locator(".formula annotation").first.text_content()
    expect(page.locator("[data-erratum-text]")).to_have_count(0)
    page.locator("[data-erratum=E17]").click()
    expect(page.locator("[data-erratum-text]")).to_contain_text("divides the products by √d_k")


def test_a_tick_stands_where_the_terms_make_the_value_and_nowhere_else(watched):  # noqa: F811
    page = watched.open(f"/gpt/dissect/A[3]?at=2,1&cut=P[3,3]{START}")
    expect(page.locator(TICK)).to_have_count(2)  # of the parts and of the terms
    page = watched.open(f"/gpt/dissect/P[3,3]?at=2,1&cut=P[3,3]{START}")
    expect(page.locator("[data-edited]")).to_contain_text("it is not the sum of these 3 terms")
    made = vs.unfold(uncut(), "P[3,3]", 2, 1).value
    assert abs(
        shown(re.search(r"they make (.*)\.", page.locator("[data-edited]").inner_text())[1])
    ) == (pytest.approx(abs(made), abs=1e-4))
    expect(page.locator(TICK)).to_have_count(1)  # of the parts, which still make the logit
    expect(page.locator(CROSS)).to_have_count(0)


def test_where_an_equation_computes_something_else_a_cross_says_so(browser, servers):
    """A fault of a hundredth in the logits, in an LSTM's contexts, and in an Elman network."""
    faulty = Watched(browser, servers(faulty=["logits", "context", "elman"]))
    page = faulty.open(f"/gpt/dissect/Z?at=7,1{START}")
    sentence = r"✗ the {} miss the stored value by \S+, where rounding can make \S+ at most"
    for what in ("parts", "terms"):
        found = page.locator(CROSS).filter(has_text=f"the {what} miss")
        expect(found).to_have_text(re.compile(sentence.format(what)))
    expect(page.locator(TICK)).to_have_count(0)
    page = faulty.open(f"/gpt/dissect/A[3]?at=2,1{START}")
    expect(page.locator(TICK)).to_have_count(1)  # what is right stays so
    page = faulty.open(f"/lstm/heads/c[2,3]?at=31{STORY}")
    for check in ("context", "written"):
        expect(page.locator(f"[data-check={check}] {CROSS}")).to_contain_text("miss the stored")
    unit = abs(vs.dissect("rnn", "He shook his head")["h[1,3]"]).argmax()  # a fault that shows
    page = faulty.open(f"/rnn/heads/h[1,3]?at={unit}{STORY}")
    expect(page.locator(f"[data-check=context] {CROSS}")).to_contain_text("miss the stored")
    faulty.close()
    assert faulty.complaints == []


def test_a_word_that_is_not_the_likeliest_would_come_and_has_a_number(watched):  # noqa: F811
    page, odds = watched.open(f"/gpt/dissect{START}"), uncut()["Y_hat"][:, -1]
    expect(hero(page, "verb")).to_have_text("comes")
    expect(hero(page, "rank")).to_have_count(0)
    order = np.argsort(-odds, kind="stable")
    for rank in (9, 2000):
        word = int(order[rank - 1])
        page = watched.open(f"/gpt/dissect?word={word}{START}")
        expect(hero(page, "verb")).to_have_text("would come")
        expect(hero(page, "rank")).to_have_text(f"number {rank:,} of {len(odds):,}")


def test_a_small_probability_shows_its_digits_or_its_power(watched):  # noqa: F811
    odds = uncut()["Y_hat"][:, -1].astype(float)
    for most, least in ((9e-4, 1e-4), (9e-5, 0)):
        word = int(np.flatnonzero((odds < most) & (odds > least))[0])
        page = watched.open(f"/gpt/dissect?word={word}{START}")
        likely = hero(page, "probability")
        expect(likely).to_have_text(re.compile(r"^(0\.0\d+|\de−\d) %$"))
        read = shown(likely.inner_text().removesuffix(" %")) / 100
        assert read == pytest.approx(odds[word], rel=0.5 if read < 9.5e-5 else 0.06)


def test_a_heat_map_says_its_scale_and_scores_have_one(watched):  # noqa: F811
    legend = watched.page.locator("[data-legend]")
    watched.open(f"/gpt/dissect/mu[3,3]?at=2,1{START}")
    expect(legend).to_contain_text(
        re.compile(r"0\s+1\s+square-root scale, the same everywhere\s+masked")
    )
    shades = {}
    for name in ("mu[3,3]", "mu[1,1]", "mu[2,4]"):  # the same score has the same shade in each
        watched.open(f"/gpt/dissect/{name}?at=0,0{START}")
        expect(legend).to_be_visible()
        shades[name] = tuple(
            watched.page.locator("button.canvas canvas").evaluate(
                "c => [...c.getContext('2d').getImageData(6, 6, 1, 1).data]"
            )
        )
        assert uncut()[name][0, 0] == 1
    assert len(set(shades.values())) == 1
    watched.open(f"/gpt/dissect/H[2]?at=2,1{START}")
    expect(legend).to_contain_text("square-root scale, of this matrix")
    ends = re.findall(r"−?[\d.]+(?=\s|$)", legend.inner_text())
    assert shown(ends[0]) == -shown(ends[1])


def test_the_mask_is_told_by_what_it_hides(watched):  # noqa: F811
    page = watched.open(f"/gpt/dissect/mu[3,3]?at=2,1{START}")
    page.locator("summary", has_text="symbols").click()
    expect(page.get_by_title("go to S")).to_have_text(
        re.compile("3 of 9 are −∞\\s*above the diagonal\\s*the others 0")
    )
    watched.open(f"/gpt/dissect/S?at=1,0{START}")
    expect(page.locator("[data-legend]")).to_have_text(
        re.compile("all that is not hatched is 0\\s*masked, −∞")
    )


def test_examples_are_said_to_be_of_the_part_that_was_held_out(watched):  # noqa: F811
    for model in ("vit", "tst"):
        page = watched.open(f"/{model}/dissect")
        expect(hero(page, "probability")).to_be_visible()
        page.keyboard.press("/")
        said = page.get_by_text("held out of training")
        expect(said).to_contain_text("From the part of " + specimens.card(model).corpus)
        expect(said).to_contain_text("the model was trained on the rest")


@pytest.mark.parametrize("name", ["vit", "tst"])
def test_a_page_begins_with_an_example_that_the_model_gets_right(client, name):
    model, begins = vs.load(name), client.get(f"/api/models/{name}").json()["begins"]
    z = vs.dissect(model, example(model, begins))["z"]
    wanted = shelf(model)[begins].label
    run = client.post("/api/runs", json={"model": name, "example": begins}).json()["id"]
    told = client.get(f"/api/runs/{run}").json()
    assert told["label"] == told["likeliest"][0]["token"] == wanted
    assert told["likeliest"][0]["probability"] == pytest.approx(softmax(z.astype(float)).max())


def test_padding_is_hatched_and_has_a_legend(watched):  # noqa: F811
    page = watched.open("/tst/dissect/H[2]?at=3,2")
    expect(page.locator("[data-legend]")).to_contain_text("padding")
    model = vs.load("tst")
    real = vs.dissect(model, example(model, 0)).real()
    values = page.locator("button.canvas canvas")
    hues = values.evaluate(
        """(c, tokens) => {
            const pixels = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
            const ink = (k) => {
                const row = Math.floor(((k + 0.5) * c.height) / tokens) * c.width;
                let most = 0;
                for (let x = row; x < row + c.width; x++) {
                    most = Math.max(most, pixels[4 * x] - pixels[4 * x + 2]);
                }
                return most;
            };
            return Array.from({ length: tokens }, (_, k) => ink(k));
        }""",
        len(real),
    )
    assert min(np.array(hues)[real]) > 2 * max(np.array(hues)[~real])  # no orange is in hatching


def test_distances_between_runs_are_shares_of_the_most_there_can_be(watched, client):  # noqa: F811
    keys = [
        client.post("/api/runs", json={"model": model, "text": TEXT}).json()["id"]
        for model in ("gpt", "rnn")
    ]
    steps = client.get(f"/api/runs/{keys[0]}/against/{keys[1]}").json()["steps"]
    assert steps
    for one in steps:
        a, b = (vs.dissect(model, TEXT)[one["name"]] for model in ("gpt", "rnn"))
        norms = [np.linalg.norm(x.astype(float)) for x in (a, b, b.astype(float) - a)]
        assert one["share"] == pytest.approx(norms[2] / (norms[0] + norms[1]), rel=1e-5)
        assert 0 <= one["share"] <= 1
    far = max(steps, key=lambda one: one["share"])
    page = watched.open(f"/gpt/dissect?vs=rnn&spine=steps{START}")
    expect(page.locator("[data-furthest-share]")).to_have_text(percent(far["share"]))
    expect(page.get_by_label("the other run")).to_contain_text(percent(far["share"]))


def test_the_curves_of_a_unit_share_an_axis_with_the_units_of_its_layer(watched):  # noqa: F811
    contexts = vs.gates(vs.dissect("lstm", f"{TEXT} head"))["c"]
    ends, heights = set(), []
    for unit in (31, int(np.abs(contexts).max(axis=1).argmax())):
        page = watched.open(f"/lstm/heads/c[2,4]?at={unit}{STORY}")
        expect(page.locator("[data-unit]")).to_have_text(str(unit))
        expect(page.locator("[data-now=c]")).to_have_text(re.compile(r"\d"))
        axis = page.locator("[data-axis]")
        expect(axis).to_have_count(2)
        ends.add(axis.first.get_attribute("data-axis"))
        dot = page.locator("circle.c")
        heights.append((float(dot.get_attribute("cy")), float(contexts[unit, -1])))
        expect(page.locator("[data-axes]")).to_contain_text("largest size in the layer")
    assert float(ends.pop()) == pytest.approx(float(np.abs(contexts).max()), rel=1e-6)
    assert not ends
    middle = 42  # of the plot, where zero is
    (y, value), (other, larger) = heights
    assert (y - middle) / (other - middle) == pytest.approx(value / larger, rel=1e-3)
