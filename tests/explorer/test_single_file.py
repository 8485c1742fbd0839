"""The page as one file: opened from the disk with no network, it shows what the server would."""

import base64
import json
import re
import zlib

import numpy as np
import pytest
from playwright.sync_api import expect
from processes import shown, vesalius

import vesalius as vs
from vesalius.arguments import silent
from vesalius.explorer import snapshot
from vesalius.explorer.catalogue import entry_of
from vesalius.explorer.single_file import LIMIT
from vesalius.explorer.snapshot import keep

TEXT = "She closed the"  # not what the page begins with by itself
MINUTE = 60_000


def percent(p):
    return f"{100 * p:.1f} %"


@pytest.fixture(scope="module")
def file(browser, tmp_path_factory):  # the browser, since without a page there is no file either
    place = tmp_path_factory.mktemp("single") / "run.html"
    place.write_text("what was there before")
    told = shown("dissect", "gpt", TEXT, "--html", str(place))
    assert f"{place.stat().st_size:,} bytes; left out are" in told
    assert "two cuts at once" in told
    return place


def lines(data):
    """What a file holds, by what is asked."""
    text = zlib.decompress(data, wbits=-15).decode()
    return dict(line.split("\t", 1) for line in text.splitlines())


def test_a_file_from_the_disk_shows_the_hero_unfolds_it_and_cuts_heads(browser, file):
    assert file.stat().st_size < LIMIT
    clean = vs.dissect("gpt", TEXT)
    cut = vs.dissect("gpt", TEXT, edit={"P[3,4]": vs.zero})
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(MINUTE)
    page, complaints, asked = context.new_page(), [], set()
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.add(request.url.partition("#")[0]))
    page.goto(file.as_uri())
    hero, value = page.locator("[data-hero=probability]"), page.locator("[data-value]")
    expect(hero).to_have_text(percent(vs.attribute(clean).probability), timeout=MINUTE)
    expect(page.locator('[data-part="P[3,4]"]')).to_contain_text(
        percent(vs.attribute(cut, vs.attribute(clean).target.cells[0][0][0]).probability)
    )
    hero.click()
    head = vs.attribute(clean).target.cells[0][0]
    expect(value).to_have_text(f"{clean['Y_hat'][head]:#.4g}")
    for _ in range(4):
        name, at = re.search(r"/dissect/(\w+(?:\[[\d,]+\])?)\?at=([\d,]+)", page.url).groups()
        below = vs.unfold(clean, name, *map(int, at.split(","))).terms[0].factors
        step = next(factor for factor in below if factor.kind == "step")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(re.escape(f"/dissect/{step.name}?at=")))
        expect(value).to_have_attribute("data-full", str(np.float32(step.value)))
    page.locator('[data-part="P[3,4]"]').click()
    page.keyboard.press("x")
    expect(hero).to_have_text(
        percent(vs.attribute(cut, vs.attribute(clean).target.cells[0][0][0]).probability)
    )
    page.reload()
    expect(hero).to_have_text(
        percent(vs.attribute(cut, vs.attribute(clean).target.cells[0][0][0]).probability),
        timeout=MINUTE,
    )
    page.locator('[data-part="D[2]"]').click()
    page.keyboard.press("x")
    expect(page.get_by_role("status")).to_contain_text("this file holds one cut at a time")
    page.go_back()
    page.go_back()
    expect(page.locator("[data-hero=was]")).to_have_count(0)
    page.goto(f"{file.as_uri()}#/gpt/dissect/F[2]?at=700,1#t=She%20closed%20the")
    expect(page.locator(".missing")).to_contain_text(
        "The terms of F[2](700,1) are not in this file"
    )
    page.goto(f"{file.as_uri()}#/gpt/dissect#t=Another%20text")
    expect(page.get_by_role("alert")).to_contain_text("'vesalius explore gpt' reads others")
    context.close()
    assert complaints == []
    assert asked == {file.as_uri()}


