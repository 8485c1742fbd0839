"""The page in a browser: its numbers are the library's, its address holds all that it shows."""

import json
import re
import signal
import struct
import subprocess
import sys
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

import vesalius as vs
from vesalius.generation.sampling import Draw, Sampling

TEXT = "He shook his"
START = "#t=He%20shook%20his"
SOURCES = Path(__file__).parents[2] / "frontend" / "src"
SECONDS = 60
expect.set_options(timeout=1000 * SECONDS)


class Watched:
    """A page of the browser, and what it complained of."""

    def __init__(self, browser, served, **settings):
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 800}} | settings
        )
        self.context.set_default_timeout(1000 * SECONDS)
        self.page, self.served = self.context.new_page(), served
        self.complaints, self.hosts = [], set()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        served.open(self.page)

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self, path):
        self.page.goto("about:blank")
        self.page.goto(f"{self.served.base}{path}")
        return self.page

    def close(self):
        self.context.close()
        assert self.hosts <= {f"127.0.0.1:{self.served.port}", ""}


@pytest.fixture
def watched(browser, served):
    found = Watched(browser, served)
    yield found
    found.close()
    assert found.complaints == []


@pytest.fixture
def page(watched):
    return watched.page


def percent(p):
    return f"{100 * p:.1f} %" if p >= 0.000995 else f"{100 * p:#.2g} %"


@cache
def uncut():
    return vs.dissect("gpt", TEXT)


@cache
def likeliest():
    """The number and the letters of the word that the specimen finds likeliest."""
    word, token, _ = uncut().likeliest(1)[0]
    return word, token.replace(" ", "␣").replace("\n", "↵")


@cache
def first_head():
    """The head with the largest share, at which the page begins."""
    return next(part.name for part in vs.attribute(uncut()).parts if part.name.startswith("P["))


def first_place():
    name = first_head().replace("P", "mu")
    return f"{name}?at=2,{uncut()[name][2].argmax()}"


def hero(page, what):
    return page.locator(f"[data-hero={what}]")


def cut_to(page, probability):
    expect(hero(page, "probability")).to_have_text(percent(probability))


@pytest.fixture(scope="module")
def clean():
    return vs.attribute(uncut()).probability


@pytest.fixture(scope="module")
def cut():
    trace = vs.dissect("gpt", TEXT, edit={first_head(): lambda v: 0 * v})
    return vs.attribute(trace, likeliest()[0]).probability


def test_without_a_click_it_says_what_comes_next_and_how_likely(page, clean):
    expect(hero(page, "word")).to_have_text(likeliest()[1])
    cut_to(page, clean)
    expect(page).to_have_url(re.compile(re.escape(f"/gpt/dissect/{first_place()}{START}")))


def test_every_part_shows_its_share_and_what_cutting_it_would_give(page, cut):
    found = vs.attribute(vs.dissect("gpt", TEXT))
    heads = [part for part in found.parts if part.name[:2] in ("P[", "D[")]
    assert len(heads) == 20
    for part in heads:
        share = round(part.share, 2)
        cell = page.locator(f'[data-part="{part.name}"] b')
        expect(cell).to_have_text(f"{'−' if share < 0 else '+'}{abs(share):.2f}")
    expect(page.locator(f'[data-part="{first_head()}"]')).to_contain_text(percent(cut))


def test_x_cuts_the_head_and_u_takes_it_back(page, clean, cut):
    part = page.locator(f'[data-part="{first_head()}"]')
    part.click()
    page.keyboard.press("x")
    cut_to(page, cut)
    expect(hero(page, "was")).to_have_text(f"was {percent(clean)}")
    expect(page).to_have_url(re.compile(re.escape(f"cut={first_head()}")))
    expect(page.get_by_text("1 cut · undo")).to_be_visible()
    expect(part).to_contain_text(f"uncut → {percent(clean)}")
    page.keyboard.press("u")
    cut_to(page, clean)
    expect(hero(page, "was")).to_have_count(0)


