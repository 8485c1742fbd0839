"""Words, Ledger and Runs: what the server tells is the library's, and a walk through each room."""

import json
import re
import shutil
import signal
import subprocess
import sys
from urllib.parse import quote

import numpy as np
import pytest
from explorer.conftest import Served
from playwright.sync_api import expect

import vesalius as vs
from vesalius.errors import UnknownModel
from vesalius.explorer import catalogue, training
from vesalius.explorer.catalogue import Entry
from vesalius.explorer.training import Trainings, metrics
from vesalius.training.callbacks import METRICS
from vesalius.training.recipe import recipe

TEXT = "He shook his"
START = "#t=He%20shook%20his"
SECONDS = 60
expect.set_options(timeout=1000 * SECONDS)
RECIPE = {
    "title": "a moment of stories",
    "family": "gpt2",
    "objective": "next-token",
    "seed": 3,
    "model": {"layers": 1, "heads": 2, "embedding": 8, "context": 8, "dropout": 0.0},
    "data": {"corpus": "stories", "words": 2000, "tokenizer": "words"},
    "training": {"steps": 8, "batch": 2, "warmup": 2, "evaluate_every": 4, "validate_on": 4}
    | {"save_every": 4, "log_every": 1, "sample_every": 4, "prompt": "the", "learning_rate": 1e-2},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a training run in it."""
    found = tmp_path_factory.mktemp("runs")
    vs.train(recipe(RECIPE), found / "small")
    return found


@pytest.fixture(scope="module")
def served(folder):
    """The command, as one starts it."""
    command = [sys.executable, "-m", "vesalius", "explore", "--runs", str(folder), "--no-browser"]
    process = subprocess.Popen(
        [*command, "--port", "0", "--json"], stdout=subprocess.PIPE, text=True
    )
    said = json.loads(process.stdout.readline())
    yield Served.at(said)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS)


@pytest.fixture(scope="module")
def client(served):
    with served.client() as opened:
        yield opened


@pytest.fixture(scope="module")
def page(browser, served):
    """A page of the browser; all that it complains of is collected."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(1000 * SECONDS)
    opened, complaints = context.new_page(), []
    opened.on("console", lambda m: complaints.append(m.text) if m.type != "log" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    served.open(opened)
    yield opened
    context.close()
    refused = "Failed to load resource"  # which Chromium says of every refusal
    assert [one for one in complaints if refused not in one] == []


def entered(page, served, path):
    page.goto("about:blank")
    page.goto(served.base + path)
    return page


# Ledger ----------------------------------------------------------------------


def test_settings_are_changed_as_the_command_line_does(client):
    query = [("set", "layers=6"), ("set", "heads=8"), ("set", "tied=false")]
    told = client.get("/api/models/gpt/ledger", params=[*query, ("length", "64"), ("batch", "4")])
    found = vs.count("gpt", layers=6, heads=8, tied=False)
    costs = vs.cost("gpt", 64, 4, layers=6, heads=8, tied=False)
    told = told.json()
    assert (told["total"], told["also"]) == (found.total, found.also)
    assert told["cost"]["training_bytes"]["total"] == sum(costs.memory.values())
    assert told["cost"]["decode_state"]["all"] == 64 * 4 * costs.decode_state[1]
    attention = told["parts"][3]["parts"][0]["parts"][0]
    assert attention["formula"].startswith(r"2\,M\,d_{e}\,(d_{k} + d_{v})")
    assert attention["numbers"].startswith(r"2 \times 8 \times 256 \times (32 + 32)")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"set": "heads=5"}, "256 cannot be divided among 5 heads"),
        ({"set": "layers=-1"}, "layers must be at least 1, got -1"),
        ({"set": "layers=many"}, "layers must be a whole number, got 'many'"),
        ({"set": "layer=2"}, "unknown setting 'layer'; did you mean layers, labels?"),
        ({"set": "heads"}, "a change is NAME=VALUE, as in heads=8; got 'heads'"),
        ({"set": "vocabulary=1000000000"}, "vocabulary must be below 1,000,000,000 here"),
        ({"length": "257"}, "the model has 256 positions, got length 257"),
        ({"batch": "0"}, "batch must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_is_said(client, query, sentence):
    answer = client.get("/api/models/gpt/ledger", params=query)
    assert answer.status_code == 422
    assert sentence in answer.json()["message"]


def test_a_walk_through_the_ledger(page, served):
    entered(page, served, "/gpt/ledger")
    shown = page.locator("[data-total]")
    expect(shown).to_have_text(f"{vs.count('gpt').total:,}")
    page.locator('[data-tile="Φ/Φ[l]#1/Γ[l]"], [data-tile="Φ/Φ[l]#1/Φ/Φ[l]/Γ[l]"]').first.click()
    part = page.locator("[data-part-of]")
    expect(part.locator("[data-sum]")).to_have_text("263,168")
    expect(part.locator(".katex").nth(1)).to_be_visible()
    expect(page).to_have_url(re.compile(re.escape("part=" + quote("Φ/Φ[l]/Γ[l]", safe="[]"))))
    page.go_back()
    expect(part).to_have_count(0)
    page.get_by_label("layers", exact=True).fill("6")
    page.get_by_label("layers", exact=True).press("Enter")
    expect(shown).to_have_text(f"{vs.count('gpt', layers=6).total:,}")
    page.get_by_label("heads", exact=True).fill("5")
    page.get_by_label("heads", exact=True).press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("cannot be divided among 5 heads")
    assert page.url.endswith("/gpt/ledger?set=layers:6,heads:5" + START)
    page.get_by_text("as it is").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    entered(page, served, "/gpt/ledger?set=layers=0")  # as the command line writes it
    expect(page.get_by_role("alert")).to_contain_text("layers must be at least 1, got 0")
    page.get_by_text("as it is").click()
    page.get_by_label("batch, by rungs").fill("3")
    forward = vs.cost("gpt", batch=8).forward
    expect(page.locator("[data-forward]")).to_have_attribute("data-forward", str(forward))


# Words -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt", "bert", "ffnn", "rnn", "lstm"])
def test_words_are_told_as_the_library_gives_them(client, name):
    told = client.get(f"/api/models/{name}/words").json()
    model = vs.load(name)
    size = model.tokenizer.size
    assert told["tokens"] == [model.tokenizer.piece(i) for i in range(size)]
    assert len(told["kinds"]) == size
    word = 300
    near = client.get(f"/api/models/{name}/words/{word}", params={"k": 7}).json()
    for distance in ("cosine", "euclidean"):
        found = vs.neighbours(model, word, 7, distance)
        assert near[distance] == [one.to_json() for one in found]
    if name in ("ffnn", "gpt"):
        pairs = [(295, 494)] if name == "ffnn" else []
        query = [("axis", f"{a},{b}") for a, b in pairs]
        answer = client.get(f"/api/models/{name}/words/points", params=query)
        points = np.frombuffer(answer.content, "<f4").reshape(size, 3)
        assert np.array_equal(points, vs.project(model, *pairs).points.astype(np.float32))


def test_tokenizers_stand_side_by_side_and_states_beside_static_vectors(client):
    cuts = client.post("/api/tokenizers", json={"text": TEXT, "model": "small@4"}).json()
    by_model = {name: cut for cut in cuts for name in cut["models"]}
    for name in ("gpt", "bert", "lstm"):
        ids = vs.load(name).tokenizer.encode_many([TEXT], framed=False)[0]
        assert [token["id"] for token in by_model[name]["tokens"]] == ids
        assert by_model[name]["count"] == len(ids)
    assert "none of the" in by_model["small@4"]["problem"] or by_model["small@4"]["count"]
    run = client.post("/api/runs", json={"model": "gpt", "text": TEXT}).json()["id"]
    told = client.get(f"/api/runs/{run}/contexts", params={"position": 1, "k": 4}).json()
    assert told == vs.contexts(vs.dissect("gpt", TEXT), 1, 4).to_json()


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("gpt/words/4096", 422, "ids from 0 to 4,095"),
        ("gpt/words/points?axis=1", 422, "an axis is the ids of two words"),
        ("gpt/words/points?axis=3,3", 422, "the same vector"),
        ("small@5/words", 404, "no checkpoint '5' any more; there are: 4, 8, model"),
        ("nobody@5/words", 404, "there is no training run 'nobody'"),
        ("small@..%2f..%2fx/words", 404, ""),
    ],
)
def test_words_that_are_not_there_are_said(client, path, status, sentence):
    answer = client.get(f"/api/models/{path}")
    assert answer.status_code == status
    assert sentence in answer.text


