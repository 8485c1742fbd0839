"""Rooms can be read by everybody: axe finds nothing serious, in light and dark, wide and narrow."""

import pytest
from playwright.sync_api import expect

RUN = """async () => (await axe.run()).violations
    .filter(found => ['serious', 'critical'].includes(found.impact))
    .map(found => `${found.id}: ${found.nodes[0].html.slice(0, 200)}`)"""
ROOMS = (
    *("/gpt/dissect/mu[3,4]?at=2,1&cut=P[1,1]", "/gpt/dissect?spine=words", "/bert/dissect"),
    "/gpt/dissect?vs=gpt&vscut=P[3,4]#t=He%20shook%20his&v=He%20slowly%20shook%20his",
    *("/gpt/heads", "/lstm/heads", "/gpt/words", "/gpt/ledger", "/gpt/runs"),
)
LOOKS = (("light", 1280), ("light", 640), ("dark", 375))
"""Colours and widths; 640 pixels are what 200 % leave of 1,280."""


@pytest.fixture(scope="module")
def page(browser, served):
    with browser.new_context() as context:
        context.set_default_timeout(60_000)
        opened = context.new_page()
        served.open(opened)
        yield opened


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_can_be_read_by_everybody(page, served, axe, room):
    page.goto("about:blank")
    page.goto(f"{served.base}{room}")
    expect(page.locator(".page")).to_have_attribute("data-busy", "no", timeout=60_000)
    page.evaluate(axe)
    for scheme, width in LOOKS:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(RUN) == [], (scheme, width)
