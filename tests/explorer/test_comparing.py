"""Two runs side by side: what the page shows of both is what the library gives."""

import json

import numpy as np
import pytest

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
    assert told["furthest"] == max(found.steps, key=lambda one: one.relative).name
    assert told["first"] == found.first_divergence.name
    assert told["kl"] == [one.kl for one in found.outcomes]
    data = client.get(f"{below}/steps/mu[3,4]").content
    change = traces[B]["mu[3,4]"] - traces[A]["mu[3,4]"]
    assert np.array_equal(np.frombuffer(data, "<f4").reshape(3, 3), change)
    word = traces[A].likeliest(1)[0][0]
    target = client.get(f"{below}/parts?word={word}").json()
    ours, theirs = (vs.attribute(traces[text], " head") for text in (A, B))
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
    steps = {"P[3,4]": ("parts", 3), "D[1]": ("parts", 1), "H[2]@1": ("states", 2)}
    for name, (kind, layer) in steps.items():
        edit = {name: vs.from_trace(traces[B])}
        whole = vs.dissect("gpt", A, edit=edit)
        patched = run(A, patches=[name], source=b)
        data = client.get(f"/api/runs/{patched}/steps/Y_hat").content
        assert np.array_equal(np.frombuffer(data, "<f4"), whole["Y_hat"].ravel())
        told = client.get(below, params={"layer": layer, "kind": kind}).json()
        found = next(one for one in told if one["name"] == name)
        likely = vs.attribute(whole, " head").probability
        assert found["probability"] == pytest.approx(likely, rel=1e-6)
        back = client.get(below.replace(a, patched), params={"layer": layer, "kind": kind}).json()
        clean = vs.attribute(traces[A], " head").probability
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
