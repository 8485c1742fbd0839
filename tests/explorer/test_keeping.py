"""What the server keeps is bounded in bytes, whatever is asked and how often."""

import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest

import vesalius as vs
from vesalius.explorer import runs as keeping_runs
from vesalius.explorer.catalogue import Catalogue
from vesalius.explorer.keeping import LEAST, Kept, weight
from vesalius.explorer.reading import Asked
from vesalius.explorer.runs import Runs, UnknownRun
from vesalius.explorer.training import Trainings


def test_what_is_least_lately_asked_for_goes_first():
    kept = Kept(10, len, least=1)
    for word in ("four", "five", "six"):
        kept.put(word, word)
    assert [kept.get(word) for word in ("four", "five", "six")] == [None, "five", "six"]
    assert kept.get("five") == "five"
    kept.put("seven", "seven")
    assert kept.get("six") is None
    kept.put("five", "a word that is larger than all that is kept")
    assert kept.get("five") is not None
    assert kept.get("seven") is None


def test_a_value_that_is_put_again_or_taken_counts_once():
    kept = Kept(10, len)
    for _ in range(5):
        kept.put("a", "12345")
    kept.put("b", "12345")
    assert (kept.get("a"), kept.get("b")) == ("12345", "12345")
    kept.pop("a")
    kept.put("c", "12345")
    assert kept.get("b") == "12345"


def test_answers_weigh_what_they_hold():
    assert weight(np.zeros((100, 100))) == LEAST + 80_000
    gates = vs.gates(vs.dissect("lstm", "He shook his"), 1)
    assert weight(gates) > sum(array.nbytes for array in gates.values.values())
    assert weight((np.zeros(1000), 3)) > 8000
    assert weight([{"word": "head"}] * 1000) > 10_000


def test_runs_of_many_checkpoints_keep_few_models(tmp_path, monkeypatch):
    """A run holds its model, which is not one of the list."""
    settings = {"layers": 1, "embedding": 32, "heads": 2, "vocabulary": 3000, "context": 8}
    for step in range(8):
        vs.create("gpt2", **settings, seed=step).save(tmp_path / f"run/checkpoints/step-{step:08}")
    catalogue, trainings = Catalogue(), Trainings(tmp_path)
    catalogue.checkpoint = trainings.entry
    monkeypatch.setattr(keeping_runs, "BYTES", 2_000_000)  # of models with 390 KB
    runs = Runs(catalogue)
    keys = [runs.make(f"run@{step}", Asked(ids=[1, 2])).key for step in range(8)]
    assert runs[keys[-1]].trace.model is not None
    with pytest.raises(UnknownRun):
        runs[keys[0]]


WORDS = "He shook his head and the old man knew it was going to rain".split()  # noqa: SIM905
ROOM = 64 << 20
"""What the server below may keep of runs, and of answers."""
BOUND = 2 * ROOM
"""How much it may grow once all models are loaded: by what it may keep, and by nothing else.
Without bounds the requests below take some 500 MB."""


def resident(process):
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages << 12


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells of memory")
def test_two_thousand_mixed_requests_stay_within_a_bound(servers):
    served, random, keys = servers(kept=ROOM), Random(1), []
    with served.client() as client:
        before = most = 0
        for k in range(2000):
            if k % 4 == 0:
                model = random.choice(["gpt", "lstm", "rnn", "bert", "ffnn"])
                text = " ".join(random.choice(WORDS) for _ in range(random.choice([10, 40, 100])))
                answer = client.post("/api/runs", json={"model": model, "text": text})
                if answer.status_code == 200:  # some texts are too long for some models
                    keys = [*keys, answer.json()["id"]][-30:]
            key, other, p = random.choice(keys), random.choice(keys), random.randrange(3)
            asked = [
                f"?position={p}&word={random.randrange(90)}",
                *(f"/lens?first={p}", f"/gates?layer={p}", f"/contexts?position={p}"),
                *("/heads", "/figure", f"/vocabulary?search={p}", f"/against/{other}"),
            ]
            answer = client.get(f"/api/runs/{key}{random.choice(asked)}")
            assert answer.status_code < 500
            if k == 100:  # all models are there
                before = resident(served.process)
            most = max(most, resident(served.process))
    sys.stdout.write(f"{before >> 20} MB after 100 requests, at most {most >> 20} MB in 2,000\n")
    assert most - before < BOUND
