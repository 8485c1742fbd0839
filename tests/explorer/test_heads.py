"""Heads and gates, as the server tells and the page shows them: all numbers are the library's."""

import re
from urllib.parse import quote

import numpy as np
import pytest
from explorer.test_page import Watched, cut_to, percent
from playwright.sync_api import expect

import vesalius as vs
from vesalius.explorer.heads import shrunk

REPEATED = "He shook his head, and he shook his"
STORY = "“Where have you been?” said the old man, and he shook his head"
PAPER, SCORE = (253, 252, 249), (146, 82, 8)
BELOW, ABOVE = (106, 76, 168), (214, 108, 26)


def mixed(colour, share):
    """What colours.ts makes of a share of a colour on paper; it rounds halves up."""
    share = min(1.0, max(0.0, share))
    ends = zip(PAPER, colour, strict=True)
    return tuple(int(np.floor(a + (b - a) * share + 0.5)) for a, b in ends)


def score_colour(p):
    return mixed(SCORE, 0.92 * np.sqrt(p))


def signed_colour(t):
    return mixed(BELOW if t < 0 else ABOVE, np.sqrt(abs(t)))


def painted(canvas):
    """What is on a canvas: rows x columns x colours, read once."""
    width, height, data = canvas.evaluate(
        "c => [c.width, c.height, "
        "[...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]]"
    )
    return np.array(data).reshape(height, width, 4)


def pixel(image, x, y):
    """The colour at a share of the width and height."""
    height, width, _ = image.shape
    return tuple(image[int(y * height), int(x * width), :3].tolist())


def posted(client, model, text, cuts=()):
    return client.post("/api/runs", json={"model": model, "text": text, "cuts": list(cuts)}).json()


def number(x):
    """Four significant digits, as the page writes them."""
    digits = max(0, 3 - int(np.floor(np.log10(abs(x)))))
    return f"{x:.{digits}f}".replace("-", "−")


def test_heads_are_told_as_the_library_measures_them(client):
    run = posted(client, "gpt", REPEATED)["id"]
    told = client.get(f"/api/runs/{run}/heads").json()
    found = vs.heads("gpt", REPEATED, effects=False)
    assert [one["name"] for one in told["measures"]] == list(found.table)
    for head in told["table"]:
        for name, values in found.table.items():
            assert head[name] == values[head["layer"] - 1, head["head"] - 1]
    sprite = client.get(f"/api/runs/{run}/heads.sprite")
    shape = [int(n) for n in sprite.headers["x-shape"].split(",")]
    drawn = np.frombuffer(sprite.content, np.uint8).reshape(shape)
    trace = vs.dissect("gpt", REPEATED)
    assert shape == [4, 4, 9, 9]
    assert np.array_equal(drawn[2, 3], np.rint(255 * np.sqrt(trace["mu[3,4]"])))
    tag = {"if-none-match": sprite.headers["etag"]}
    assert client.get(f"/api/runs/{run}/heads.sprite", headers=tag).status_code == 304
    lstm = posted(client, "lstm", "He")["id"]
    assert client.get(f"/api/runs/{lstm}/heads").status_code == 422
    assert client.get(f"/api/runs/{run}/gates", params={"layer": 1}).status_code == 422


def test_a_pixel_of_a_long_text_is_the_maximum_or_the_mean_of_its_scores():
    values = np.random.default_rng(0).random((7, 7))
    for by, of in (("maximum", np.max), ("mean", np.mean)):
        small = shrunk(values, 3, by)
        assert small.shape == (3, 3)
        for r in range(3):
            for c in range(3):
                part = values[3 * r : 3 * r + 3, 3 * c : 3 * c + 3]
                assert small[r, c] == pytest.approx(of(part))


def test_units_are_held_and_gates_frozen_to_the_last_bit(client):
    edits = {
        ("c[2,*](37)",): {"c[2,*](37)": vs.zero},
        ("c[2,16](37)", "p[1,*](3)=1"): {"c[2,16](37)": 0.0, "p[1,*](3)": 1.0},
    }
    for cuts, edit in edits.items():
        run = posted(client, "lstm", STORY, cuts)["id"]
        values = client.get(f"/api/runs/{run}/steps/Y_hat").content
        assert values == vs.dissect("lstm", STORY, edit=edit)["Y_hat"].astype("<f4").tobytes()
    clean = posted(client, "lstm", STORY)["id"]
    query = {"layer": 2, "first": 32}
    told = client.get(f"/api/runs/{clean}/gates/effects", params=query).json()
    line = vs.dissect("lstm", STORY, edit={"c[2,*](37)": vs.zero})
    ((likeliest, _, _),) = vs.dissect("lstm", STORY).best(1)
    assert told[5] == pytest.approx(vs.attribute(line, likeliest).probability, abs=1e-7)
    body = {"model": "lstm", "text": "He"}
    for cut, said in (("p[2,*](31)=x", "finite number"), ("c[2,*](256)", "no cells")):
        answer = client.post("/api/runs", json={**body, "cuts": [cut]})
        assert answer.status_code == 422
        assert said in answer.json()["message"]


