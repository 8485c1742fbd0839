"""The page and a text of 1,024 tokens: it fills layer by layer, can be stopped, and stays small."""

import re

import pytest
from playwright.sync_api import expect

import vesalius as vs

N, LAYERS = 1024, 12
NODES = 5000
"""Elements of the page, whatever the text."""
expect.set_options(timeout=60_000)


def made(seed):
    """GPT-2's layers, heads and context, so narrow that it is computed in seconds."""
    return vs.create("gpt2", embedding=48, vocabulary=64, seed=seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "narrow"
    made(1).save(folder)
    return folder


@pytest.fixture(scope="module")
def settings(folder):
    return {"model": str(folder)}


def test_a_long_text_fills_the_spine_can_be_stopped_and_keeps_the_page_small(
    browser, served, folder
):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(60_000)
    page = context.new_page()
    served.open(page)
    expect(page.locator("[data-hero=probability]")).to_contain_text("%")
    ids = [(7 * i) % 64 for i in range(N)]
    page.goto("about:blank")
    # In the last layer, since a cut in an earlier one computes all layers above it again.
    page.goto(f"{served.base}/narrow/dissect/mu[{LAYERS},1]#t={'%20'.join(map(str, ids))}")
    heading = page.get_by_role("heading", name=re.compile(f"layer [0-9]+ of {LAYERS}"))
    expect(heading).to_be_visible()
    page.get_by_role("button", name="cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("The run was stopped after layer")
    page.get_by_role("button", name="run it after all").click()
    shown = page.locator("[data-hero=probability]")
    expect(shown).to_contain_text("%")
    expect(page.locator(".page")).to_have_attribute("data-busy", "no")
    expect(page.get_by_text(f"{N:,} of {N:,}")).to_be_visible()
    assert page.locator("*").count() < NODES
    page.get_by_title("tokens before these").click()
    assert page.locator("*").count() < NODES

    expect(page.locator(".waiting")).to_have_count(0)  # nothing more is asked for
    made(2).save(folder)  # while it is open
    page.get_by_role("button", name="Words", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("narrow have changed since they were read")
    expect(page.get_by_role("button", name="open it anew")).to_be_visible()
    page.goto("about:blank")
    page.goto(f"{served.base}/narrow/dissect#t=1%202%203")
    expect(shown).to_contain_text("%")
    context.close()


def test_a_folder_that_is_no_model_is_said_to_be_none(tmp_path):
    from vesalius.errors import NotACheckpoint
    from vesalius.explorer.server import explorer

    with pytest.raises(NotACheckpoint):
        explorer(str(tmp_path), port=0)