NUMBER_FIRST = """() => {
  const number = document.querySelector("[data-hero=probability]");
  const logit = () => document.querySelector(".sum button").textContent;
  const [before, old] = [number.textContent, logit()];
  window.others = new Promise((done) => {
    const watch = new MutationObserver(() => {
      if (number.textContent !== before) done(logit() === old ? "later" : "together");
    });
    watch.observe(document.body, { subtree: true, childList: true, characterData: true });
  });
}"""


def test_after_a_cut_the_number_is_drawn_before_all_else(page, clean, cut):
    page.locator(f'[data-part="{first_head()}"]').click()
    expect(page.locator('.page[data-busy="no"]')).to_be_visible()
    page.evaluate(NUMBER_FIRST)
    page.keyboard.press("x")
    assert page.evaluate("window.others") == "later"
    cut_to(page, cut)
    trace = vs.dissect("gpt", TEXT, edit={first_head(): lambda v: 0 * v})
    logit = f"{vs.attribute(trace, likeliest()[0]).value:.3f}"
    expect(page.locator(".sum button")).to_have_text(logit)


def test_the_figures_type_can_be_read(page, clean):
    cut_to(page, clean)
    figure = page.locator(".figure .vesalius-figure")
    expect(figure).to_be_visible()
    assert figure.evaluate(SMALLEST) >= 11.5
    head = page.locator(".figure p")
    expect(head).to_be_in_viewport()


SMALLEST = "svg => 9 * svg.getScreenCTM().a"
"""The pixels of a figure's dimensions and counts."""


@pytest.mark.parametrize("model", ["bert", "lstm", "vit"])
def test_a_wider_figure_has_a_wider_pane_which_shows_the_part_that_is_lit(watched, model):
    page = watched.open(f"/{model}/dissect")
    expect(page.locator(".figure [data-lit]").first).to_be_in_viewport()
    assert page.locator(".figure .vesalius-figure").evaluate(SMALLEST) >= 11.5


def test_the_address_alone_restores_what_was_seen(watched, cut):
    address = f"/gpt/dissect/mu[3,4]?at=2,1&cut={first_head()}{START}"
    page = watched.open(address)
    cut_to(page, cut)
    trace = vs.dissect("gpt", TEXT, edit={first_head(): lambda v: 0 * v})
    expect(page.locator("[data-value]")).to_have_text(f"{trace['mu[3,4]'][2, 1]:#.4g}")
    page.reload()
    cut_to(page, cut)
    assert page.url.endswith(address)


def test_back_and_forward_go_where_one_was(page, clean, cut):
    cut_to(page, clean)
    page.keyboard.press("x")
    cut_to(page, cut)
    page.go_back()
    cut_to(page, clean)
    page.go_forward()
    cut_to(page, cut)


def test_the_number_at_the_cursor_is_the_traces(watched):
    trace = vs.dissect("gpt", TEXT)
    page = watched.open(f"/gpt/dissect/mu[3,4]?at=2,1{START}")
    for key, at in (("ArrowLeft", (2, 0)), ("ArrowUp", (1, 0)), ("ArrowRight", (1, 1))):
        expect(page.locator("[data-value]")).to_be_visible()
        page.keyboard.press(key)
        number = f"{trace['mu[3,4]'][at]:#.4g}"
        expect(page.locator("[data-value]")).to_have_text(number)
        expect(page).to_have_url(re.compile(f"at={at[0]},{at[1]}#"))


def test_keys_move_among_layers_and_heads_and_down_and_up(watched):
    page = watched.open(f"/gpt/dissect/mu[3,4]?at=2,1{START}")
    for key, name in (("[", "mu[2,4]"), (",", "mu[2,3]"), ("]", "mu[3,3]"), (".", "mu[3,4]")):
        expect(page.locator("[data-value]")).to_be_visible()
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(re.escape(f"/dissect/{name}?at=2,1#")))
    first = vs.unfold(vs.dissect("gpt", TEXT), "mu[3,4]", 2, 1).terms[0].factors[0]
    value = f"{uncut()['mu[3,4]'][2, 1]:#.4g}"
    expect(page.locator("[data-value]")).to_have_text(value)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(re.escape(f"/dissect/{first.name}?at={first.at[0]}")))
    page.keyboard.press("Backspace")
    expect(page).to_have_url(re.compile(re.escape("/dissect/mu[3,4]?at=2,1#")))