def test_a_walk_through_the_words(page, served):
    entered(page, served, f"/gpt/words{START}")
    near = vs.neighbours("gpt", " his", 9)
    listed = page.get_by_label("nearest by cosine").locator("li")
    expect(listed).to_have_count(9)
    for item, one in zip(listed.all(), near, strict=True):
        expect(item).to_contain_text(one.token.replace(" ", "␣"))
        expect(item).to_contain_text(f"{one.score:.3f}")
    expect(page.get_by_label("in context").locator("tbody tr")).to_have_count(5)
    expect(page.locator("[data-cut=bert]")).to_have_text("3")
    page.get_by_label("search the words").fill("shook")
    page.get_by_label("search the words").press("Enter")
    expect(page.get_by_role("heading", name="␣shook").first).to_be_visible()
    page.get_by_label("first word of the axis").fill("he")
    page.get_by_label("second word of the axis").fill("she")
    page.get_by_role("button", name="axis").click()
    he, she = (vs.load("gpt").tokenizer.id_of(word) for word in (" he", " she"))
    expect(page).to_have_url(re.compile(f"axis={he},{she}"))
    expect(page.get_by_text("␣he ⟶ ␣she")).to_be_visible()
    page.get_by_role("button", name="3D").click()
    expect(page).to_have_url(re.compile("view=3d"))
    canvas = page.locator("canvas.solid")
    x, y = map(float, canvas.get_attribute("data-chosen").split(","))
    canvas.hover(position={"x": x, "y": y})
    expect(canvas).to_have_attribute("data-hovered", " shook")
    page.reload()
    expect(page.get_by_text("␣he ⟶ ␣she")).to_be_visible()
    entered(page, served, f"/gpt/words?near=99999{START}")
    expect(page.get_by_role("alert")).to_contain_text("ids from 0 to 4,095, got 99999")