def test_the_atlas_shows_every_head_and_what_cutting_gives_before_and_after(browser, served):
    watched = Watched(browser, served)
    page = watched.open(f"/gpt/heads/mu[4,2]?at=8,4#t={quote(REPEATED)}")
    trace, found = vs.dissect("gpt", REPEATED), vs.heads("gpt", REPEATED)
    expect(page.locator("[data-head]")).to_have_count(16)
    entropy = f"{found.table['entropy'][3, 1]:.3f}"
    expect(page.locator("[data-measure=entropy]")).to_have_text(entropy)
    canvas = painted(page.locator('[data-head="P[4,2]"] canvas'))
    byte = round(255 * float(np.sqrt(trace["mu[4,2]"][8, 4])))
    assert pixel(canvas, 4.5 / 9, 8.5 / 9) == score_colour((byte / 255) ** 2)

    scores = page.locator("[data-scores]")
    box, image = scores.bounding_box(), painted(scores)
    for i, j in ((5, 2), (2, 1)):
        place = {"x": (j + 0.5) / 9 * box["width"], "y": (i + 0.5) / 9 * box["height"]}
        page.mouse.move(box["x"] + place["x"], box["y"] + place["y"])
        tokens = [token.replace(" ", "␣") for token in trace.tokens()]
        words = f"query {i} {tokens[i]} looks at key {j} {tokens[j]} with"
        expect(page.locator("[data-said]")).to_contain_text(words)
        expect(page.locator("[data-score]")).to_have_text(f"{trace['mu[4,2]'][i, j]:.4f}")
        colour = pixel(image, (j + 0.12) / 9, (i + 0.12) / 9)
        assert colour == score_colour(float(trace["mu[4,2]"][i, j]))
    page.locator('[data-line="key 1"]').hover()
    assert 8 <= page.locator(".list svg path").count() <= 200
    looked = page.locator('[data-line="query 8"] small')
    expect(looked).to_have_text(f"{trace['mu[4,2]'][8, 1]:.2f}")

    page.get_by_role("button", name="ranked").click()
    page.get_by_label("measure").select_option("induction")
    best = [head.name for head in found.sorted_by("induction")[:3]]
    for k, name in enumerate(best):
        expect(page.locator("[data-head]").nth(k)).to_have_attribute("data-head", name)
    page.get_by_label("measure").select_option("effect")
    head = page.locator('[data-head="P[4,1]"]')
    old = vs.dissect("gpt", REPEATED, edit={"P[4,1]": vs.zero})
    word = trace.likeliest(1)[0][0]
    expect(head.locator("b")).to_have_text(percent(vs.attribute(old, word).probability))
    page.locator('[data-head="P[3,4]"]').click()
    page.keyboard.press("x")
    cut = vs.dissect("gpt", REPEATED, edit={"P[3,4]": vs.zero})
    cut_to(page, vs.attribute(cut, word).probability)
    both = vs.dissect("gpt", REPEATED, edit={"P[3,4]": vs.zero, "P[4,1]": vs.zero})
    expect(head.locator("b")).to_have_text(percent(vs.attribute(both, word).probability))
    expect(head.locator("s")).to_have_text(percent(vs.attribute(old, word).probability))
    for key, name in (("]", "mu[4,4]"), (",", "mu[4,3]")):
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(re.escape(f"/gpt/heads/{name}?at=")))
    page.get_by_text("open in Dissect").click()
    expect(page).to_have_url(re.compile(re.escape("/gpt/dissect/mu[4,3]?at=")))
    expect(page.locator("[data-value]")).to_be_visible()
    page.keyboard.press("2")
    expect(page.locator("[data-head]")).to_have_count(16)
    watched.close()
    assert watched.complaints == []


