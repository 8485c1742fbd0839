"""Two runs side by side: what the page shows of both is what the library gives."""

import json
import re
import shlex

import numpy as np
import pytest
from explorer.test_exports import taken
from explorer.test_page import Watched, first_head, first_place, hero, likeliest, percent
from playwright.sync_api import expect
from processes import vesalius

import vesalius as vs

A, B, LONGER = "He shook his", "He opened his", "He slowly shook his"


@pytest.fixture(scope="module")
def traces():
    return {text: vs.dissect("gpt", text) for text in (A, B, LONGER)}


@pytest.fixture(scope="module")
def run(client):
    def made(text, **more):
        body = {"model": "gpt", "text": text, **more}
        answer = client.post("/api/runs", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["id"]

    return made


def test_the_server_tells_what_the_library_does(client, run, traces):
    a, b, longer = run(A), run(B), run(LONGER)
    below = f"/api/runs/{a}/against/{b}"
    told = client.get(below).json()
    found = vs.diff("gpt", "gpt", A, text_b=B)
    assert told["steps"] == json.loads(json.dumps([one.to_json() for one in found.steps]))
    assert told["furthest"] == max(found.steps, key=lambda one: one.share).name
    assert told["first"] == found.first_divergence.name
    assert told["kl"] == [one.kl for one in found.outcomes]
    data = client.get(f"{below}/steps/mu[3,4]").content
    change = traces[B]["mu[3,4]"] - traces[A]["mu[3,4]"]
    assert np.array_equal(np.frombuffer(data, "<f4").reshape(3, 3), change)
    word = traces[A].likeliest(1)[0][0]
    target = client.get(f"{below}/parts?word={word}").json()
    ours, theirs = (vs.attribute(traces[text], word) for text in (A, B))
    assert target["target"]["b"] == {"logit": theirs.value, "probability": theirs.probability}
    for part in target["parts"]:
        assert (part["a"], part["b"]) == (ours[part["name"]], theirs[part["name"]])
        assert part["difference"] == part["b"] - part["a"]
    words = client.get(f"{below}/words?by=change&k=3").json()["words"]
    far = (traces[B]["Y_hat"] - traces[A]["Y_hat"])[:, -1]
    assert [one["id"] for one in words] == np.argsort(-abs(far), kind="stable")[:3].tolist()
    assert words[0]["b"]["value"] == pytest.approx(traces[B]["Y_hat"][words[0]["id"], -1], rel=1e-5)
    sprite = client.get(f"{below}/heads.sprite")
    pixels = np.frombuffer(sprite.content, np.uint8).reshape(4, 4, 3, 3)
    root = np.sign(change) * np.sqrt(abs(change))
    assert np.array_equal(pixels[2, 3], np.rint(128 + 127 * root))
    told = client.get(f"/api/runs/{longer}/against/{a}?position=3").json()
    assert told["pairs"] == [0, None, 1, 2]
    assert told["position"] == {"a": 3, "b": 2}
    data = client.get(f"/api/runs/{longer}/against/{a}/steps/H[2]?rows=4:6").content
    laid = np.frombuffer(data, "<f4").reshape(2, 4)
    assert np.isnan(laid[:, 1]).all()
    some = traces[A]["H[2]"][4:6] - traces[LONGER]["H[2]"][4:6, [0, 2, 3]]
    assert np.array_equal(laid[:, [0, 2, 3]], some)


def test_values_of_the_other_run_are_put_into_this_one(client, run, traces):
    a, b = run(A), run(B)
    below = f"/api/runs/{a}/against/{b}/patches"
    word = traces[A].likeliest(1)[0][0]
    steps = {"P[3,4]": ("parts", 3), "D[1]": ("parts", 1), "H[2]@1": ("states", 2)}
    for name, (kind, layer) in steps.items():
        edit = {name: vs.from_trace(traces[B])}
        whole = vs.dissect("gpt", A, edit=edit)
        patched = run(A, patches=[name], source=b)
        data = client.get(f"/api/runs/{patched}/steps/Y_hat").content
        assert np.array_equal(np.frombuffer(data, "<f4"), whole["Y_hat"].ravel())
        told = client.get(below, params={"layer": layer, "kind": kind}).json()
        found = next(one for one in told if one["name"] == name)
        likely = vs.attribute(whole, word).probability
        assert found["probability"] == pytest.approx(likely, rel=1e-6)
        back = client.get(below.replace(a, patched), params={"layer": layer, "kind": kind}).json()
        clean = vs.attribute(traces[A], word).probability
        undone = next(one for one in back if one["name"] == name)
        assert undone["probability"] == pytest.approx(clean, rel=1e-6)
    longer = run(LONGER)
    data = client.get(f"/api/runs/{run(A, patches=['D[2]'], source=longer)}/steps/Y_hat").content
    edit = {"D[2]": vs.from_trace(traces[LONGER], {0: 0, 1: 2, 2: 3})}
    whole = vs.dissect("gpt", A, edit=edit)["Y_hat"].ravel()
    assert np.array_equal(np.frombuffer(data, "<f4"), whole)
    refused = client.post("/api/runs", json={"model": "gpt", "text": A, "patches": ["D[2]"]})
    assert refused.status_code == 422
    assert "say its id as the source" in refused.json()["message"]


def test_effects_of_patches_are_told_of_the_likeliest_word_without_them(client, run, traces):
    a = run(A)
    word = traces[A].likeliest(1)[0][0]
    for text in (B, "Once upon a", "It was very", "I went to"):  # one of them has another word
        b = run(text)
        patched = run(A, patches=["H[4]@2"], source=b)
        if client.get(f"/api/runs/{patched}").json()["likeliest"][0]["id"] != word:
            break
    else:
        pytest.fail("every text has the same likeliest word")
    below = f"/api/runs/{patched}/against/{b}"
    for path in ("patches?layer=4&kind=parts&", "patches?layer=4&kind=states&", "parts?"):
        unsaid, said = (client.get(f"{below}/{path}{more}") for more in ("", f"word={word}"))
        assert unsaid.json() == said.json()
    whole = client.get(f"{below}/patches?layer=4&kind=states").json()
    undone = next(one for one in whole if one["name"] == "H[4]@2")
    clean = client.get(f"/api/runs/{a}").json()["target"]["probability"]
    assert undone["probability"] == pytest.approx(clean, rel=1e-6)


SAME = "#t=He%20shook%20his&v=He%20opened%20his"


@pytest.fixture
def watched(browser, served):
    found = Watched(browser, served, permissions=["clipboard-read", "clipboard-write"])
    yield found
    found.close()
    assert found.complaints == []


def four(number):
    """Four significant digits, with the page's minus."""
    return f"{number:#.4g}".replace("-", "−")


def shown(page, what):
    return page.locator(f"[data-cell={what}]")


def test_a_walk_by_keyboard_through_two_texts(watched, traces, served):
    page, head = watched.page, first_head()
    scores = head.replace("P", "mu")
    clean, other = (vs.attribute(traces[text], likeliest()[0]).probability for text in (A, B))
    expect(hero(page, "probability")).to_have_text(percent(clean))
    page.keyboard.press("v")
    page.get_by_label("text of the other run").fill(B)
    page.keyboard.press("Enter")
    expect(hero(page, "other")).to_have_text(percent(other))
    assert page.url.endswith(f"/gpt/dissect/{first_place()}&vs=gpt{SAME}")
    a, b = (traces[text][scores] for text in (A, B))
    expect(shown(page, "difference")).to_have_text(four(b[2, 1] - a[2, 1]))
    page.keyboard.press("ArrowLeft")
    expect(shown(page, "difference")).to_have_text(four(b[2, 0] - a[2, 0]))
    parts = {part.name: part.share for part in vs.attribute(traces[A], likeliest()[0]).parts}
    change = vs.attribute(traces[B], likeliest()[0])[head] - parts[head]
    cell = page.locator(f'[data-part="{head}"]')
    expect(cell.locator("b")).to_have_text(f"{change:+.2f}".replace("-", "−"))
    patched = vs.dissect("gpt", A, edit={head: vs.from_trace(traces[B])})
    likely = vs.attribute(patched, likeliest()[0]).probability
    expect(cell).to_contain_text(f"from B → {percent(likely)}")
    word = page.locator(f"[data-word='{traces[A].likeliest(1)[0][0]}']")
    expect(word).to_contain_text(percent(clean))
    expect(word).to_contain_text(percent(other))

    page.keyboard.press("p")  # the head is taken from B
    expect(hero(page, "probability")).to_have_text(percent(likely))
    expect(page).to_have_url(re.compile(re.escape(f"&from={head}#")))
    page.keyboard.press("y")
    expect(page.get_by_role("status")).to_contain_text("copied: vs.dissect")
    line = page.evaluate("navigator.clipboard.readText()")
    assert eval(line) == b[2, 0] - patched[scores][2, 0]
    page.keyboard.press("u")
    expect(hero(page, "probability")).to_have_text(percent(clean))

    page.keyboard.press("x")  # cut in both
    ablated = [vs.dissect("gpt", text, edit={head: vs.zero}) for text in (A, B)]
    cut = [vs.attribute(trace, likeliest()[0]).probability for trace in ablated]
    expect(hero(page, "probability")).to_have_text(percent(cut[0]))
    expect(hero(page, "other")).to_have_text(percent(cut[1]))
    assert f"cut={head}&vs=gpt&vscut={head}" in page.url
    page.keyboard.press("b")
    expect(page.locator("[data-which]")).to_have_text("A")
    page.keyboard.press("b")
    expect(page.locator("[data-which]")).to_have_text("B")
    expect(hero(page, "probability")).to_have_text(percent(cut[1]))
    expect(page.locator("[data-value]")).to_have_text(four(b[2, 0]))
    address = page.url
    page.reload()
    expect(hero(page, "probability")).to_have_text(percent(cut[1]))
    expect(hero(page, "other")).to_have_text(percent(cut[0]))
    assert page.url == address
    page.go_back()
    page.go_back()
    expect(page.locator("[data-which]")).to_have_text("B − A")
    page.keyboard.press("u")
    expect(hero(page, "other")).to_have_text(percent(other))


def test_steps_are_ranked_and_commands_give_the_same_number(watched, traces):
    page = watched.open(f"/gpt/dissect/mu[3,4]?at=2,1&spine=steps&vs=gpt&cut=P[1,2]{SAME}")
    edit = {"P[1,2]": vs.zero}
    found = vs.diff("gpt", "gpt", A, text_b=B, edit_a=edit)
    far = max(found.steps, key=lambda one: one.share)
    expect(page.locator("[data-furthest-step]")).to_have_text(far.name.replace("Y_hat", "Ŷ"))
    page.keyboard.press("Y")
    expect(page.get_by_role("status")).to_contain_text("copied: vesalius diff")
    line = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    told = json.loads(vesalius(*line[1:], "--json").stdout)
    assert told["difference"] == found.at("mu[3,4]", 2, 1).difference
    rows = taken(page, "how far B is from A, step by step", "CSV")[1].decode().splitlines()
    assert "B − A · A: gpt, “He shook his”, P[1,2] cut · B: gpt, “He opened his”" in rows[0]


def test_other_lengths_other_models_and_what_cannot_be_compared(browser, served, traces):
    clean = vs.attribute(traces[A]).probability
    watched = Watched(browser, served)
    longer = "#t=He%20shook%20his&v=He%20slowly%20shook%20his"
    page = watched.open(f"/gpt/dissect/mu[3,4]?at=2,1&vs=gpt{longer}")
    bar = page.get_by_label("the other run")
    expect(bar).to_contain_text("A has 3 tokens and B 4: 3 of each belong together")
    change = traces[LONGER]["mu[3,4]"][3, 2] - traces[A]["mu[3,4]"][2, 1]
    expect(shown(page, "difference")).to_have_text(four(change))
    page.get_by_role("group", name="which run is shown").get_by_role(
        "button", name="B", exact=True
    ).click()
    expect(page).to_have_url(re.compile(re.escape("mu[3,4]?at=3,2&")))
    expect(page.locator("[data-value]")).to_have_text(four(traces[LONGER]["mu[3,4]"][3, 2]))
    page = watched.open("/gpt/dissect/mu[3,4]?at=2,1&vs=bert#t=He%20shook%20his")
    expect(bar).to_contain_text("words of the one are not words of the other")
    expect(hero(page, "probability")).to_have_text(percent(clean))
    page = watched.open("/gpt/dissect/mu[3,4]?at=2,1&vs=vit#t=He%20shook%20his")
    expect(bar.get_by_role("alert")).to_contain_text("gpt reads text and vit reads images")
    expect(hero(page, "probability")).to_have_text(percent(clean))
    bar.get_by_label("stop comparing").click()
    expect(bar).to_have_count(0)
    page = watched.open("/vit/heads?vs=vit&vsexample=1")
    expect(hero(page, "other")).to_contain_text("%")
    expect(page.locator("[data-scores]")).to_be_visible()
    watched.close()
    assert all("Failed to load resource" in one for one in watched.complaints)
