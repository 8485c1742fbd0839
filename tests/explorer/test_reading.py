"""What the page is called, what is said of a change, and how one finds one's way back."""

import re
from pathlib import Path

import pytest
from explorer.test_layout import MINUTE, READ, opened, rested
from playwright.sync_api import expect

import vesalius as vs
from vesalius.figures.subject import SUPERSCRIPT

TEXT = "He shook his"


@pytest.fixture(scope="module")
def page(browser, served):
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        context.set_default_timeout(MINUTE)
        opened_page = context.new_page()
        served.open(opened_page)
        yield opened_page


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("/gpt/dissect", "Dissect"),
        ("/gpt/heads", "Heads"),
        ("/lstm/heads", "Gates"),
        ("/gpt/words", "Words"),
        ("/gpt/ledger", "Ledger"),
        ("/gpt/runs", "Runs"),
    ],
)
def test_every_room_has_one_heading_and_a_title_that_names_it(page, served, place, name):
    opened(page, served, place)
    model = place.split("/")[1]
    expect(page).to_have_title(re.compile(rf"(^|· ){name} · {model} · Vesalius$"))
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    if name != "Dissect":  # which is headed by what comes next
        expect(page.get_by_role("heading", level=1)).to_have_text(f"{name} of {model}")


def test_a_cut_is_told_to_who_cannot_see_it(page, served):
    opened(page, served, f"/gpt/dissect/mu[3,4]?at=2,1{READ}")
    spoken = page.locator("[aria-live=polite][data-spoken]")
    before = page.locator("[data-hero=probability]").inner_text()
    expect(spoken).to_contain_text(before)
    page.keyboard.press("x")
    expect(page.get_by_text("1 cut · undo")).to_be_visible()
    now = page.locator("[data-hero=probability]").inner_text()
    expect(spoken).to_have_text(re.compile(rf"^P\[3,4\] cut: .* {re.escape(now)}, was {before}$"))
    page.keyboard.press("u")
    expect(spoken).not_to_contain_text("cut")


def test_unfolding_leaves_crumbs_that_lead_back(page, served):
    opened(page, served, f"/gpt/dissect{READ}")
    crumbs = page.get_by_role("navigation", name="unfolded on the way here")
    expect(crumbs).to_have_count(0)
    likely = page.locator("[data-hero=probability]")
    said = likely.inner_text()
    likely.click()
    rested(page)
    for _ in range(3):
        page.keyboard.press("Enter")
        rested(page)
    links = crumbs.get_by_role("link")
    expect(links).to_have_count(3)
    assert links.all_inner_texts()[:2] == [said, "Z"]
    there = page.url
    page.reload()  # the address has the way
    expect(links).to_have_count(3)
    address = links.nth(1).get_attribute("href")
    links.nth(1).click()
    rested(page)
    assert page.url.endswith(address)
    expect(links).to_have_count(1)
    expect(crumbs).to_contain_text("Z")
    page.go_back()
    assert page.url == there
    expect(links).to_have_count(3)
    page.locator("[data-part]").first.click()  # another number, which was not unfolded to
    expect(crumbs).to_have_count(0)


def test_every_set_of_a_head_is_written_with_its_letter():
    letters = (Path(__file__).parents[2] / "frontend/src/lib/format.ts").read_text(encoding="utf-8")
    sets = [name for name in SUPERSCRIPT if name.startswith("Pi_")]
    assert len(sets) == 5
    assert [name for name in sets if f'{name}: "Π' not in letters] == []


def test_the_row_of_tokens_is_a_field_to_type_in(page, served):
    opened(page, served, f"/gpt/dissect{READ}")
    page.get_by_role("group", name="tokens").get_by_text("type your own text").click()
    field = page.get_by_label("text", exact=True)
    expect(field).to_be_focused()
    expect(field).to_have_value(TEXT)
    page.keyboard.press("Escape")
    expect(field).to_have_count(0)