def test_the_figure_is_pythons_and_leads_to_its_steps(watched):
    page = watched.open(f"/gpt/dissect/mu[3,4]{START}")
    figure = page.locator("section.figure svg.vesalius-figure")
    drawn = {part.id: part for part in vs.figure("gpt", "model[3]", length=3).parts}
    expect(figure.locator('[id="P[3,4]"]')).to_have_class(re.compile(r"\blit\b"))
    expect(figure.locator(".lit")).to_have_count(2)  # the head, and attention around it
    assert {node.get_attribute("id") for node in figure.locator(".part").all()} == set(drawn)
    expect(figure.locator('[id="Phi[3].Pi"]')).to_contain_text(f"{drawn['Phi[3].Pi'].count:,}")
    figure.locator('[id="D[3]"]').click()
    expect(page).to_have_url(re.compile(r"/gpt/dissect/D\[3\]"))
    expect(figure.locator('[id="D[3]"]')).to_have_class(re.compile(r"\blit\b"))
    figure.locator(".more").last.press("Enter")
    expect(page).to_have_url(re.compile(r"/gpt/dissect/D\[4\]"))
    expect(figure.locator('[id="Phi[4]"]')).to_be_visible()
    page.get_by_label("all figures, large").click()
    plate = page.get_by_role("dialog", name="figures")
    plate.get_by_role("button", name="attention", exact=True).click()
    first = vs.dissect("gpt", TEXT)["mu[4,1]"][2, 0]
    expect(plate.locator('[id="P[4,1]"]')).to_contain_text(f"{first:.3f}")
    plate.locator('[id="P[4,1]"]').click()  # goes in: to the head's scores, one query at a time
    expect(plate).to_contain_text("Figure 10: layer 4, head 1")
    with page.expect_download() as kept:
        plate.get_by_role("button", name="SVG").click()
    assert kept.value.suggested_filename == "query.svg"
    page.keyboard.press("Escape")
    expect(plate).to_have_count(0)


def test_a_number_goes_down_to_a_weight_and_its_byte_in_the_file(watched):
    page = watched.open(f"/gpt/dissect/q[3,4]?at=2,7{START}")
    page.locator("button.parameter").first.click()
    offset = int(page.locator("[data-offset]").inner_text().replace(",", ""))
    found = vs.unfold(vs.dissect("gpt", TEXT), "q[3,4]", 2, 7).terms[0].factors
    weight = next(factor for factor in found if factor.kind == "parameter")
    assert weight.location.offset == offset
    data = (vs.load("gpt").folder / weight.location.file).read_bytes()
    assert struct.unpack_from("<e", data, offset)[0] == pytest.approx(weight.value)


def test_words_are_searched_and_asked_about(page):
    expect(hero(page, "word")).to_have_text(likeliest()[1])
    page.get_by_label("search the vocabulary").fill("heart")
    page.get_by_role("button", name="heart").first.click()
    expect(hero(page, "word")).to_have_text("␣heart")
    cut_to(page, vs.attribute(vs.dissect("gpt", TEXT), " heart").probability)