def test_an_axis_comes_at_the_first_click_or_it_is_said_what_is_missing(page, served):
    entered(page, served, f"/gpt/words{START}")
    axis, alert = page.get_by_role("button", name="axis"), page.get_by_role("alert")
    first, second = (
        page.get_by_label(f"{which} word of the axis") for which in ("first", "second")
    )
    expect(page.locator("canvas")).to_be_visible()
    axis.click()
    expect(page.get_by_text("␣he ⟶ ␣she")).to_be_visible()
    page.get_by_role("button", name="components").click()
    expect(page.get_by_text("␣he ⟶ ␣she")).to_have_count(0)
    first.fill("king")
    axis.click()
    expect(alert).to_have_text("an axis leads from one word to another; type the second")
    second.fill("xyzzy")
    axis.click()
    expect(alert).to_contain_text('"xyzzy" is not one of the 4,096 words')
    second.fill("king")
    axis.click()
    expect(alert).to_contain_text("have the same vector")
    axis.click()
    expect(alert).to_contain_text("have the same vector")
    second.fill("she")
    axis.click()
    expect(page.get_by_text("␣king ⟶ ␣she")).to_be_visible()
    expect(alert).to_have_count(0)


def test_a_search_for_a_word_finds_it_before_the_pieces_of_others(page, served):
    entered(page, served, f"/gpt/words{START}")
    search = page.get_by_label("search the words")
    expect(page.locator("canvas")).to_be_visible()
    search.fill("king")
    offered = page.get_by_label("words found").get_by_role("button")
    expect(offered.first).to_have_text("␣king")
    expect(offered.get_by_text("king", exact=True)).to_have_count(1)
    search.press("Enter")
    expect(page.get_by_role("heading", name="␣king word")).to_be_visible()
    search.fill("king")
    offered.get_by_text("king", exact=True).click()
    expect(page.get_by_role("heading", name="king word", exact=False).first).to_contain_text("king")
    expect(page).to_have_url(re.compile(f"near={vs.load('gpt').tokenizer.id_of('king')}"))


