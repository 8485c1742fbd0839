"""Masks, pairs, pictures, series: the page reads what the library reads, and refuses the rest."""

import io
import json
import re
import shutil
import socket
import zlib
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
from explorer.conftest import served_from
from PIL import Image
from playwright.sync_api import expect

import vesalius as vs
from vesalius.analyses.targets import find
from vesalius.data import registry
from vesalius.explorer.app import PAGE

SECONDS = 60
PAIR = ("He shook his head.", "Then he went home.")


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """With a model that has no tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "plain"
    shutil.copytree(vs.load("gpt").folder, folder)
    (folder / "tokenizer.json").unlink()
    return {"model": str(folder)}


def file_of(array, format="PNG"):
    written = io.BytesIO()
    if format == "npy":
        np.save(written, array)
    else:
        Image.fromarray(array).save(written, format)
    return written.getvalue()


def uploaded(client, model, data, name="file"):
    answer = client.post("/api/uploads", params={"model": model, "name": name}, content=data)
    return answer.json()["upload"] if answer.status_code == 200 else answer


SERIES = np.random.default_rng(1).normal(size=(12, 17)).astype(np.float32)


def test_every_kind_of_input_is_run_as_python_runs_it(client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    picture = np.random.default_rng(2).integers(0, 255, (40, 30, 3), np.uint8)
    files = {"shoe.png": ("vit", file_of(picture)), "walk.npy": ("tst", file_of(SERIES, "npy"))}
    for name, (_, data) in files.items():
        (tmp_path / name).write_bytes(data)
    keys = {m: uploaded(client, m, data, name) for name, (m, data) in files.items()}
    asked = [
        ("vit", {"example": 4, "cuts": ["P[2,3]", "D[1]"]}),
        ("vit", {"upload": keys["vit"], "invert": True}),
        ("tst", {"upload": keys["tst"], "cuts": ["P[1,3]"]}),
        ("igpt", {"example": 18, "given": 30}),
        ("bert", {"text": PAIR[0], "second": PAIR[1], "masks": [4], "cuts": ["P[2,3]"]}),
        ("bert", {"text": PAIR[0], "masks": [2, 4]}),
    ]
    for model, body in asked:
        made = client.post("/api/runs", json={"model": model, **body}).json()
        told = client.get(f"/api/runs/{made['id']}").json()
        edit = {name: lambda v: 0 * v for name in body.get("cuts", ())}
        given = f"vs.dissect({model!r}, {told['python']}, edit=edit)"
        trace = eval(given, {"vs": vs, "edit": edit or None})
        row, *column = told["target"]["at"]
        target = find(trace, row, *column)
        assert told["target"]["logit"] == target.of(trace[target.step])
        assert told["target"]["probability"] == target.probability(trace[target.step])
        assert abs(told["difference"]) < 1e-4
        assert told["tokens"] == trace.tokens()


def test_masks_hide_tokens_and_a_pair_is_judged(client):
    body = {"model": "bert", "text": PAIR[0], "second": PAIR[1], "masks": [4]}
    told = client.get(f"/api/runs/{client.post('/api/runs', json=body).json()['id']}").json()
    masked = (PAIR[0].replace("head", "[MASK]"), PAIR[1])
    trace = vs.dissect("bert", masked)
    assert told["python"] == json.dumps(masked).replace("[", "(", 1)[:-1] + ")"
    assert told["behind"] == {"4": "head"}
    assert told["hidden"]["probability"] == float(trace["Y_hat"][told["hidden"]["id"], 4])
    assert told["follows"] == pytest.approx(vs.next_sentence("bert", *masked).follows, abs=1e-6)
    assert told["segments"] == [0] * 7 + [1] * 6


def test_the_classes_of_a_picture_are_its_words(client):
    run = client.post("/api/runs", json={"model": "vit", "example": 4}).json()["id"]
    classes = vs.classify("vit", vs.example("vit", 4)).candidates
    told = client.get(f"/api/runs/{run}", params={"position": 24}).json()
    assert [w["token"] for w in told["likeliest"]] == [c.name for c in classes]
    assert (told["position"], told["label"]) == (24, "Shirt")
    found = client.get(f"/api/runs/{run}/vocabulary", params={"search": "boot"}).json()
    assert [w["token"] for w in found["words"]] == ["Ankle boot"]
    lens = client.get(f"/api/runs/{run}/lens").json()
    assert lens[-1][0]["token"] == classes[0].name
    seen = Image.open(io.BytesIO(client.get(f"/api/runs/{run}/picture").content))
    assert np.array_equal(np.asarray(seen), vs.example("vit", 4))


def test_igpt_restores_the_rest_of_a_picture_as_it_generates(client):
    body = {"model": "igpt", "example": 18, "given": 98}
    run = client.post("/api/runs", json=body).json()["id"]
    given = vs.example("igpt", 18)[:99]
    whole = [*given[1:], *vs.generate("igpt", given, seed=3).ids]
    answer = client.get(f"/api/runs/{run}/restored", params={"seed": 3})
    greys = np.asarray(Image.open(io.BytesIO(answer.content)))[:, :, 0].ravel()
    assert greys.tolist() == [round(255 * i / 15) for i in whole]
    seen = np.asarray(Image.open(io.BytesIO(client.get(f"/api/runs/{run}/picture").content)))
    assert (seen[:, :, 1].ravel() == [255] * 98 + [0] * 98).all()  # what is not given is not there


REFUSED = (
    ({"model": "vit", "text": "/etc/passwd"}, 422, "reads images"),
    ({"model": "vit", "example": 10**6}, (404, 422), "fashion-mnist"),
    ({"model": "vit", "upload": "f" * 24}, 404, "choose it once again"),
    ({"model": "vit", "upload": "../../etc/passwd"}, 404, "choose it once again"),
    ({"model": "vit", "example": 4, "masks": [3]}, 422, "no head that restores"),
    ({"model": "gpt", "example": 4}, 422, "reads text"),
    ({"model": "gpt", "text": "He", "second": "She"}, 422, "a pair of texts is for bert"),
    ({"model": "gpt", "text": "He", "masks": [0]}, 422, "restores no masked tokens"),
    ({"model": "bert", "text": "He", "masks": [0]}, 422, "token 0 is [CLS]"),
    ({"model": "bert", "text": "He", "masks": [9]}, 422, "there are 3 tokens"),
    ({"model": "igpt", "example": 4, "given": 500}, 422, "0 to 195 pixels"),
    ({"model": "bert", "text": "He", "ids": [2, 3]}, 422, "name one"),
)


def test_what_cannot_be_read_is_said_in_a_sentence(client):
    for body, status, said in REFUSED:
        answer = client.post("/api/runs", json=body)
        assert answer.status_code in np.atleast_1d(status), body
        assert said in answer.json()["message"], body


def bomb(side):
    """A small PNG that claims to be large."""
    small = file_of(np.zeros((1, 1), np.uint8))
    claimed = small[12:16] + side.to_bytes(4) + side.to_bytes(4) + small[24:29]
    return small[:12] + claimed + zlib.crc32(claimed).to_bytes(4) + small[33:]


def test_files_that_are_no_picture_or_series_are_refused(client, served):
    wrong = (
        ("vit", b"no picture", "a.txt is no image"),
        ("tst", file_of(np.zeros((9, 9), np.uint8)), "a.txt is no series"),
        ("tst", b"a,b\n1,2\n", "reads 12 channels, got 2"),
        ("tst", file_of(SERIES.T, "npy"), "transpose it"),
        ("vit", b"\x89PNG\r\n\x1a\n and no more", "a.txt cannot be read as PNG"),
        ("vit", b"", "the file is empty"),
        ("vit", bomb(10_000), "expected at most 67,108,864 in all"),
        ("igpt", bomb(30_000), "expected at most 67,108,864 in all"),
        ("gpt", b"no picture", "this gpt2 reads text, not files"),
    )
    for model, data, said in wrong:
        answer = uploaded(client, model, data, "../../a.txt")
        assert answer.status_code == 422, said
        assert said in answer.json()["message"]
        assert "/tmp" not in answer.json()["message"]
    for path, size, status in (("uploads", 17 << 20, 413), ("runs", 2 << 20, 413)):
        with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as raw:
            head = f"POST /api/{path}?model=vit HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
            raw.sendall(f"{head}{served.line}Transfer-Encoding: chunked\r\n\r\n".encode())
            part = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
            for _ in range(size >> 20):
                raw.sendall(part)
            raw.sendall(b"0\r\n\r\n")
            assert f" {status} " in raw.makefile("rb").readline().decode()


# The page ----------------------------------------------------------------------


class Visit:
    """A page of the browser, and what it complained of beside refusals."""

    def __init__(self, browser, served, **settings):
        size = {"viewport": {"width": 1280, "height": 800}}
        self.context = browser.new_context(**size | settings)
        self.context.set_default_timeout(1000 * SECONDS)
        self.page, self.served, self.complaints = self.context.new_page(), served, []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        served.open(self.page)

    def _said(self, message):
        refusal = "Failed to load resource" in message.text  # which Chromium says of each
        if message.type in ("error", "warning") and not refusal:
            self.complaints.append(message.text)

    def open(self, path):
        self.page.goto("about:blank")
        self.page.goto(f"{self.served.base}{path}")
        return self.page


@pytest.fixture
def visit(browser, served):
    expect.set_options(timeout=1000 * SECONDS)
    found = Visit(browser, served)
    yield found
    found.context.close()
    assert found.complaints == []


def hero(page, what):
    return page.locator(f"[data-hero={what}]")


def percent(p):
    return f"{100 * p:.1f} %"


def settled(page):
    page.wait_for_selector('.page[data-busy="no"]')


def test_a_token_is_masked_by_its_button_or_by_m_and_shown_again(visit):
    page = visit.open(f"/bert/dissect#t={quote(PAIR[0])}")
    page.get_by_role("button", name="mask head").click()
    trace = vs.dissect("bert", PAIR[0].replace("head", "[MASK]"))
    best = vs.attribute(trace)
    expect(hero(page, "probability")).to_have_text(percent(best.probability))
    expect(page.get_by_text("the mask hides")).to_contain_text("head")
    assert "mask=4" in page.url
    page.reload()
    expect(page.get_by_role("button", name="unmask [MASK]")).to_be_visible()
    page.keyboard.press("m")
    expect(page.get_by_text("the mask hides")).to_have_count(0)
    page.locator(".chip", has_text="shook").click()  # a click goes there and masks nothing
    expect(page).to_have_url(re.compile("after=2"))
    page.keyboard.press("m")
    expect(page.locator(".chip.masked")).to_contain_text("hides shook")
    page.keyboard.press("m")
    expect(page.locator(".chip.masked")).to_have_count(0)
    page.keyboard.press("/")
    page.get_by_label("second text").fill(PAIR[1])
    page.keyboard.press("Enter")
    follows = vs.next_sentence("bert", *PAIR).follows
    answer = ("B follows A", follows) if follows > 0.5 else ("B does not follow A", 1 - follows)
    expect(hero(page, "word")).to_have_text(answer[0])
    expect(hero(page, "probability")).to_have_text(percent(answer[1]))
    expect(page.locator(".segment")).to_have_text(["A", "B"])
    assert page.url.endswith(f"#t={quote(PAIR[0])}&b={quote(PAIR[1])}")
    page.locator(".chip", has_text="shook").click()  # what stands there, and the way back
    expect(hero(page, "word")).not_to_have_text(re.compile("follow"))
    expect(hero(page, "follows")).to_have_text(f"B follows A: {percent(follows)}")
    hero(page, "follows").get_by_role("button").click()
    expect(page).to_have_url(re.compile(re.escape("/dissect/y_hat_C?at=0#")))
    expect(hero(page, "word")).to_have_text(answer[0])
    page = visit.open("/bert/dissect#t=" + "He%20went%20home.%20" * 60)
    page.get_by_text("read the last 128 tokens").click()
    expect(hero(page, "probability")).to_contain_text("%")  # they fit, [CLS] and [SEP] too


def test_a_picture_is_chosen_looked_at_and_brought(visit, tmp_path):
    page = visit.open("/vit/dissect?example=4")
    trace = vs.dissect("vit", vs.example("vit", 4))
    expect(hero(page, "word")).to_have_text("Shirt")
    expect(hero(page, "probability")).to_have_text(percent(trace.classes(1)[0][2]))
    expect(page.get_by_text("it is labelled")).to_contain_text("✓")
    page.goto(f"{visit.served.base}/vit/dissect/mu[2,1]?example=4&after=24")
    expect(page.locator("[data-value]")).to_be_visible()
    settled(page)
    best = int(trace["mu[2,1]"][24, 1:].argmax())
    size = 136 / 7
    x, y = (size * (best % 7 + 0.5), size * (best // 7 + 0.5))
    script = "([x, y]) => [...document.querySelector('figure canvas').getContext('2d')"
    colour = page.evaluate(f"{script}.getImageData(x, y, 1, 1).data]", [int(x), int(y)])
    assert np.allclose(colour, (232, 160, 66, 0.78 * 255), atol=3)  # full where it looks most
    page.keyboard.press("/")
    page.get_by_role("dialog").get_by_text("Sandal").click()
    expect(hero(page, "word")).to_have_text("Sandal")
    file = tmp_path / "grey.png"
    file.write_bytes(file_of(np.full((20, 30), 90, np.uint8)))
    page.keyboard.press("/")
    page.set_input_files("input[type=file]", file)
    expect(page.get_by_text("grey.png · resized from 30 x 20 to 28 x 28")).to_be_visible()
    expect(page).to_have_url(re.compile("upload=[0-9a-f]{24}"))
    page.reload()
    expect(hero(page, "word")).to_have_text(vs.classify("vit", str(file)).name)
    (tmp_path / "words.png").write_text("no picture at all")
    page.keyboard.press("/")
    page.set_input_files("input[type=file]", tmp_path / "words.png")
    expect(page.get_by_role("alert")).to_contain_text("words.png is no image")
    page.get_by_text("back to what was read").click()
    expect(hero(page, "probability")).to_be_visible()


def test_pixels_are_gone_on_with_and_a_series_is_drawn(visit, client):
    page = visit.open("/igpt/dissect?example=18&given=98")
    odds = vs.dissect("igpt", vs.example("igpt", 18)[:99])["Y_hat"][:, -1]
    expect(hero(page, "probability")).to_have_text(percent(odds.max()))
    restored = page.get_by_alt_text("what the model restores")
    expect(page.locator(".waiting")).to_have_count(0)
    assert restored.evaluate("image => image.naturalWidth") == 14
    page.get_by_label(re.compile("^given")).fill("42")
    expect(page.get_by_text("given: 42")).to_be_visible()
    expect(page).to_have_url(re.compile("given=42"))
    key = uploaded(client, "tst", file_of(SERIES, "npy"), "walk.npy")
    page = visit.open(f"/tst/dissect?upload={key}")
    _, _, likely = vs.dissect("tst", SERIES).classes(1)[0]
    expect(hero(page, "probability")).to_have_text(percent(likely))
    expect(page.locator("figure path")).to_have_count(12)
    expect(page.locator("figure rect")).to_have_count(17)
    expect(page.locator(".chip")).to_have_count(17)  # padding is no input
    page.locator(".chip").nth(3).click()
    expect(page.get_by_text("looks from time 4")).to_be_visible()
    assert urlsplit(page.url).query.count("after=3") == 1


def test_patches_of_a_forecast_are_named_and_marked_where_they_lie(browser, servers, tmp_path):
    settings = {"context": 12, "horizon": 3, "patch": 4, "stride": 2, "layers": 1, "heads": 2}
    model = vs.create("patchtst", **settings, embedding=8, feedforward=8, channels=2)
    model.preprocessing = {"channels": ["load", "price"], "mean": [0, 0], "std": [1, 1]}
    model.save(tmp_path / "forecast")
    served = servers(model=str(tmp_path / "forecast"))
    with served.client() as client:
        data = file_of(np.random.default_rng(0).random((2, 12)), "npy")
        key = uploaded(client, "forecast", data, "a.npy")
    expect.set_options(timeout=1000 * SECONDS)
    visit = Visit(browser, served)
    page = visit.open(f"/forecast/dissect?upload={key}")
    expect(hero(page, "word")).to_have_text("load")
    expect(page.locator("h1")).to_contain_text("step 1, +1:")
    expect(page.get_by_text("12 of 12")).to_be_visible()
    expect(page.locator(".chip")).to_have_count(12)
    page.locator(".chip").nth(7).click()
    expect(hero(page, "word")).to_have_text("price")
    expect(page.get_by_text("looks from patch 2 of price, times 3 to 6 most")).to_be_visible()
    expect(page.get_by_label("patch 2 of price, times 3 to 6")).to_have_class(re.compile("current"))
    wide = page.locator("figure svg").evaluate("svg => svg.viewBox.baseVal.width")
    marks = [float(line.get_attribute("x1")) for line in page.locator("figure .patch").all()]
    gutter, times = 58, 12 + 3  # numbers beside the axis; what was and what is to come
    assert marks == pytest.approx([gutter + (wide - gutter) * k / times for k in (2, 6)])
    expect(page.locator("figure rect")).to_have_count(6)  # of its own channel
    page.locator("figure button").click(position={"x": 60, "y": 20})
    expect(page.get_by_text("looks from patch 1 of price, times 1 to 4 most")).to_be_visible()
    visit.context.close()
    assert visit.complaints == []


HOURS, BACK, AHEAD = 400, 48, 12


@pytest.fixture(scope="module")
def hourly():
    """A series of two channels, each in a unit of its own."""
    day = np.sin(2 * np.pi * np.arange(HOURS) / 24)[:, None]
    return day * [30, 2] + [500, 20] + np.random.default_rng(1).normal(size=(HOURS, 2))


@pytest.fixture(scope="module")
def forecaster(tmp_path_factory, hourly):
    """A small model that forecasts, and a folder of data with the corpus that its recipe names."""
    folder = tmp_path_factory.mktemp("forecaster")
    settings = {"context": BACK, "horizon": AHEAD, "patch": 8, "stride": 8, "layers": 1}
    model = vs.create("patchtst", **settings, heads=2, embedding=8, feedforward=8, channels=2)
    widths = {str(level): np.full((AHEAD, 2), level).tolist() for level in (0.5, 0.8, 0.9, 0.95)}
    model.preprocessing = {
        "channels": ["load", "price"],
        "mean": [500, 20],
        "std": [20, 2],
        "recipe": {"seed": 1, "data": {"corpus": "national-illness"}},
        "intervals": widths,
    }
    model.save(folder / "hourly")
    (file,) = registry.corpus("national-illness").files
    rows = [f"{_hour(i)},{load:.4f},{price:.4f}" for i, (load, price) in enumerate(hourly)]
    body = ",load,price\n" + "\n".join(rows) + "\n"
    name = "when".ljust(file.forms[0].size - len(body), "_")  # the registry knows files by size
    (folder / file.path).parent.mkdir()
    (folder / file.path).write_text(name + body)
    return folder


def _hour(i):
    return f"2024-01-{i // 24 + 1:02} {i % 24:02}:00:00"


@pytest.fixture(scope="module")
def forecasting(forecaster):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VESALIUS_DATA", str(forecaster))
        with served_from(PAGE, model=str(forecaster / "hourly")) as served:
            yield served


def test_a_model_that_forecasts_is_given_windows_of_its_own_corpus(forecasting, forecaster, hourly):
    first = HOURS - HOURS // 5  # the last fifth is to test on
    with forecasting.client() as client:
        about = client.get("/api/models/hourly").json()
        assert (about["corpus"], about["begins"]) == ("national-illness", 0)
        assert about["more"] == HOURS - first - AHEAD + 1
        assert about["examples"][0] == {"number": 0, "label": _hour(first)[:-3]}
        body = {"model": "hourly", "example": 5}
        run = client.post("/api/runs", json=body).json()["id"]
        told = client.get(f"/api/runs/{run}/forecast", params={"channel": 1}).json()
        target = client.get(f"/api/runs/{run}", params={"word": AHEAD + 3}).json()
        cut = client.post("/api/runs", json=body | {"cuts": ["P[1,1]"]}).json()["id"]
        ablated = client.get(f"/api/runs/{cut}/forecast").json()
        refused = client.get(f"/api/runs/{run}/forecast", params={"channel": 2})
    past, future = hourly[first + 5 - BACK : first + 5], hourly[first + 5 : first + 5 + AHEAD]
    found = vs.forecast(str(forecaster / "hourly"), past.round(4).T)
    assert told["past"] == pytest.approx(past[:, 1], abs=1e-3)
    assert told["follows"] == pytest.approx(future[:, 1], abs=1e-3)
    assert told["values"] == pytest.approx(found.values[:, 1], rel=1e-5)
    assert told["ends"][0] == pytest.approx(found.lower[:, 1], rel=1e-5)
    assert told["ends"][1] == pytest.approx(found.upper[:, 1], rel=1e-5)
    assert told["after"] == [_hour(first + 5 + k)[:-3] for k in range(AHEAD)]
    assert (len(told["before"]), told["before"][-1]) == (BACK, _hour(first + 4)[:-3])
    assert target["target"]["token"] == "step 4, price"
    assert target["forecast"]["value"] == pytest.approx(found.values[3, 1], rel=1e-5)
    assert target["likeliest"][0]["token"] == "step 1, load"
    assert target["likeliest"][0]["value"] == pytest.approx(found.values[0, 0], rel=1e-5)
    assert ablated["ends"] is None  # intervals are of the model as it is
    assert refused.status_code == 422
    assert "channels 0 to 1, got 2" in refused.json()["message"]


def test_the_example_of_a_forecast_is_read_by_python_too(forecaster, hourly, monkeypatch):
    monkeypatch.setenv("VESALIUS_DATA", str(forecaster))
    values = vs.example(str(forecaster / "hourly"), 5)
    start = HOURS - HOURS // 5 + 5
    assert values == pytest.approx(hourly[start - BACK : start].T, abs=1e-3)


def test_a_forecast_is_drawn_in_its_own_units(browser, forecasting, forecaster, hourly):
    expect.set_options(timeout=1000 * SECONDS)
    visit = Visit(browser, forecasting)
    page = visit.open("/hourly/dissect")
    first = HOURS - HOURS // 5
    past = hourly[first - BACK : first].round(4).T
    found = vs.forecast(str(forecaster / "hourly"), past)
    value, lower, upper = (f"{a[0, 0]:.1f}" for a in (found.values, found.lower, found.upper))
    expect(hero(page, "word")).to_have_text("load")
    expect(hero(page, "probability")).to_have_text(value)
    expect(hero(page, "interval")).to_have_text(f"90 % from {lower} to {upper}")
    for line in ("past", "forecast", "interval", "followed"):
        expect(page.locator(f"[data-line={line}]")).to_have_count(1)
    expect(page.locator("[data-target-step='0']")).to_have_count(1)
    wide = page.locator("figure svg").evaluate("svg => svg.viewBox.baseVal.width")
    seventh = 58 + (wide - 58) * (BACK + 6.5) / (BACK + AHEAD)
    page.locator("figure button").click(position={"x": seventh, "y": 60})
    expect(page.locator("[data-target-step='6']")).to_have_count(1)
    expect(hero(page, "probability")).to_have_text(f"{found.values[6, 0]:.1f}")
    settled(page)
    page.keyboard.press("x")
    expect(hero(page, "was")).to_have_text(f"was {found.values[6, 0]:.1f}")
    expect(page.locator("[data-line=interval]")).to_have_count(0)
    visit.context.close()
    assert visit.complaints == []


def test_a_model_of_masks_that_is_given_none_reads_its_first_word(visit):
    page = visit.open(f"/bert/dissect#t={quote(PAIR[0])}")
    expect(page.locator(".chip.current")).to_have_text("he")
    trace = vs.dissect("bert", PAIR[0])
    word = trace.likeliest(1, 1)[0]
    expect(hero(page, "word")).to_have_text(word[1])
    expect(page.get_by_text("no word is hidden")).to_be_visible()
    page.get_by_role("button", name="hide he").click()
    expect(page.locator(".chip.masked")).to_contain_text("hides he")


def test_what_the_text_bar_cannot_read_has_a_state_of_its_own(visit):
    page = visit.open("/vit/dissect?upload=" + "0" * 24)
    expect(page.get_by_role("alert")).to_contain_text("not kept here any more")
    page.get_by_text("choose the file again").click()
    expect(page.get_by_role("dialog")).to_contain_text("A picture for vit to read")
    page.keyboard.press("Escape")
    page.get_by_text("begin anew").click()
    expect(hero(page, "word")).to_have_text("Shirt")
    page = visit.open("/plain/dissect#t=4%20100000")
    expect(page.get_by_role("alert")).to_contain_text("100000 at position 1 is outside")
    page = visit.open("/plain/dissect#t=" + "4%20" * 300)
    expect(page.get_by_role("alert")).to_contain_text("300")
    page.get_by_text("read the last 256 tokens").click()
    expect(hero(page, "probability")).to_contain_text("%")
    page.keyboard.press("/")
    page.get_by_label("text", exact=True).fill("4 eight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("got 'eight'")
    page = visit.open("/plain/dissect#t=4%208%2015")
    expect(hero(page, "probability")).to_contain_text("%")
    page = visit.open("/gpt/dissect/Q[9,9]#t=He%20shook%20his")
    expect(page.get_by_role("status")).to_contain_text("Q[9,9] is no step of this run")
    for text in ("彼は首を横に振った。", "Привет 👑 family 👩‍👩‍👧‍👦", "A" + "long" * 60 + " word"):
        page.keyboard.press("/")
        page.get_by_label("text", exact=True).fill(text)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(re.escape(f"#t={quote(text, safe='')}")))
        settled(page)
        expect(hero(page, "probability")).to_contain_text("%")
        assert page.evaluate("document.documentElement.scrollWidth") == 1280
        if text.startswith("П"):  # tokens that are bytes of a letter say of which
            expect(page.locator(".chip i").first).to_have_text("П")