def test_settings_of_the_sampler_have_names_beside_their_letters(page, served):
    opened(page, served, f"/gpt/dissect?T=0.7&seed=3{READ}")
    sampler = page.get_by_role("group", name="sampler")
    for name in ("temperature T", "top-k k", "top-p p", "tokens", "seed"):
        expect(sampler).to_contain_text(name)
    seed = sampler.get_by_label("seed")
    expect(seed).to_have_value("3")
    seed.fill("5")
    seed.press("Enter")
    expect(page).to_have_url(re.compile("seed=5#"))


def test_what_the_model_wrote_is_read_as_a_text_and_can_be_taken_back(page, served):
    opened(page, served, f"/gpt/dissect?T=0.8&seed=1{READ}")
    page.get_by_label("tokens to continue by").fill("6")
    page.get_by_role("button", name="continue", exact=True).click()
    wrote = vs.generate("gpt", TEXT, 6, temperature=0.8, seed=1).text
    read = page.get_by_label("the text with what the model wrote")
    expect(read).to_be_visible()
    assert read.text_content() == TEXT + wrote
    assert read.locator("mark").text_content() == wrote
    page.get_by_role("button", name="take it back").click()
    expect(read).to_have_count(0)
    expect(page).to_have_url(re.compile(f"{re.escape(READ)}$"))


def test_no_text_at_all_is_answered_with_a_sentence_alone(page, served):
    opened(page, served, "/gpt/dissect#t=")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("expected at least one token")
    assert not re.search(r"\b[A-Z][a-z]+[A-Z]\w+", alert.inner_text())  # an exception's name


def test_a_table_has_four_digits_and_copies_all(page, served):
    opened(page, served, f"/gpt/dissect/mu[3,4]?at=2,1{READ}")
    page.get_by_role("button", name="mu[3,4]: table and files", exact=True).click()
    page.locator(".menu:popover-open").get_by_role("button", name="table").click()
    cell = page.get_by_role("table").locator("td.number").nth(-2)
    value = float(vs.dissect("gpt", TEXT)["mu[3,4]"][2, 1])
    assert cell.inner_text() == f"{value:#.4g}"
    assert float(cell.get_attribute("data-full")) == pytest.approx(value, rel=1e-6)
    shown = page.get_by_role("table").locator("td.number").all_inner_texts()
    assert max(len(re.sub(r"\D|^0\.0*", "", one)) for one in shown) <= 5


def test_shapes_of_symbols_are_typeset(page, served):
    opened(page, served, f"/gpt/dissect/mu[3,4]?at=2,1{READ}")
    page.locator(".equation summary").click()
    shapes = page.locator(".equation dd > span")
    expect(shapes.first).to_be_visible()
    assert shapes.evaluate_all("all => all.every((one) => one.querySelector('.katex'))")
    assert page.locator(".equation dl .katex-error").count() == 0


def test_a_unit_that_was_found_is_shown_in_the_ribbons_when_it_is_pointed_at(page, served):
    opened(page, served, "/lstm/heads#t=He%20shook%20his%20head%20and")
    ribbon = page.get_by_role("img", name="forget gate")
    expect(ribbon.locator("canvas")).to_be_visible()
    page.wait_for_load_state("networkidle")
    box = ribbon.bounding_box()
    for at in (0.5, 1.5):  # a span of two tokens of five
        page.mouse.move(box["x"] + at / 5 * box["width"], box["y"] + 12)
        (page.mouse.down if at < 1 else page.mouse.up)()
    units = page.locator("[data-found] button:not(.close)")
    expect(units.first).to_be_visible()
    units.first.hover()
    marks = page.locator("[data-pointing]")
    expect(marks.first).to_be_attached()
    assert marks.first.get_attribute("data-pointing") == units.first.inner_text()
    page.mouse.move(2, 2)
    expect(marks).to_have_count(0)
