"""``vesalius forecast``: a table for people, JSON for machines, and files."""

import json

import numpy as np
from processes import is_complaint, shown, vesalius

import vesalius as vs


def test_a_forecast_is_shown_written_and_drawn(tmp_path):
    sizes = {"channels": 2, "context": 8, "patch": 4, "stride": 2, "horizon": 15}
    vs.create("patchtst", layers=1, **sizes).save(tmp_path / "model")
    days = np.arange("2024-01-01", "2024-01-10", dtype="datetime64[D]")
    rows = [f"{day},{i},{i * i}" for i, day in enumerate(days)]
    (tmp_path / "series.csv").write_text("\n".join(["date,up,far", *rows]))
    given = (str(tmp_path / "model"), str(tmp_path / "series.csv"))
    out = ("--out", str(tmp_path / "next.csv"), "--plot", str(tmp_path / "next.png"))
    text = shown("forecast", *given, *out)
    assert "2024-01-10" in text
    assert "…" in text
    assert (tmp_path / "next.csv").read_text().startswith("unique_id,ds,y\nup,2024-01-10,")
    assert (tmp_path / "next.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(shown("forecast", *given, "--horizon", "3", "--json"))
    assert np.shape(found["values"]) == (3, 2)
    done = vesalius("forecast", *given, "--horizon", "16")
    assert (done.returncode, done.stdout) == (2, "")
    assert is_complaint(done.stderr)