def test_what_a_file_holds_is_what_the_server_answers(file, client):
    block = re.search(r'id="kept">([^<]*)<', file.read_text())[1]
    held = lines(base64.b64decode(block))
    ids = {}
    for key, cuts in (("run ", []), ("run P[3,4]", ["P[3,4]"])):
        wanted = {"model": "gpt", "text": TEXT, "cuts": cuts}
        ids[key] = client.post("/api/runs", json=wanted).json()["id"]
        assert json.loads(held[key])["id"] == ids[key]
    kinds = {}
    for key in held:
        run = re.search(r"\b[0-9a-f]{24}\b", key)
        if run is None or run[0] in ids.values():
            kind = re.match(r"/api/\w+(/[^/?]+(/\w+)?)?|values \w+|.*", key)[0]
            kinds.setdefault(kind, []).append(key)
    assert len(kinds) > 15
    for keys in kinds.values():
        for key in {keys[0], keys[-1]}:
            if key.startswith("/api/") and not held[key].startswith("="):
                words = "/vocabulary" in key
                path = f"{key}{'&' if '?' in key else '?'}k=3" if words else key
                answer, kept = client.get(path).json(), json.loads(held[key])
                if key == "/api/models":
                    answer = answer[:1]
                if key == "/api/models/gpt":
                    answer["text"] = TEXT
                if isinstance(answer, dict):
                    answer = {name: answer[name] for name in kept if name != "milliseconds"}
                    kept.pop("milliseconds", None)
                if words:
                    kept["words"] = kept["words"][:3]
                if "/cuts?" in key:
                    answer = [one for one in answer if one["name"] in {k["name"] for k in kept}]
                assert kept == answer, key
            elif key.startswith("values "):
                _, run, name, first = key.split(" ")
                top, left = map(int, first.split(","))
                ask = {"rows": f"{top}:{top + 256}", "columns": f"{left}:{left + 256}"}
                answer = client.get(f"/api/runs/{run}/steps/{name}", params=ask).content
                assert base64.b64decode(held[key]) == answer


def test_what_does_not_fit_is_left_out_and_told(monkeypatch):
    for name, few in {"UNFOLDED": 20, "WORDS": 2, "POSITIONS": 1}.items():
        monkeypatch.setattr(snapshot, name, few)
    entry, ids = entry_of("rnn"), [5, 3, 5]
    sizes = []
    for room in (170_000, 400_000):
        kept = keep(entry, ids, room, silent)
        sizes.append(kept.size)
        assert len(kept.whole()) <= room
        held = lines(kept.whole())
        values = {key.split(" ")[2] for key in held if key.startswith("values ")}
        told = next((said for said in kept.left if said.startswith("values of")), "")
        assert ("Z" in told) == (room < 400_000)
        assert "h[1,1]" in values
    assert sizes == sorted(sizes)
    with pytest.raises(vs.errors.WrongLength, match="give a shorter text"):
        keep(entry, ids, 10_000, silent)


def test_a_file_of_two_texts_opens_with_both(monkeypatch):
    for name in ("UNFOLDED", "WORDS", "POSITIONS"):
        monkeypatch.setattr(snapshot, name, 1)
    held = lines(keep(entry_of("bert"), ("He ran.", "It rained."), 3_000_000, silent).whole())
    model, run = json.loads(held["/api/models/bert"]), json.loads(held["run "])
    assert (model["text"], model["second"]) == ("He ran.", "It rained.")
    assert json.loads(held["about"])["second"] == "It rained."
    first = f"/api/runs/{run['id']}"
    told = json.loads(held[held[first].removeprefix("=")])  # the likeliest word was asked for too
    assert told["target"]["token"] in ("B follows A", "B does not follow A")
    assert told["segments"] == [0] * 5 + [1] * (len(told["ids"]) - 5)


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["gpt", TEXT, "--html", "/nowhere/run.html"], 3, "there is no folder /nowhere"),
        (["gpt", TEXT, "--html", "/"], 2, "is a directory"),
        (["gpt", TEXT, "--html", "run.html", "--only", "Z"], 2, "leave --only out"),
        (["rnn", "", "--html", "run.html"], 2, "at least one token"),
        (["igpt", "--ids", "16 3", "--html", "run.html"], 2, "'vesalius explore igpt' shows it"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_sentence(more, code, said):
    done = vesalius("dissect", *more)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr.splitlines()[-1]