def test_a_longer_bar_is_a_larger_number(page, served):
    entered(page, served, f"/gpt/words{START}")
    for name in ("by cosine", "by distance"):
        items = page.get_by_label(f"nearest {name}").locator("li")
        expect(items).to_have_count(9)
        width = "all => all.map(one => one.getBoundingClientRect().width)"
        wide = items.locator(".bar span").evaluate_all(width)
        scores = [float(text) for text in items.locator(".score").all_text_contents()]
        pairs = list(zip(scores, wide, strict=True))
        assert sorted(pairs) == sorted(pairs, key=lambda pair: pair[1])
        assert wide[0] != wide[-1]


@pytest.mark.parametrize("width", [1280, 800])
def test_operations_stand_below_the_areas(page, served, width):
    page.set_viewport_size({"width": width, "height": 700})
    entered(page, served, f"/gpt/ledger?vs=lstm{START}")
    areas, below = page.locator(".map"), page.locator(".below")
    expect(below).to_be_visible()
    top, bottom = below.bounding_box()["y"], areas.bounding_box()
    page.set_viewport_size({"width": 1280, "height": 800})
    assert bottom["y"] + bottom["height"] <= top


# Runs ------------------------------------------------------------------------


def test_runs_are_told_with_their_numbers_and_checkpoints(client, folder):
    (told,) = client.get("/api/training").json()["runs"]
    lines = [json.loads(line) for line in (folder / "small" / METRICS).read_text().splitlines()]
    train = [line for line in lines if line["kind"] == "train"]
    valid = [line for line in lines if line["kind"] == "valid"]
    assert (told["id"], told["family"], told["steps"], told["step"]) == ("small", "gpt2", 8, 8)
    assert (told["checkpoints"], told["finished"], told["live"]) == ([4, 8], True, False)
    assert (told["loss"], told["valid"]) == (train[-1]["loss"], valid[-1]["loss"])
    found = client.get("/api/training/small/metrics").json()
    for name in ("step", "loss", "rate", "norm"):
        assert found["train"][name] == [line[name] for line in train]
    assert [one["step"] for one in found["samples"]] == [4, 8]
    assert client.get("/api/training/../small").status_code == 404


def test_metrics_go_on_where_they_ended_and_begin_anew_when_the_file_does(tmp_path):
    file = tmp_path / METRICS
    file.write_text('{"kind": "train", "step": 1, "loss": 3.5}\n{"kind": "tr')
    first = metrics(tmp_path)
    assert first["train"] == {"step": [1], "loss": [3.5]}
    with file.open("a") as opened:
        opened.write('ain", "step": 2, "loss": null}\n')
    more = metrics(tmp_path, first["next"], first["tag"])
    assert (more["from"], more["train"]) == (first["next"], {"step": [2], "loss": [None]})
    new = tmp_path / "new"
    new.write_text('{"kind": "train", "step": 1, "loss": 3.5}\n' * 9)
    new.replace(file)
    again = metrics(tmp_path, more["next"], more["tag"])
    assert (again["from"], again["train"]["step"]) == (0, [1] * 9)


def test_lines_of_metrics_from_elsewhere_are_read_as_far_as_they_are_numbers(tmp_path):
    odd = '{"kind": "train", "step": null}\n{"kind": ["x"], "step": 1}\n[1]\n{"kind\n'
    (tmp_path / METRICS).write_text(odd + '{"kind": "train", "step": 2, "loss": NaN}\n')
    told = {"run": training.described("run", tmp_path), "metrics": metrics(tmp_path)}
    json.dumps(told, allow_nan=False)
    assert (told["run"]["step"], told["run"]["loss"]) == (2, None)
    assert told["metrics"]["train"] == {"step": [2], "loss": [None]}