def test_words_are_shown_as_the_sampler_draws_them_and_the_text_is_continued(watched):
    how = {"temperature": 0.7, "top_k": 40, "top_p": 0.9}
    page = watched.open(f"/gpt/dissect?T=0.7&k=40&p=0.9&seed=3{START}")
    before = page.evaluate("history.length")
    draw = Draw(vs.dissect("gpt", TEXT)["Z"][:, -1], Sampling(*how.values()), np.zeros(0, int), 0)
    first = page.get_by_title("ask about this word").first
    expect(first).to_contain_text(percent(draw.probabilities.max()))
    expect(page.get_by_text(f"{draw.kept.sum()} kept")).to_be_visible()
    cut_to(page, float(vs.dissect("gpt", TEXT)["Y_hat"][:, -1].max()))  # the model's own
    page.get_by_label("temperature").fill("0")
    expect(first).to_contain_text("100.0 %")
    expect(page).to_have_url(re.compile(re.escape("T=0&k=40&p=0.9&seed=3#")))
    assert page.evaluate("history.length") == before
    page.get_by_label("temperature").fill("0.7")
    page.get_by_role("button", name="draw", exact=True).click()
    drawn = vs.generate("gpt", TEXT, 1, seed=3, **how).text
    expect(page).to_have_url(re.compile("seed=4#" + re.escape(f"t={quote(TEXT + drawn)}") + "$"))
    page.get_by_label("tokens to continue by").fill("5")
    page.get_by_role("button", name="continue", exact=True).click()
    text = TEXT + drawn + vs.generate("gpt", TEXT + drawn, 5, seed=4, **how).text
    expect(page.get_by_role("group", name="tokens").locator(".ghost").first).to_be_visible()
    expect(page).to_have_url(re.compile("seed=5#t="))
    assert unquote(page.url.partition("#t=")[2]) == text
    page = watched.open("/bert/dissect")
    expect(first).to_be_visible()
    expect(page.get_by_label("temperature")).to_have_count(0)


def test_another_text_is_read(page):
    expect(hero(page, "word")).to_have_text(likeliest()[1])
    page.keyboard.press("/")
    page.get_by_label("text", exact=True).fill("It was a dark")
    page.keyboard.press("Enter")
    word, probability = vs.dissect("gpt", "It was a dark").likeliest(1)[0][1:]
    expect(hero(page, "word")).to_have_text(word.replace(" ", "␣"))
    cut_to(page, probability)
    assert page.url.endswith("#t=It%20was%20a%20dark")


