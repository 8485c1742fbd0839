"""Runs in the making, texts that are continued, and askers who leave before either is done."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from explorer.conftest import SECONDS

import vesalius as vs
from vesalius.errors import SequenceTooLong
from vesalius.explorer import reading
from vesalius.explorer.answers import summary
from vesalius.explorer.catalogue import Catalogue, Entry
from vesalius.explorer.reading import Asked
from vesalius.explorer.running import Wanted, _failed
from vesalius.explorer.runs import Runs, Told
from vesalius.explorer.streaming import Events, attended
from vesalius.generation.sampling import Draw, Sampling
from vesalius.machine.cancellation import cancelled_by
from vesalius.traces.trace import Trace

TEXT = "He shook his"
LONG = "It was a dark and stormy night; the rain fell in torrents. " * 12
EVENTS = {"accept": "text/event-stream"}


@pytest.fixture(scope="module")
def settings():
    """To this server every run is a long one, and it waits for half a second."""
    return {"long": 0, "seconds": 0.5}


def told(answer):
    """The events of a stream, as they come."""
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line:
            yield name, json.loads(line.removeprefix("data: "))


def made(client, text=TEXT, **more):
    body = {"model": "gpt", "text": text, **more}
    with client.stream("POST", "/api/runs", json=body, headers=EVENTS) as answer:
        return list(told(answer))


def idle(client):
    """Ask until nobody works any more."""
    while client.get("/api/work").json():
        pass
    return True


def test_a_run_is_told_layer_by_layer_with_the_word_that_each_state_gives(client):
    client.delete(f"/api/runs/{made(client)[-1][1]['id']}")  # which another test may have made
    events = made(client)
    assert [name for name, _ in events] == ["begun", *["layer"] * 5, "run"]
    trace = vs.dissect("gpt", TEXT)
    lens = vs.lens(trace)
    states = [row[-1][0] for d, row in zip(lens.depths, lens.likeliest, strict=True) if d[0] == "H"]
    assert [about["id"] for name, about in events if name == "layer"] == [w.id for w in states]
    whole = client.get(f"/api/runs/{events[-1][1]['id']}").json()
    # the server goes layer by layer, whose products sum in another order
    odds = vs.attribute(trace).probability
    assert whole["target"]["probability"] == pytest.approx(odds, rel=1e-5)
    bits = [-np.log2(trace["Y_hat"][token, i]) for i, token in enumerate(trace.ids[1:])]
    assert whole["surprisal"][1:] == pytest.approx(bits, abs=1e-4)
    effects = client.get(f"/api/runs/{whole['id']}/cuts", params={"layer": 3}).json()
    cut = vs.dissect("gpt", TEXT, edit={"P[3,4]": lambda v: 0 * v})
    odds = vs.attribute(cut, vs.attribute(trace).target.cells[0][0][0]).probability
    assert effects[3]["probability"] == pytest.approx(odds, rel=1e-5)
    assert client.delete(f"/api/runs/{whole['id']}").status_code == 204
    assert client.get(f"/api/runs/{whole['id']}").status_code == 404
    assert client.delete(f"/api/runs/{whole['id']}").status_code == 404


def test_a_run_is_stopped_by_deleting_it_and_by_leaving(served, client):
    body = {"model": "gpt", "text": LONG}
    with client.stream("POST", "/api/runs", json=body, headers=EVENTS) as answer:
        stream = told(answer)
        key = next(stream)[1]["id"]
        with served.client() as other:
            assert other.delete(f"/api/runs/{key}").status_code == 204
        list(stream)
    assert idle(client)
    assert client.get(f"/api/runs/{key}").status_code == 404  # under way or done when it came
    with client.stream("POST", "/api/runs", json=body, headers=EVENTS) as answer:
        next(told(answer))
    assert idle(client)
    assert client.post("/api/runs", json=body).json()["id"] == key


def test_a_run_that_is_not_wanted_any_more_ends_at_its_next_layer(monkeypatch):
    from vesalius.analyses import long_traces
    from vesalius.explorer.catalogue import Catalogue
    from vesalius.explorer.reading import Asked
    from vesalius.explorer.runs import Runs, Told
    from vesalius.explorer.streaming import Stop, Stopped

    monkeypatch.setattr(long_traces, "LONG", 0)
    runs, stop, seen = Runs(Catalogue()), Stop(), []

    class Leaver(Told):
        def layered(self, layer, state):
            seen.append(layer)
            stop.set()

    with pytest.raises(Stopped), cancelled_by(stop):
        runs.make("gpt", Asked(text=LONG), (), Leaver())
    assert seen == [0]
    assert runs.make("gpt", Asked(text=LONG)).again > 50


def test_what_goes_wrong_on_the_way_is_the_last_event(client):
    (name, about), *_ = made(client, "a b " * 300)[::-1]
    assert (name, about["error"], about["limit"]) == ("failure", "SequenceTooLong", 256)
    assert made(client, cuts=["P[9,9]"])[-1][1]["status"] == 404


def test_words_have_the_odds_that_the_sampler_draws_by(client):
    key = made(client)[-1][1]["id"]
    logits = vs.dissect("gpt", TEXT)["Z"][:, -1]
    query = {"temperature": 0.7, "top_k": 40, "top_p": 0.9, "k": 1000}
    found = client.get(f"/api/runs/{key}/vocabulary", params=query).json()
    draw = Draw(logits, Sampling(0.7, 40, 0.9), np.zeros(0, np.int64), 0.5)
    assert (found["kept"], found["size"]) == (draw.kept.sum(), 4096)
    odds = {word["id"]: word["probability"] for word in found["words"]}
    assert odds == pytest.approx({i: draw.probabilities[i] for i in odds}, abs=1e-5)
    bad = client.get(f"/api/runs/{key}/vocabulary", params={"top_p": 2})
    assert bad.status_code == 422
    assert "top_p should be in (0, 1]" in bad.json()["message"]


def test_tokens_are_those_of_generate_and_the_first_is_the_one_that_is_drawn(client):
    key, n = made(client)[-1][1]["id"], 6
    how = {"temperature": 0.8, "top_k": 40, "seed": 3}
    wanted = vs.generate("gpt", TEXT, n, **how)
    path = f"/api/runs/{key}/continue"
    with client.stream("POST", path, json={**how, "tokens": n}) as answer:
        events = list(told(answer))
    assert [about["id"] for name, about in events if name == "token"] == wanted.ids
    assert "".join(about for name, about in events if name == "text") == wanted.text
    assert events[-1] == ("done", {"ids": wanted.ids, "finish": "length"})
    drawn = client.post(f"/api/runs/{key}/draw", json=how).json()
    assert (drawn["id"], drawn["before"]) == (wanted.ids[0], None)
    earlier = client.post(f"/api/runs/{key}/draw", json={**how, "position": 0}).json()
    assert earlier["before"] == "He"
    assert earlier["id"] == vs.generate("gpt", "He", 1, **how).ids[0]


def test_what_cannot_be_continued_says_why(client):
    cut = made(client, cuts=["P[3,4]"])[-1][1]["id"]
    assert client.post(f"/api/runs/{cut}/draw", json={}).status_code == 200
    masked = client.post("/api/runs", json={"model": "bert", "text": "He [MASK]."}).json()["id"]
    full = client.post("/api/runs", json={"model": "gpt", "ids": [7] * 256}).json()["id"]
    for key, why in ((cut, "undo the cuts"), (masked, "no next token"), (full, "context of 256")):
        answer = client.post(f"/api/runs/{key}/continue", json={"tokens": 1})
        assert why in answer.text
    for wrong in ({"tokens": 0}, {"temperature": -1}, {"position": 99}, {"sed": 1}):
        assert client.post(f"/api/runs/{cut}/draw", json=wrong).status_code == 422


def test_a_hundred_who_leave_in_mid_sentence_leave_nobody_at_work(served, client):
    key = client.post("/api/runs", json={"model": "lstm", "text": TEXT}).json()["id"]
    for _ in range(100):
        body = {"tokens": 1000}
        with client.stream("POST", f"/api/runs/{key}/continue", json=body) as answer:
            stream = told(answer)
            assert [next(stream)[0], next(stream)[0]] == ["begun", "token"]
    assert idle(client)
    assert client.get(f"/api/runs/{key}").status_code == 200


def test_work_ends_when_its_asker_leaves():
    begun, sent = asyncio.Event(), []

    def endless(tell, stop):
        while True:
            tell("token", 1)

    async def receive():
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        begun.set()
        sent.append(message)
        assert len(sent) < 20_000, "nobody waits any more"
        await asyncio.sleep(0)

    work = attended(Events(endless, repr), {"type": "http"}, b"", receive, send)
    with ThreadPoolExecutor(1) as pool:  # Playwright may have a loop of its own in this thread
        pool.submit(asyncio.run, work).result()


def test_whoever_sends_too_slowly_is_cut(served, client):
    head = f"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
    whole = f"{head}{served.line}Content-Length: 100\r\n\r\n"
    for begun, answer in ((head, b""), ("", b""), (whole, b"HTTP/1.1 408 ")):
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as opened:
            opened.sendall(begun.encode())
            assert opened.recv(65536)[:13] == answer
    assert client.get("/api/models").status_code == 200


def test_a_model_whose_files_change_is_said_to_have_changed_and_then_read_anew(tmp_path):
    from vesalius.explorer.catalogue import Catalogue, ModelChanged
    from vesalius.explorer.reading import Asked
    from vesalius.explorer.runs import Runs

    settings = {"layers": 1, "embedding": 12, "heads": 2, "vocabulary": 9}
    vs.create("gpt2", **settings, seed=1).save(tmp_path)
    runs = Runs(Catalogue(str(tmp_path)))
    name = runs.catalogue.first.key
    before = runs.make(name, Asked(ids=[1, 2, 3]))
    vs.create("gpt2", **settings, seed=2).save(tmp_path)
    with pytest.raises(ModelChanged, match="have changed since they were read"):
        runs.make(name, Asked(ids=[1, 2, 3]))
    with pytest.raises(ModelChanged):
        runs[before.key]
    after = runs.make(name, Asked(ids=[1, 2, 3]))
    assert not np.array_equal(after.trace["Y_hat"], before.trace["Y_hat"])


def test_a_patched_run_is_announced_by_its_own_name_and_not_by_that_of_the_clean_one():
    """Whoever cancels it must not forget the clean run."""
    names = []

    class Listener(Told):
        def begun(self, key, clean, model, ids):
            names.append((key, clean))

    runs = Runs(Catalogue())
    source = runs.make("gpt", Asked(text="She opened her"))
    patched = runs.make("gpt", Asked(text="He shook his"), (), Listener(), ("H[1]",), source.key)
    assert names == [(patched.key, patched.clean)]
    assert patched.key != patched.clean


@pytest.mark.parametrize("kind", ["tokens", "sequence"])
def test_a_fine_tuned_model_is_called_by_its_run_and_its_outcomes_by_their_labels(kind, tmp_path):
    from vesalius.explorer import results
    from vesalius.explorer.catalogue import Catalogue
    from vesalius.explorer.reading import Asked
    from vesalius.explorer.runs import Runs

    settings = {"layers": 1, "embedding": 12, "heads": 2, "vocabulary": 9, "context": 8}
    model = vs.create("bert", **settings, labels=3, labelled=kind, pooler=kind == "sequence")
    names = ["B-PER", "I-PER", "O"]
    # Of several labels at once each has a value of its own, and [CLS] is what their head reads.
    model.preprocessing = {"names": names, "labels": "labels" if kind == "sequence" else "classes"}
    model.save(tmp_path / "names" / "model")
    (tmp_path / "names" / "metrics.jsonl").write_text("")
    runs = Runs(Catalogue(str(tmp_path / "names")))
    assert (runs.catalogue.first.key, runs.catalogue.first.title) == ("names", "names")
    run = runs.make("names", Asked(ids=[1, 2, 3, 4]))
    told = results.summary(run, None, None)
    assert told["position"] == (0 if kind == "sequence" else 3)
    assert {word["token"] for word in told["likeliest"]} == set(names)
    depths = results.lens(run, 1, 3)
    if kind == "sequence":
        assert told["target"]["probability"] is None
        assert depths == []
        return
    z = run.trace["z"].astype(np.float64)
    odds = np.exp(z) / np.exp(z).sum(axis=0)
    best = [names[k] for k in odds.argmax(axis=0)]
    assert told["target"]["token"] == told["likeliest"][0]["token"] == best[3]
    assert told["target"]["probability"] == pytest.approx(odds[:, 3].max(), rel=1e-5)
    assert [one["token"] for one in depths[-1]] == best[1:3]
    assert results.glance(model, run.trace["H[1]"], 2)["token"] == best[2]


@pytest.mark.parametrize("padded", [True, False])
def test_a_forecast_is_told_by_channel_and_time_step(tmp_path, padded):
    from vesalius.explorer import inputs, results
    from vesalius.explorer.catalogue import Catalogue
    from vesalius.explorer.reading import Asked
    from vesalius.explorer.runs import Runs

    settings = {"context": 13, "horizon": 3, "patch": 4, "stride": 2, "layers": 1, "heads": 2}
    sizes = {"embedding": 8, "feedforward": 8, "channels": 2, "end_padding": padded}
    model = vs.create("patchtst", **settings, **sizes)
    assert inputs.channels(model) == ["channel 1", "channel 2"]
    model.preprocessing = {"channels": ["load", "price"], "mean": [0, 0], "std": [1, 1]}
    model.save(tmp_path / "model")
    np.save(file := tmp_path / "a.npy", np.random.default_rng(0).random((2, 13)))
    runs = Runs(Catalogue(str(tmp_path / "model")))
    assert runs.catalogue.first.described()["context"] == 13
    key = runs.uploads.add(file.read_bytes(), "a.npy").key
    run = runs.make("model", Asked(upload=key))
    n = 6 if padded else 5

    def found(word, position):
        told = results.summary(run, word, position)
        assert told["target"]["logit"] == run.trace["Omega_hat"][*told["target"]["at"]]
        return told["target"]["token"], told["target"]["at"], told["position"]

    assert found(None, None) == ("step 1, load", [0, 0], n - 1)
    assert found(None, 1) == ("step 1, load", [0, 0], 1)
    assert found(None, n) == ("step 1, price", [1, 0], n)
    assert found(5, None) == ("step 3, price", [1, 2], 2 * n - 1)
    assert found(5, 1) == ("step 3, price", [1, 2], 1)
    listed = results.vocabulary(run, "price", 9, None)["words"]
    assert [word["value"] for word in listed] == run.trace["Omega_hat"][1].tolist()

    seen = results.summary(run, None, None)["input"]
    assert (seen["real"], seen["names"], seen["overlap"]) == (2 * n, ["load", "price"], 2)
    given = run.trace["Omega_n"]
    for patch, (channel, first, times, _, _) in zip(
        run.trace["Omega_p"].T, seen["spans"], strict=True
    ):
        assert (patch[:times] == given[channel, first : first + times]).all()
    last = "10 to 13" if not padded else "11 to 13, the last repeated"
    assert seen["spans"][-1][-1] == f"patch {n} of price, times {last}"


def test_work_that_nobody_waits_for_gives_way():
    entry, seen = Entry("gpt", "specimen:gpt", "gpt"), []

    def watch() -> None:
        seen.append(entry.waiting)
        entry.waiting = max(0, entry.waiting - 1)

    entry.waiting = 3
    with cancelled_by(watch):
        entry.give_way()
    assert seen == [3, 2, 1]


def test_a_summary_of_a_recurrent_model_takes_as_long_as_its_text(monkeypatch):
    """It has steps for every token; the tokens are told once, not for every step."""
    asked, tokens = [], Trace.tokens
    monkeypatch.setattr(Trace, "tokens", lambda trace: asked.append(trace) or tokens(trace))
    counts, runs = [], Runs(Catalogue())
    for times in (1, 4):
        run = runs.make("lstm", Asked(text=times * TEXT))
        asked.clear()
        assert len(summary(runs, run.key, None, None)["steps"]) == len(run.trace.steps)
        counts.append(len(asked))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("kind", ["text", "ids"])
def test_a_text_too_long_for_a_recurrent_model_comes_back_as_its_last_tokens(monkeypatch, kind):
    monkeypatch.setattr(reading, "STEPS", 20)
    runs = Runs(Catalogue())
    ids = vs.load("lstm").tokenizer.encode(LONG)
    wanted = Wanted(model="lstm", **({"text": LONG} if kind == "text" else {"ids": ids}))
    with pytest.raises(SequenceTooLong, match="up to 20") as error:
        runs.make("lstm", wanted.asked)
    if kind == "text":
        about = _failed(runs, wanted, error.value)
        assert (about["tokens"], about["limit"]) == (len(ids), 20)
        assert runs.make("lstm", Asked(text=about["fitting"])).trace.ids == ids[-20:]


HANGING = """
import sys, threading
from pathlib import Path
from starlette.concurrency import run_in_threadpool
from vesalius.explorer.server import explorer

async def app(scope, receive, send):
    print("begun", flush=True)
    await run_in_threadpool(threading.Event().wait)

found = explorer(port=0, page=Path(sys.argv[1]))
found.server.config.app = app
print(found.port, flush=True)
found.run()
"""


@pytest.mark.parametrize(
    ("sent", "code"), [([signal.SIGTERM], 143), ([signal.SIGINT, signal.SIGINT], 0)]
)
def test_a_signal_ends_the_server_whatever_a_thread_computes(tmp_path, sent, code):
    (tmp_path / "index.html").write_text("")
    command = [sys.executable, "-c", HANGING, str(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as opened:
            opened.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert process.stdout.readline() == "begun\n"
            for one in sent:
                process.send_signal(one)
                with suppress(ConnectionError):  # until the signal has come
                    while True:
                        socket.create_connection(("127.0.0.1", port)).close()
            assert process.wait(SECONDS) == code
            assert process.stderr.read() == ""