def test_a_unit_is_followed_held_and_frozen(browser, served, client):
    watched = Watched(browser, served, permissions=["clipboard-read", "clipboard-write"])
    page = watched.open(f"/lstm/heads/c[2,16]?at=31#t={quote(STORY)}")
    trace = vs.dissect("lstm", STORY)
    gates, word = vs.gates(trace), trace.likeliest(1)[0][0]
    written = gates.written(31)

    def probability(edit):
        return vs.attribute(vs.dissect("lstm", STORY, edit=edit), word).probability

    clean = vs.attribute(trace, word).probability
    cut_to(page, clean)
    for symbol in "kdch":
        value = float(trace[f"{symbol}[2,16]"][31])
        expect(page.locator(f"[data-gate={symbol}]")).to_have_text(number(value))
    expect(page.locator("[data-written]")).to_have_text(number(written.total))
    expect(page.locator("[data-check=written]")).to_contain_text("✓ the sum over time is c, to")
    expect(page.locator("[data-now=p]")).to_have_text(number(float(trace["p[2,16]"][31])))

    canvas = page.locator("[data-ribbon=c]")
    expect(canvas).to_be_visible()
    rows = canvas.evaluate("c => c.height")
    image, run = painted(canvas), posted(client, "lstm", STORY)["id"]
    query = {"layer": 2, "order": "hold", "rows": rows}
    answer = client.get(f"/api/runs/{run}/gates.ribbons", params=query)
    shape = [int(n) for n in answer.headers["x-shape"].split(",")]
    values = np.frombuffer(answer.content, "<f4", np.prod(shape)).reshape(shape)
    units = np.frombuffer(answer.content, "<i4")[values.size :].reshape(shape)
    told = client.get(f"/api/runs/{run}/gates", params={"layer": 2}).json()["symbols"]
    k = [one["symbol"] for one in told].index("c")
    names = {one["symbol"]: one["what"] for one in told}
    gates_as_known = ("forget gate f", "input gate i", "output gate o", "candidate", "cell state")
    for symbol, name in zip("prsqc", gates_as_known, strict=True):
        assert names[symbol] == name
        expect(page.get_by_role("button", name=f"{symbol} {name}", exact=False)).to_be_visible()
    for row, token in ((3, 15), (rows - 1, 8)):
        value, unit = values[k, row, token], units[k, row, token]
        assert value == gates["c"][unit, token]
        colour = pixel(image, (token + 0.5) / 16, (row + 0.5) / rows)
        assert colour == signed_colour(float(value) / told[k]["limit"])

    box = page.locator("[data-ribbon=p]").bounding_box()
    for at in (3.5, 8.5):
        page.mouse.move(box["x"] + at / 16 * box["width"], box["y"] + 20)
        (page.mouse.down if at < 5 else page.mouse.up)()
    many = len(gates.on("p", 3, 8))
    expect(page.locator("[data-found]")).to_contain_text(f"{many} of 256 units have p ≥ 0.5")

    page.keyboard.press("x")
    cut_to(page, probability({"c[2,*](31)": vs.zero}))
    page.keyboard.press("u")
    cut_to(page, clean)
    page.get_by_label("unit", exact=True).fill("37")
    page.keyboard.press("Enter")
    page.locator("[data-unit]").click()  # letters are typed no more
    expect(page.locator("[data-unit]")).to_have_text("37")
    page.keyboard.press("X")
    cut_to(page, probability({"c[2,16](37)": vs.zero}))
    page.keyboard.press("u")
    page.keyboard.press("x")
    cut_to(page, probability({"c[2,*](37)": vs.zero}))
    page.keyboard.press("f")
    both = {"c[2,*](37)": vs.zero, "p[2,*](37)": 1.0}
    expect(page.locator("[data-cut]")).to_have_count(2)
    cut_to(page, probability(both))
    page.reload()
    cut_to(page, probability(both))
    expect(page.locator("[data-gate=d]")).to_be_visible()
    page.keyboard.press("y")
    expect(page.get_by_role("status")).to_contain_text("copied: v")
    line = page.evaluate("navigator.clipboard.readText()")
    assert "p[2,*](37)" in line
    assert eval(line, {"vs": vs}) == vs.dissect("lstm", STORY, edit=both)["c[2,16]"][37]
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile(re.escape("/lstm/heads/c[2,15]?at=37")))
    watched.close()
    assert watched.complaints == []


def test_rooms_open_for_other_families_and_on_narrow_screens(browser, served):
    narrow = {"width": 375, "height": 800}
    watched = Watched(browser, served, viewport=narrow, color_scheme="dark")
    for model, seen in (("bert", "[data-scores]"), ("rnn", "[data-gate=Wh]")):
        page = watched.open(f"/{model}/heads")
        expect(page.locator(seen)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 375
    page = watched.open("/ffnn/heads")
    expect(page.get_by_role("alert")).to_contain_text("neither heads nor gates")
    watched.close()
    assert watched.complaints == []