@pytest.mark.parametrize("high", [800, 640])
def test_scores_of_a_long_text_are_square_and_the_cursor_is_in_view(watched, high):
    watched.page.set_viewport_size({"width": 1280, "height": high})
    page = watched.open(f"/gpt/dissect/mu[4,3]?at=240,3#t={quote('He shook his head. ' * 50)}")
    cursor, pane = page.locator(".equation .cursor"), page.locator(".equation")
    expect(cursor).to_be_visible()
    box = page.locator(".equation canvas").first.bounding_box()
    assert box["width"] == pytest.approx(box["height"], abs=1)
    for key in ("ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
        expect(page.locator('.page[data-busy="no"]')).to_be_visible()
        mark, frame = cursor.bounding_box(), pane.bounding_box()
        assert frame["y"] <= mark["y"] <= frame["y"] + frame["height"] - mark["height"]


@pytest.mark.parametrize("which", ["text", "text of the other run"])
def test_line_ends_of_a_text_survive_editing(watched, which):
    text = "He said.\n\nCome in.\nShe"
    page = watched.open(f"/gpt/dissect#t={quote(text)}")
    expect(page.get_by_role("group", name="tokens")).to_contain_text("↵")
    page.keyboard.press("/" if which == "text" else "v")
    field = page.get_by_label(which, exact=True)
    expect(field).to_have_value(text)
    field.press("End")
    field.press("Shift+Enter")
    field.press_sequentially("Now")
    field.press("Enter")
    expect(field).to_have_count(0)
    key = "t" if which == "text" else "v"
    expect(page).to_have_url(re.compile(f"[#&]{key}={re.escape(quote(text + chr(10) + 'Now'))}"))


def test_pieces_of_one_long_word_stand_together_and_word_pieces_apart(watched):
    page = watched.open("/gpt/dissect#t=Donaudampfschiff")
    expect(page.locator("h1 .token")).to_have_count(len(vs.dissect("gpt", "Donaudampfschiff").ids))
    expect(page.locator("h1 .apart")).to_have_count(0)
    page = watched.open("/bert/dissect#t=He%20shook%20his%20[MASK].")
    expect(page.locator("h1 .apart")).not_to_have_count(0)


def test_the_words_of_every_layer_are_shown(page):
    page.get_by_role("button", name="Words", exact=True).click()
    expect(page.get_by_text("H[0]", exact=True).first).to_be_visible()
    expect(page).to_have_url(re.compile("spine=words"))


@pytest.mark.parametrize("model", ["bert", "ffnn", "lstm", "rnn"])
def test_other_families_open_without_a_complaint(watched, model):
    page = watched.open(f"/{model}/dissect")
    expect(hero(page, "probability")).to_contain_text("%")
    expect(page.locator("[data-value]")).to_be_visible()


def test_an_unfolding_shows_what_else_takes_part(watched):
    trace = vs.dissect("gpt", TEXT)
    page, notes = watched.page, watched.page.locator("[data-notes]")
    normal = vs.unfold(trace, "H_bar[3]", 20, 2).notes
    watched.open(f"/gpt/dissect/H_bar[3]?at=20,2{START}")
    expect(notes).to_contain_text("deviation")
    shown = notes.locator("[data-full]").evaluate_all("all => all.map(x => x.dataset.full)")
    assert np.allclose(np.float64(shown), [normal["mean"], normal["deviation"]])
    watched.open(f"/gpt/dissect/mu[3,4]?at=2,1{START}")
    expect(notes).to_contain_text("runner-up He")
    made = vs.unfold(trace, "mu[3,4]", 2, 1)
    shown = notes.locator("[data-full]").evaluate_all("all => all.map(x => x.dataset.full)")
    told = [made.total, made.notes["log of the sum"], made.rivals[1][1]]
    assert np.allclose(np.float64(shown), told)
    notes.get_by_role("button").click()
    expect(page).to_have_url(re.compile(re.escape("mu[3,4]?at=2,0")))
    expect(notes).to_contain_text("largest ␣shook")


def test_an_activation_is_drawn_with_the_point_of_the_number(watched):
    page, curve = watched.open(f"/gpt/dissect/F[2]?at=7,1{START}"), "[data-curve]"
    expect(page.locator(f"{curve} circle")).to_be_visible()
    label = page.locator(curve).get_attribute("aria-label")
    made = vs.unfold(vs.dissect("gpt", TEXT), "F[2]", 7, 1)
    assert np.allclose(
        [float(x.replace("−", "-")) for x in re.findall(r"−?[\d.]+", label)],
        [made.total, made.value],
        atol=1e-3,
    )
    distance = page.locator(curve).evaluate(
        """svg => {
            const [dot, line] = [svg.querySelector("circle"), svg.querySelector(".curve")];
            const [x, y] = [dot.cx.baseVal.value, dot.cy.baseVal.value];
            const all = line.getTotalLength();
            const along = Array.from({ length: 2000 }, (_, k) => (all * k) / 1999);
            const points = along.map((t) => line.getPointAtLength(t));
            return Math.min(...points.map((p) => Math.hypot(p.x - x, p.y - y)));
        }"""
    )
    assert distance < 0.5  # of a pixel: it stands on the line
    watched.open(f"/gpt/dissect/Z?at=7,1{START}")
    expect(page.locator(curve)).to_have_count(0)


def test_the_status_line_tells_the_time_of_the_run_that_it_names(watched):
    page, footer = watched.open("/gpt/dissect" + START), watched.page.locator("footer")
    steps = len(vs.dissect("gpt", TEXT).steps)
    expect(footer).to_contain_text(re.compile(rf"run \w{{8}}\D*float16\s*{steps} steps in \d+ ms"))
    page = watched.open("/gpt/dissect?cut=P[4,1]" + START)
    expect(page.locator(".again")).to_be_visible()
    again = page.locator(".again").inner_text()
    count, _, spent = again.partition(" steps computed again, ")
    expect(footer).to_contain_text(f"{count} steps in {spent}")


def test_a_failure_shows_its_sentence_and_a_way_out(browser, served):
    watched = Watched(browser, served)
    page = watched.open("/gpt/dissect#t=")
    expect(page.get_by_role("alert")).to_contain_text("expected at least one token")
    page = watched.open("/gpt/dissect#t=" + "a%20b%20" * 300)
    expect(page.get_by_role("alert")).to_contain_text("601 positions")
    page.get_by_text("read the last 256 tokens").click()
    expect(hero(page, "probability")).to_contain_text("%")
    page = watched.open("/nobody/dissect")
    expect(page.get_by_role("alert")).to_contain_text("there is no model 'nobody'")
    page = watched.open("/gpt/dissect/%E0%A4%A")  # an address that was cut short within a letter
    expect(page.get_by_role("status")).to_contain_text("%E0%A4%A is no step of this run")
    watched.close()
    allowed = "Failed to load resource"  # which Chromium says of every refusal
    assert all(allowed in complaint for complaint in watched.complaints)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_has_one_column_and_nothing_beside_it(browser, served, scheme, clean):
    narrow = {"width": 375, "height": 800}
    watched = Watched(browser, served, viewport=narrow, color_scheme=scheme)
    cut_to(watched.page, clean)
    expect(watched.page.locator("[data-value]")).to_be_visible()
    assert watched.page.evaluate("document.documentElement.scrollWidth") == 375
    assert watched.page.evaluate("document.documentElement.dataset.theme") == scheme
    watched.close()
    assert watched.complaints == []


def test_without_the_token_the_page_says_what_to_do(browser, served):
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.base)
    expect(page.get_by_role("alert")).to_contain_text("open the address")
    context.close()