def test_a_checkpoint_that_is_removed_while_it_is_looked_for_is_gone(folder, monkeypatch):
    trainings = Trainings(folder)
    monkeypatch.setattr(training, "steps", lambda run: [4, 6, 8])  # as a listing a moment ago
    with pytest.raises(UnknownModel, match="has no checkpoint '6' any more"):
        trainings.entry("small@6")
    lost = Entry("lost", str(folder / "lost"), "lost")
    monkeypatch.setattr(catalogue, "load", lambda name: (folder / "lost").read_bytes())
    with pytest.raises(UnknownModel, match="were removed while they were read"), lost.at_work():
        pass


def test_a_walk_through_the_runs_and_a_checkpoint_in_every_room(page, served, folder):
    last = vs.load(folder / "small" / "checkpoints" / "step-00000008")
    text = "the " + last.tokenizer.piece(20)
    entered(page, served, f"/gpt/runs#t={quote(text)}")
    expect(page.locator("[data-run=small]")).to_contain_text("8 of 8 steps")
    lines = [json.loads(line) for line in (folder / "small" / METRICS).read_text().splitlines()]
    loss = [line["loss"] for line in lines if line["kind"] == "valid"][-1]
    expect(page.locator("[data-line=validation] b")).to_have_text(f"{loss:#.4g}")
    page.get_by_label("checkpoints", exact=True).get_by_role("button", name="8").click()
    expect(page).to_have_url(re.compile(r"/small@8/dissect/"))

    def probability(step):
        model = folder / "small" / "checkpoints" / f"step-{step:08d}"
        return f"{100 * vs.attribute(vs.dissect(model, text)).probability:.1f} %"

    shown = page.locator("[data-hero=probability]")
    expect(shown).to_have_text(probability(8))
    cursor = page.url.split("dissect")[1]
    page.get_by_label("checkpoint before").click()
    expect(page.locator("b[data-checkpoint]")).to_have_text("step 4")
    page.get_by_label("checkpoint before").is_disabled()
    expect(page).to_have_url(re.compile(r"/small@4/dissect/"))
    expect(shown).to_have_text(probability(4))
    assert page.url.split("dissect")[1] == cursor  # the same text and cell
    page.keyboard.press("4")
    expect(page.locator("[data-total]")).to_have_text(f"{vs.count(last).total:,}")
    page.keyboard.press("5")
    expect(page.locator("[data-run=small]")).to_be_visible()


def test_without_runs_the_room_says_how_to_make_one_and_a_new_one_is_seen(page, served, folder):
    away = (folder / "small").rename(folder / ".small")
    try:
        entered(page, served, "/gpt/runs")
        expect(page.get_by_text("vesalius train stories-gpt")).to_be_visible()
    finally:
        away.rename(folder / "small")
    page.reload()
    expect(page.locator("[data-run=small]")).to_be_visible()


@pytest.fixture
def constant(folder):
    """A run at one learning rate, which is gone when the next test looks at the runs."""
    run = folder / "constant"
    run.mkdir()
    lines = [{"kind": "train", "step": s, "loss": 4 / s, "rate": 0.001} for s in (1, 2, 3, 4)]
    (run / METRICS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    yield run.name
    shutil.rmtree(run)


def test_a_rate_that_stays_is_drawn_among_numbers_of_its_size(page, served, constant):
    entered(page, served, "/gpt/runs")
    page.locator(f"[data-run={constant}]").click()
    chart = page.locator("figure", has=page.locator("[data-line=rate]"))
    expect(chart.locator("[data-line=rate] b")).to_have_text("0.001000")
    written = chart.locator("text.up").all_text_contents()
    numbers = [float(text.replace("−", "-")) for text in written]
    assert min(numbers) >= 0.0005
    assert max(numbers) <= 0.0015
