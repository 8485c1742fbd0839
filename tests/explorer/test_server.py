"""What the server tells is what the library gives, to the last bit."""

import json
import socket
import subprocess
import sys

import httpx
import numpy as np
import pytest
from processes import vesalius as command

import vesalius as vs
from vesalius import equations as eq
from vesalius.explorer.sessions import HEADER
from vesalius.figures import parts_of

TEXT = "He shook his"


@pytest.fixture(scope="module")
def trace():
    return vs.dissect("gpt", TEXT)


@pytest.fixture(scope="module")
def run(client):
    return client.post("/api/runs", json={"model": "gpt", "text": TEXT}).json()


def values(client, run, name, **query):
    answer = client.get(f"/api/runs/{run}/steps/{name}", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-dtype"] == "float32"
    shape = [int(n) for n in answer.headers["x-shape"].split(",")]
    return np.frombuffer(answer.content, "<f4"), shape, answer


def test_a_run_is_named_by_its_content(client, run, trace):
    by_ids = client.post("/api/runs", json={"model": "gpt", "ids": trace.ids}).json()
    assert by_ids["id"] == run["id"]
    others = [{"text": "He shook her"}, {"text": TEXT, "cuts": ["P[3,4]"]}]
    names = {client.post("/api/runs", json={"model": "gpt", **o}).json()["id"] for o in others}
    assert len({run["id"], *names}) == 3


def test_the_summary_is_the_librarys(client, run, trace):
    told = client.get(f"/api/runs/{run['id']}").json()
    found = vs.attribute(trace)
    assert told["tokens"] == trace.tokens()
    assert told["target"]["token"] == trace.likeliest(1)[0][1]
    assert told["target"]["probability"] == found.probability
    assert told["target"]["logit"] == found.value
    assert told["parts"] == [part.to_json() for part in found.parts]
    odds = trace["Y_hat"]
    bits = [-np.log2(odds[token, i]) for i, token in enumerate(trace.ids[1:])]
    assert told["surprisal"] == [None, *map(float, bits)]
    assert [word["id"] for word in told["likeliest"]] == [i for i, _, _ in trace.likeliest(12)]
    assert [step["name"] for step in told["steps"]] == trace.names()


def test_values_are_the_traces(client, run, trace):
    for name in trace:
        data, shape, _ = values(client, run["id"], name)
        assert tuple(shape) == trace[name].shape
        assert np.array_equal(data.reshape(shape), trace[name].astype(np.float32))


def test_a_part_of_the_values_can_be_asked_for_and_is_kept_by_its_tag(client, run, trace):
    data, _, answer = values(client, run["id"], "H[2]", rows="8:12", columns="1:3")
    assert np.array_equal(data.reshape(4, 2), trace["H[2]"][8:12, 1:3])
    tag = {"if-none-match": answer.headers["etag"]}
    again = client.get(answer.request.url, headers=tag)
    assert (again.status_code, again.content) == (304, b"")


CUTS = (["P[3,4]"], ["D[1]"], ["P[1,2]", "P[3,4]", "D[4]"])


@pytest.mark.parametrize("cuts", CUTS, ids=" ".join)
def test_a_cut_run_is_the_whole_run_anew_to_the_last_bit(client, run, trace, cuts):
    made = client.post("/api/runs", json={"model": "gpt", "text": TEXT, "cuts": cuts}).json()
    assert made["clean"] == run["id"]
    told = client.get(f"/api/runs/{made['id']}").json()
    assert told["again"] == len(trace.graph.dependents(cuts))
    whole = vs.dissect("gpt", TEXT, edit=dict.fromkeys(cuts, lambda v: 0 * v))
    for name in whole:
        data, shape, _ = values(client, made["id"], name)
        assert np.array_equal(data.reshape(shape), whole[name].astype(np.float32)), name
    assert told["target"]["token"] == trace.likeliest(1)[0][1]  # the word of the run without cuts


def probability(cuts):
    edit = dict.fromkeys(cuts, lambda v: 0 * v)
    trace = vs.dissect("gpt", TEXT, edit=edit)
    return vs.attribute(trace, vs.dissect("gpt", TEXT).likeliest(1)[0][0]).probability


def test_what_a_cut_would_give_is_what_it_gives(client, run):
    for layer in (1, 3):
        effects = client.get(f"/api/runs/{run['id']}/cuts", params={"layer": layer}).json()
        heads = [f"P[{layer},{m}]" for m in range(1, 5)]
        assert [one["name"] for one in effects] == [*heads, f"D[{layer}]"]
        for one in effects:
            assert one["probability"] == probability([one["name"]])
    cut = client.post("/api/runs", json={"model": "gpt", "text": TEXT, "cuts": ["P[3,4]"]}).json()
    effects = client.get(f"/api/runs/{cut['id']}/cuts", params={"layer": 3}).json()
    found = {one["name"]: one["probability"] for one in effects}
    assert found["P[3,4]"] == probability([])  # without it
    assert found["P[3,3]"] == probability(["P[3,3]", "P[3,4]"])
    below = client.get(f"/api/runs/{cut['id']}/cuts", params={"layer": 2}).json()
    assert below[0]["probability"] == probability(["P[2,1]", "P[3,4]"])  # the upper cut holds


def test_numbers_unfold_as_in_the_library(client, run, trace):
    for name, at in (("mu[3,4]", (2, 1)), ("q[3,4]", (2, 7)), ("H[0]", (5, 1)), ("S", (0, 2))):
        cell = ",".join(map(str, at))
        told = client.get(f"/api/runs/{run['id']}/unfold/{name}/{cell}").json()
        found = vs.unfold(trace, name, *at).to_json()
        assert told["terms"][0]["factors"] == found["terms"][0]["factors"] or name == "S"
        assert told["others"] == found["others"]
        assert str(told["value"]) == str(found["value"])


def test_the_shares_of_a_heads_tokens_are_its_own(client, run):
    told = client.get(f"/api/runs/{run['id']}/sources/P[3,4]").json()
    whole = client.get(f"/api/runs/{run['id']}").json()
    share = next(part["share"] for part in whole["parts"] if part["name"] == "P[3,4]")
    assert sum(told["shares"]) == pytest.approx(share, abs=1e-6)


def test_words_are_searched_in_the_whole_vocabulary(client, run, trace):
    told = client.get(f"/api/runs/{run['id']}/vocabulary", params={"search": "HEAR", "k": 3}).json()
    tokenizer = trace.model.tokenizer
    holding = [i for i in range(tokenizer.size) if "hear" in tokenizer.piece(i).lower()]
    assert told["found"] == len(holding)
    assert told["size"] == tokenizer.size
    best = sorted(holding, key=lambda i: -trace["Y_hat"][i, -1])[:3]
    assert [word["id"] for word in told["words"]] == best


@pytest.mark.parametrize("columns", ["first=3&last=1", "first=2&last=2", "first=99", "last=-99"])
def test_a_lens_on_no_tokens_is_refused(client, run, columns):
    answer = client.get(f"/api/runs/{run['id']}/lens?{columns}")
    assert 400 <= answer.status_code < 500
    assert "there are no tokens from" in answer.json()["message"]


def test_the_lens_reads_every_layer_and_ends_with_the_models_own_words(client, run, trace):
    told = client.get(f"/api/runs/{run['id']}/lens").json()
    assert len(told) == 5
    assert [word["id"] for word in told[-1]] == trace["Y_hat"].argmax(axis=0).tolist()


def test_another_word_and_another_position_can_be_asked_about(client, run, trace):
    query = {"word": 339, "position": 1}
    told = client.get(f"/api/runs/{run['id']}", params=query).json()
    found = vs.attribute(trace, 339, 1)
    assert told["target"]["probability"] == found.probability
    assert told["position"] == 1


@pytest.mark.parametrize("name", ["gpt", "bert", "ffnn", "lstm", "rnn"])
def test_every_model_of_the_list_can_be_explored(client, name):
    about = client.get(f"/api/models/{name}").json()
    assert about["count"]["total"] == vs.count(vs.load(name)).total
    run = client.post("/api/runs", json={"model": name, "text": about["text"]}).json()
    told = client.get(f"/api/runs/{run['id']}").json()
    assert abs(told["difference"]) < 1e-4
    n, names = len(told["tokens"]), {step["name"] for step in told["steps"]}
    asked = {"part": "model[1]", "length": n}
    figure = client.get(f"/api/models/{name}/figure", params=asked).json()
    assert figure["svg"] == vs.figure(vs.load(name), "model[1]", length=n, titled=False).svg
    assert {part["step"] for part in figure["parts"]} - {""} <= names
    assert [one["part"] for one in about["figures"]] == [p["part"] for p in parts_of(name)]


def test_a_runs_figure_has_its_numbers_and_can_be_kept(client, run, trace):
    asked = {"part": "query[3,4]", "position": 2, "theme": "dark"}
    path = f"/api/runs/{run['id']}/figure"
    told = client.get(path, params=asked).json()
    of, settings = (trace, "query[3,4]"), {"position": 2, "theme": "dark"}
    assert told["svg"] == vs.figure(*of, **settings, titled=False).svg
    kept = client.get(path, params={**asked, "file": "svg"})
    assert kept.text == vs.figure(*of, **settings).svg
    assert kept.headers["content-type"].startswith("image/svg+xml")
    assert client.get(path, params={**asked, "file": "png"}).content.startswith(b"\x89PNG")
    for wrong in ({"part": "layer[1]"}, {"theme": "blue"}, {"file": "gif"}, {"position": -1}):
        answer = client.get(path, params={**asked, **wrong})
        assert answer.status_code in (404, 422)
        assert answer.json()["message"]


def test_equations_are_the_registers(client):
    told = client.get("/api/equations").json()
    assert set(told) == set(eq.REGISTRY)
    assert told["self_attention"]["latex"] == eq.find(28).latex


WRONG = (
    ({"model": "gpt", "text": ""}, 422, "at least one token"),
    ({"model": "gpt", "text": "a b " * 300}, 422, "601 positions"),
    ({"model": "gpt", "ids": [4096]}, 422, "4096"),
    ({"model": "gpt", "ids": [True]}, 422, "ids.0"),
    ({"model": "gpt"}, 422, "name one"),
    ({"model": "gpt", "text": "He", "path": "/etc"}, 422, "path"),
    ({"model": "gpt", "text": "He", "cuts": ["P[9,9]"]}, 404, "P[9,9]"),
)


@pytest.mark.parametrize(("body", "status", "said"), WRONG)
def test_what_cannot_be_run_is_said_in_a_sentence(client, body, status, said):
    answer = client.post("/api/runs", json=body)
    assert answer.status_code == status
    assert said in answer.json()["message"]


def test_a_text_that_is_too_long_comes_back_as_the_end_that_fits(client):
    told = client.post("/api/runs", json={"model": "gpt", "text": "a b " * 300}).json()
    assert (told["tokens"], told["limit"]) == (601, 256)
    again = client.post("/api/runs", json={"model": "gpt", "text": told["fitting"]})
    assert again.status_code == 200


def test_what_is_not_there_is_said_to_be_missing(client, run):
    key = run["id"]
    for path in (f"{key}/steps/Q[1]", f"{key}/unfold/Q[1]/0,0", "ffff", f"{key}/sources/P[9,9]"):
        answer = client.get(f"/api/runs/{path}")
        assert answer.status_code == 404
        assert answer.json()["message"]
    for cell in ("9,9", "-1,0", "a", "1,2,3,4", "0"):
        assert client.get(f"/api/runs/{key}/unfold/mu[3,4]/{cell}").status_code == 422
    assert client.get(f"/api/runs/{key}/steps/Z", params={"rows": "a:b"}).status_code == 422


def test_a_port_that_is_taken_is_said_with_exit_3():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = command("explore", "--no-browser", "--port", str(port))
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert f"port {port}" in done.stderr


def test_only_the_loopback_can_be_served_on():
    done = command("explore", "--no-browser", "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "ssh -L" in done.stderr
    assert "--expose" in done.stderr
    done = command("explore", "--no-browser", "--host", "my-laptop", "--expose")
    assert done.returncode == 2
    assert "an address of this machine" in done.stderr
    done = command("explore", "--no-browser", "--host", "192.0.2.1", "--expose")
    assert done.returncode == 3
    assert "192.0.2.1 is no address of this machine" in done.stderr


def test_with_a_flag_and_a_warning_an_address_is_served_on():
    code = "from vesalius.__main__ import main; main()"
    said = ["explore", "--no-browser", "--port", "0", "--host", "127.0.0.2", "--expose", "--json"]
    command = [sys.executable, "-c", code, *said]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        found = json.loads(process.stdout.readline())
        assert process.stderr.readline().startswith("warning: whoever reaches 127.0.0.2")
        base = f"http://127.0.0.2:{found['port']}"
        with httpx.Client(base_url=base, timeout=600) as client:
            assert client.get("/api/models").status_code == 403
            assert found["address"] == f"{base}/?token={found['token']}"
            key = client.post("/api/session", json={"token": found["token"]}).json()["key"]
            client.headers[HEADER] = key
            assert client.get("/api/models").status_code == 200
            named = {"host": f"evil.example:{found['port']}"}
            assert client.get("/api/models", headers=named).status_code == 400
        process.terminate()


def test_without_a_port_the_next_free_one_is_taken(monkeypatch):
    from vesalius.explorer import server

    with socket.socket() as first:
        first.bind(("127.0.0.1", 0))
        first.listen()
        monkeypatch.setattr(server, "PORT", first.getsockname()[1])
        found = server._listen("127.0.0.1", None)
        with found:
            assert found.getsockname()[1] > server.PORT


def test_a_folder_of_ones_own_is_explored_by_the_name_of_its_folder(tmp_path):
    from vesalius.explorer.catalogue import Catalogue
    from vesalius.explorer.reading import Asked
    from vesalius.explorer.runs import Runs

    folder = tmp_path / "my model"
    vs.create("gpt2", layers=1, embedding=12, heads=2, vocabulary=9).save(folder)
    catalogue = Catalogue(str(folder))
    assert catalogue.first.key == "my-model"
    assert catalogue["my-model"].to_json() == {"id": "my-model", "title": "my model"}
    assert catalogue["my-model"].described()["text"] == "0 1 2"  # there is no tokenizer
    run = Runs(catalogue).make("my-model", Asked(ids=[1, 2, 3]), ["P[1,2]"])
    whole = vs.dissect(str(folder), [1, 2, 3], edit={"P[1,2]": lambda v: 0 * v})
    assert np.array_equal(run.trace["Y_hat"], whole["Y_hat"])


def test_a_thumbnail_keeps_the_largest_of_the_values_that_become_one(client):
    key = client.post("/api/runs", json={"model": "gpt", "text": "He shook his"}).json()["id"]
    trace = vs.dissect("gpt", "He shook his")
    for name, shape in (("mu[3,4]", (3, 3)), ("F[2]", (48, 3)), ("S", (3, 3))):
        answer = client.get(f"/api/runs/{key}/steps/{name}/thumb")
        small = np.frombuffer(answer.content, "<f4").reshape(shape)
        value = np.asarray(trace[name], np.float32)
        known = value[np.isfinite(value)]
        drawn = small[np.isfinite(small)]
        assert np.abs(drawn).max() == np.abs(known).max()
        assert set(drawn) <= set(known) | {0.0}
        assert np.isneginf(small).sum() == np.isneginf(value).sum()
        told = [float(one) for one in answer.headers["x-statistics"].split(",")]
        assert told == pytest.approx([known.min(), known.max(), known.mean(), known.std()], 1e-5)
        masked = [answer.headers[name] for name in ("x-masked", "x-numbers", "x-masked-where")]
        hidden = ["3", "9", "above the diagonal"] if name == "S" else ["0", str(value.size)]
        assert masked[: len(hidden)] == hidden
    first = np.asarray(trace["F[2]"], np.float32)[: 1024 // 48, 0]
    small = client.get(f"/api/runs/{key}/steps/F[2]/thumb").content
    assert np.frombuffer(small, "<f4")[0] == first[np.abs(first).argmax()]