def test_the_command_prints_its_address_and_ends_with_an_interrupt(browser, clean):
    command = [sys.executable, "-m", "vesalius", "explore", "--no-browser", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = json.loads(process.stdout.readline())
    assert said["address"] == f"http://127.0.0.1:{said['port']}/?token={said['token']}"
    page = browser.new_page()
    page.goto(said["address"])
    expect(hero(page, "probability")).to_have_text(percent(clean), timeout=1000 * SECONDS)
    page.close()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (0, "")


def test_two_hundred_numbers_are_the_servers_by_one_rule_of_rounding(watched, client):
    asked, shown, told = set(), set(), set()
    watched.page.on("request", lambda request: asked.add(urlsplit(request.url)))
    texts = ("He shook his", "She opened the door and", "It was a dark night, and the", "I am")
    places = [f"/gpt/dissect#t={quote(text)}" for text in texts]
    for place in [
        *places,
        "/lstm/dissect",
        "/rnn/dissect",
        "/bert/dissect",
        "/gpt/dissect?spine=words",
    ]:
        page = watched.open(place)
        expect(page.locator("[data-hero=probability]")).to_contain_text("%")
        expect(page.locator(".page")).to_have_attribute("data-busy", "no")
        found = page.locator("[data-full]").evaluate_all(
            "all => all.map(e => [e.textContent, e.dataset.full])"
        )
        shown |= {(text.strip(), full) for text, full in found}
    assert len(shown) >= 200
    runs = {found for url in asked for found in re.findall("/api/runs/[0-9a-f]{24}", url.path)}
    for url in asked | {urlsplit(run) for run in runs}:
        if re.search("/runs/[0-9a-f]{24}($|/unfold|/lens|/vocabulary|/sources)", url.path):
            answer = client.get(f"{url.path}?{url.query}")
            numbers = re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", answer.text)
            told |= {np.float32(number) for number in numbers}
        elif "/steps/" in url.path:
            told |= set(np.frombuffer(client.get(f"{url.path}?{url.query}").content, "<f4"))
    for text, full in shown:
        assert np.float32(full) in told, (text, full)
        number = text.replace("−", "-").removesuffix("%").strip()
        exact = Decimal(full) * (100 if text.endswith("%") else 1)
        last = Decimal(number).as_tuple().exponent
        assert Decimal(number) == exact.quantize(Decimal((0, (1,), last)), ROUND_HALF_UP), full


def test_the_page_draws_no_number_of_its_own():
    written = "\n".join(file.read_text() for file in SOURCES.rglob("*") if file.is_file())
    assert "Math.random" not in written
    assert "{@html" not in written
    assert "renderToString" not in written
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", written)
