"""One walk by keyboard alone, every focus seen; and every equation typeset without a complaint."""

import re

import pytest
from explorer.test_page import first_head
from playwright.sync_api import expect

import vesalius as vs
from vesalius.equations import REGISTRY

SECONDS = 60
UNSIZED = """sheet => [...sheet.querySelectorAll("[class*=reset-size]")]
    .filter(one => !/reset-size(\\d+) size\\1\\b/.test(one.className))
    .filter(one => getComputedStyle(one).fontSize === getComputedStyle(one.parentElement).fontSize)
    .map(one => one.className)"""
"""Indices as large as their letters: KaTeX's styles have no rule for their size."""
TEXT = "It was a dark"
FOCUS = """() => {
  const here = document.activeElement;
  if (!here || here === document.body) return null;
  const styles = [here, ...here.children].map((one) => getComputedStyle(one));
  const outlined = styles[0].outlineStyle !== "none" && parseFloat(styles[0].outlineWidth) > 0;
  const part = here.closest("svg") !== null; // a figure's part has a thicker line, or is underlined
  const drawn = styles.some((s) => s.strokeWidth === "2px" || s.textDecorationLine === "underline");
  const box = here.getBoundingClientRect();
  const within = box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth;
  const name = `${here.tagName} ${here.getAttribute("aria-label") ?? here.textContent.trim()}`;
  const seen = (outlined || (part && drawn)) && within && box.width > 0;
  return { name: name.slice(0, 60), seen };
}"""


@pytest.fixture
def page(browser, served):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(1000 * SECONDS)
    found, complaints = context.new_page(), []
    found.on("console", lambda m: m.type in ("error", "warning") and complaints.append(m.text))
    found.on("pageerror", lambda error: complaints.append(str(error)))
    served.open(found)
    expect(found.locator("[data-part]").first).to_be_visible(timeout=1000 * SECONDS)
    yield found
    context.close()
    assert complaints == []


def rested(page):
    expect(page.locator(".page")).to_have_attribute("data-busy", "no", timeout=1000 * SECONDS)


def tabbed(page, until, most=150):
    """Go on to something by Tab; every stop on the way can be seen to have the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUS)
        assert stop is None or stop["seen"], stop
        if page.evaluate("(wanted) => document.activeElement?.matches(wanted) ?? false", until):
            return
    raise AssertionError(f"Tab never came to {until}")


def at(page, place):
    expect(page).to_have_url(re.compile(re.escape(place)), timeout=1000 * SECONDS)
    rested(page)


def test_a_whole_walk_by_keyboard_alone(page):
    press = page.keyboard.press
    press("/")
    page.keyboard.insert_text(TEXT)
    press("Enter")
    at(page, "#t=It%20was%20a%20dark")
    trace = vs.dissect("gpt", TEXT)
    tabbed(page, '[data-part="D[4]"]')  # over the top, the tokens and the figure
    press("Enter")
    expect(page).to_have_url(re.compile(r"/gpt/dissect/D\[4\]\?at=\d+,\d+"))
    row, column = map(int, re.search(r"at=(\d+),(\d+)", page.url).groups())
    value = page.locator("[data-value]")
    expect(page.locator(".value").first).to_contain_text(f"({row}, {column}) =")
    shown = float(value.get_attribute("data-full"))
    assert shown == pytest.approx(trace["D[4]"][row, column], rel=1e-6)
    press("ArrowDown" if column + 1 < len(trace.ids) else "ArrowUp")
    expect(page).not_to_have_url(re.compile(f"at={row},{column}"))
    rested(page)
    page.evaluate("document.activeElement.blur()")  # as a click beside it would
    press("Enter")  # unfold the largest term, and fold again
    expect(page).not_to_have_url(re.compile(re.escape("/dissect/D[4]")))
    rested(page)
    press("Backspace")
    at(page, "/gpt/dissect/D[4]")
    press("x")
    cut = vs.dissect("gpt", TEXT, edit={"D[4]": 0})["Y_hat"][trace.likeliest(1)[0][0], -1]
    probability = page.locator("[data-hero=probability]")
    expect(probability).to_have_text(f"{100 * cut:.1f} %")
    press("u")
    expect(probability).to_have_text(f"{100 * trace['Y_hat'][:, -1].max():.1f} %")
    for key, room in zip("23451", ("heads", "words", "ledger", "runs", "dissect"), strict=True):
        press(key)
        at(page, f"/gpt/{room}")
    tables = page.get_by_role("table")
    expect(tables).to_have_count(0)
    press("t")
    expect(tables).to_have_count(1)
    press("t")
    press("?")
    keys = page.get_by_role("dialog", name="all keys")
    expect(keys).to_contain_text("unfold the largest term")
    press("Escape")
    expect(keys).to_be_hidden()
    tabbed(page, ".python button")  # the last pane of the equation
    page.go_back()
    at(page, "/gpt/runs")
    # Meanwhile the run has been computed by other code too, which lets everybody else go first.
    press("1")
    check = page.locator("[data-check]")
    expect(check).to_have_text("equations = network ✓", timeout=10_000 * SECONDS)
    expect(check).to_have_attribute("title", re.compile("^Z, .* numbers: .* difference is .e−"))


def test_every_equation_is_typeset_and_leads_to_its_steps(page):
    page.keyboard.press("e")
    sheet = page.get_by_role("dialog", name="equations")
    rows = sheet.locator("[data-equation]")
    expect(rows).to_have_count(len(REGISTRY))
    assert {row.get_attribute("data-equation") for row in rows.all()} == set(REGISTRY)
    assert {entry.number for entry in REGISTRY.values()} >= set(range(1, 68))
    assert rows.evaluate_all("all => all.every((one) => one.querySelector('.katex-html'))")
    expect(sheet.locator(".katex-error")).to_have_count(0)
    assert sheet.evaluate(UNSIZED) == []
    sheet.get_by_label("search the equations").fill("residual")
    expect(rows).not_to_have_count(len(REGISTRY))
    sheet.get_by_label("search the equations").fill("(26)")
    expect(rows).to_have_count(1)
    rows.get_by_role("button").click()
    expect(page).to_have_url(re.compile(re.escape(f"/gpt/dissect/{first_head()}")))
    name = vs.dissect("gpt", "He shook his").graph.step(first_head()).equation.name
    assert REGISTRY[name].number == 26
    expect(page.locator("section.equation h2")).to_contain_text("(26)")
