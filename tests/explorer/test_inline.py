"""``vs.explore`` shows the page with a run in a notebook's frame, without a server or a network."""

import base64
import json
import re
import zlib

import pytest
from playwright.sync_api import expect

import vesalius as vs
from vesalius.errors import WrongKind

MINUTE = 60_000
SMALL = {"layers": 1, "embedding": 8, "vocabulary": 40}


def percent(p):
    return f"{100 * p:.1f} %"


@pytest.fixture(scope="module")
def trace(browser):  # the browser, since without a page there is nothing to show either
    return vs.dissect("gpt", "She closed the")


def about(exploration):
    """What a page says of its run."""
    held = re.search(r'<script type="text/plain" id="kept">([^<]+)</script>', exploration.page)[1]
    text = zlib.decompress(base64.b64decode(held), wbits=-15).decode()
    return json.loads(dict(line.split("\t", 1) for line in text.splitlines())["about"])


def test_a_notebook_shows_the_page_which_unfolds_and_cuts_and_asks_nobody(browser, trace, tmp_path):
    notebook = tmp_path / "notebook.html"  # of no said encoding, as some are kept
    notebook.write_text(f"<h1>a notebook</h1>{vs.explore(trace)._repr_html_()}", "ascii")
    context = browser.new_context(offline=True, viewport={"width": 1000, "height": 950})
    context.set_default_timeout(MINUTE)
    page, complaints, asked = context.new_page(), [], set()
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.add(request.url.partition("#")[0]))
    page.goto(notebook.as_uri())
    frame = page.frame_locator("iframe")
    hero = frame.locator("[data-hero=probability]")
    found = vs.attribute(trace)
    expect(hero).to_have_text(percent(found.probability), timeout=MINUTE)
    hero.click()
    expect(frame.locator("[data-value]")).to_have_text(
        f"{trace['Y_hat'][found.target.cells[0][0]]:#.4g}"
    )
    cut = vs.dissect("gpt", "She closed the", edit={"P[3,4]": vs.zero})
    word = found.target.cells[0][0][0]
    frame.locator('[data-part="P[3,4]"]').click()
    page.keyboard.press("x")
    expect(hero).to_have_text(percent(vs.attribute(cut, word).probability))
    frame.get_by_role("link", name="Vesalius").click()
    expect(hero).to_be_visible()
    expect(frame.locator("h1", has_text="a notebook")).to_have_count(0)
    assert complaints == []
    assert asked == {notebook.as_uri()}
    context.close()


def test_outside_of_a_notebook_it_says_what_to_do_and_is_written_as_a_file(trace, tmp_path):
    exploration = vs.explore(trace)
    assert repr(exploration).startswith("Exploration of gpt, ")
    assert "save('run.html')" in repr(exploration)
    exploration.save(tmp_path / "run.html")
    assert (tmp_path / "run.html").read_text("utf-8") == exploration.page
    assert len(exploration.page.encode()) <= 5_000_000
    assert exploration.left


def test_it_shows_what_the_trace_read(trace):
    assert about(vs.explore(trace))["text"] == "She closed the"
    said = ("He shook his head.", "She smiled.")
    pair = about(vs.explore(vs.dissect("bert", said)))
    assert vs.dissect("bert", (pair["text"], pair["second"])).ids == vs.dissect("bert", said).ids
    model = vs.create("lstm", **SMALL)
    assert about(vs.explore(vs.dissect(model, [1, 2, 3])))["ids"] == [1, 2, 3]
    assert about(vs.explore(model, [4, 5]))["ids"] == [4, 5]
    assert about(vs.explore(model, [4, 5]))["model"] == "family:lstm"


def test_what_cannot_be_shown_is_said(trace, tmp_path):
    model = vs.create("lstm", **SMALL)
    edited = vs.dissect(model, [1, 2], edit={"h[1,1]": vs.zero})
    trace.save(tmp_path / "run.safetensors")
    bare = vs.read_trace(tmp_path / "run.safetensors")
    for wrong, said in (
        ((model,), "a model and a text"),
        ((trace, "He"), "has read its text already"),
        ((edited,), "without edits"),
        ((bare,), "has no model"),
        ((vs.dissect("vit", vs.example("vit")),), "run of a text so far"),
    ):
        with pytest.raises(WrongKind, match=said):
            vs.explore(*wrong)
