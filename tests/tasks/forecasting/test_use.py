"""Forecasts: trained, evaluated, told with intervals in the series' own units, and exchanged."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from strategies import filled, small

import vesalius as vs
from vesalius.equations import forecast_loss
from vesalius.errors import UnknownConfiguration, VesaliusError
from vesalius.explorer.uploads import Uploads
from vesalius.tasks.forecasting.baseline import last_value
from vesalius.training import train
from vesalius.training.recipe import recipe

SIZES = {"layers": 1, "embedding": 8, "heads": 2, "feedforward": 8, "context": 12, "horizon": 4}
BATCH = 8


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two waves, day by day."""
    rng, file = np.random.default_rng(0), tmp_path_factory.mktemp("data") / "waves.csv"
    days = np.arange("2020-01-01", "2020-07-19", dtype="datetime64[D]")
    i = np.arange(len(days))
    waves = 50 + 9 * np.sin(i / 2), 3 + np.cos(i / 3) + 0.1 * rng.normal(size=len(i))
    rows = [f"{d},{a:.4f},{b:.4f}" for d, a, b in zip(days, *waves, strict=True)]
    file.write_text("\n".join(["date,high,low", *rows]))
    return file


@pytest.fixture(scope="module")
def outcome(table, tmp_path_factory):
    said = {
        "family": "patchtst",
        "objective": "forecast",
        "model": {**SIZES, "patch": 4, "stride": 2},
        "data": {"corpus": str(table)},
        "training": {"steps": 20, "batch": BATCH, "learning_rate": 1e-2, "warmup": 0}
        | {"evaluate_every": 20},
    }
    return train(recipe(said), tmp_path_factory.mktemp("run"))


def test_every_window_of_the_test_part_is_scored(outcome, table):
    model = outcome.model
    measures = vs.evaluate(model, table)
    values = np.loadtxt(table, delimiter=",", skiprows=1, usecols=(1, 2)).astype(np.float32)
    scaled = (values - values[:140].mean(0)) / values[:140].std(0)
    windows = [scaled[i - 12 : i + 4] for i in range(160, 197)]
    with torch.no_grad():
        given = torch.tensor(np.array(windows)[:, :12], dtype=torch.float32)
        found = model.network(given).numpy()
    future = np.array(windows)[:, 12:]
    losses = [forecast_loss(y.T, true.T) for y, true in zip(found, future, strict=True)]
    assert (len(values), measures.examples) == (200, 37)
    numbers = measures.numbers
    assert numbers["mean_squared_error"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert numbers["mean_absolute_error"] == pytest.approx(np.abs(found - future).mean(), rel=1e-5)
    full = np.mean(losses[: 37 // BATCH * BATCH])
    assert numbers["mean_squared_error_of_full_batches"] == pytest.approx(full, rel=1e-5)
    last = ((last_value(np.array(windows)[:, :12], 4) - future) ** 2).mean()
    assert numbers["mean_squared_error_of_the_last_value"] == pytest.approx(last, rel=1e-5)
    assert numbers["mean_squared_error"] < last / 2, "twenty steps learn a wave"
    assert 0.5 < numbers["share_within_the_90_percent_interval"] <= 1
    assert "last part" in measures.part


def test_a_forecast_is_the_networks_in_the_series_own_units(outcome, table, tmp_path):
    model = outcome.model
    found = vs.forecast(model, table)
    kept = model.preprocessing
    mean, std = np.array(kept.mean), np.array(kept.std)
    values = np.loadtxt(table, delimiter=",", skiprows=1, usecols=(1, 2))
    with torch.no_grad():
        seen = torch.tensor((values[-12:] - mean) / std, dtype=torch.float32)
        network = model.network(seen[None])[0].numpy()
    np.testing.assert_allclose(found.values, network * std + mean, rtol=1e-4)
    half = np.array(kept.intervals["0.9"]) * std
    np.testing.assert_allclose(found.upper - found.values, half, rtol=1e-6)
    np.testing.assert_allclose(found.values - found.lower, half, rtol=1e-6)
    assert found.channels == ("high", "low")
    assert found.times == ("2020-07-19", "2020-07-20", "2020-07-21", "2020-07-22")
    array = vs.forecast(model, values.T, horizon=2, level=0.5)
    np.testing.assert_allclose(array.values, found.values[:2], rtol=1e-5)
    assert (array.upper - array.lower < found.upper[:2] - found.lower[:2]).all()
    assert array.times == ("1", "2")
    found.save(tmp_path / "next.csv")
    rows = list(csv.DictReader((tmp_path / "next.csv").read_text().splitlines()))
    assert (rows[5]["unique_id"], rows[5]["ds"]) == ("low", "2020-07-20")
    assert float(rows[5]["upper"]) == pytest.approx(found.upper[1, 1], rel=1e-5)
    assert json.loads(json.dumps(found.to_json()))["level"] == 0.9
    assert "high" in found.picture()
    assert "the last 12 of 200" in found._repr_html_()


def test_a_line_of_blocks_shows_past_and_forecast_at_one_pace(outcome, table):
    model, half = outcome.model, np.array([0.0, 0.0, 1.0, 1.0])
    seen = vs.forecast(model, table)
    of = {"past": np.tile(half, 84)[:, None], "channels": ("wave",), "times": tuple("abcd")}
    one = replace(seen, **of, values=half[:, None], lower=None, upper=None)
    line = next(part for part in one.view() if str(part).startswith("wave"))
    assert line == f"wave  {'██' + '▁▁██' * 7} | ▁▁██"
    # Of a long forecast each block is a mean, and so is each of the past.
    two = replace(one, times=("x",) * 40, values=np.tile(half, 10)[:, None])
    line = next(part for part in two.view() if str(part).startswith("wave"))
    assert line == f"wave  {'▁█' * 15} | {'▁█' * 10}"


def test_validation_names_the_errors(outcome):
    assert {"squared error", "absolute error"} <= set(outcome.valid)


def test_channels_go_by_their_names_in_any_order(outcome, table, tmp_path):
    model, turned, other = outcome.model, tmp_path / "turned.csv", tmp_path / "other.csv"
    rows = [line.split(",") for line in table.read_text().splitlines()]
    turned.write_text("\n".join(f"{date},{low},{high}" for date, high, low in rows))
    expected, found = vs.forecast(model, table), vs.forecast(model, turned)
    assert found.channels == ("high", "low")
    np.testing.assert_array_equal(found.values, expected.values)
    numbers = [vs.evaluate(model, file).numbers["mean_squared_error"] for file in (table, turned)]
    assert numbers[0] == numbers[1]
    other.write_text(turned.read_text().replace("high", "height"))
    for verb in (vs.forecast, vs.evaluate):
        with pytest.raises(
            VesaliusError, match=r"no channel 'high', but low, height; .*: high, low"
        ):
            verb(model, other)


def test_a_dissection_reads_a_file_as_a_forecast_does(outcome, table, tmp_path):
    model, long = outcome.model, tmp_path / "long.csv"
    (_, *names), *rows = (line.split(",") for line in table.read_text().splitlines())
    lines = [f"{names[c]},{row[0]},{row[c + 1]}" for c in (1, 0) for row in rows]
    long.write_text("\n".join(["unique_id,ds,y", *lines]))
    mean, std = map(np.array, (model.preprocessing.mean, model.preprocessing.std))
    expected = (vs.forecast(model, table).values - mean) / std
    values = np.loadtxt(table, delimiter=",", skiprows=1, usecols=(1, 2)).T
    for given in (table, long, values):
        trace = vs.dissect(model, given)
        np.testing.assert_allclose(trace["Omega_hat"].T, expected, rtol=1e-4, atol=1e-5)
        assert trace.prepared == "the last 12 of 200 time steps; scaled as in training"
    uploads = Uploads()
    (brought,) = uploads.read(model, uploads.add(long.read_bytes()).key)
    np.testing.assert_allclose(brought.values.T, (values.T[-12:] - mean) / std, rtol=1e-4)


def test_what_cannot_be_forecast_is_refused(outcome, table, tmp_path):
    model = outcome.model
    cases = [
        (np.zeros((3, 20)), {}, r"reads 2 channels: high, low; the series has 3"),
        (np.zeros((20, 2)), {}, "transpose it"),
        (np.zeros((2, 11)), {}, "looks back 12 time steps, the series has 11"),
        (table, {"horizon": 5}, "forecasts 4 time steps, got horizon 5"),
        (table, {"level": 0.7}, r"no interval of level 0\.7"),
    ]
    for given, more, message in cases:
        with pytest.raises(VesaliusError, match=message):
            vs.forecast(model, given, **more)
    with pytest.raises(VesaliusError, match="forecast needs a model of patchtst, this is tst"):
        vs.forecast(filled(small("tst")), table)
    wider = tmp_path / "wider.csv"
    wider.write_text("date,a,b,c\n2020-01-01,1,2,3\n2020-01-02,1,2,3\n")
    with pytest.raises(VesaliusError, match=r"reads 2 channels: high, low; .*wider.csv has 3"):
        vs.evaluate(model, str(wider))
    with pytest.raises(VesaliusError, match="without gaps"):
        vs.families.FAMILIES["patchtst"].run(
            model.parameters, np.zeros((2, 12)), {}, real=np.arange(12) > 2
        )


def test_channel_by_channel_is_the_same_as_all_at_once():
    model = filled(small("patchtst", affine=True))
    series = np.random.default_rng(0).normal(size=(2, 8))
    alone = vs.equations.patchtst_forecast(model.parameters, series)
    np.testing.assert_allclose(alone, vs.dissect(model, series)["Omega_hat"], rtol=1e-10)
    found = vs.forecast(model, series)
    np.testing.assert_allclose(found.values, alone.T, rtol=1e-5)  # read in single precision
    assert found.lower is None
    assert "preprocessing.json" in found.prepared


def test_transformers_own_checkpoints_are_read(tmp_path):
    """With its defaults: normalisation first, sinusoids that stand in the file."""
    transformers = pytest.importorskip("transformers")
    config = transformers.PatchTSTConfig(
        num_input_channels=2,
        context_length=13,
        patch_length=4,
        patch_stride=3,
        prediction_length=5,
        d_model=8,
        ffn_dim=12,
        num_attention_heads=2,
        num_hidden_layers=2,
        pooling_type=None,
    )
    torch.manual_seed(0)
    theirs = transformers.PatchTSTForPrediction(config).eval()
    with torch.no_grad():
        for name, buffer in theirs.named_buffers():
            if name.endswith("running_var"):
                buffer.uniform_(0.5, 2)
    theirs.save_pretrained(tmp_path)
    model = vs.load(tmp_path)
    series = np.random.default_rng(0).normal(size=(2, 13)).astype(np.float32)
    with torch.no_grad():
        expected = theirs(torch.tensor(series.T[None])).prediction_outputs[0].numpy()
    np.testing.assert_allclose(vs.forecast(model, series).values, expected, rtol=1e-5, atol=1e-5)
    assert model.config.variant == 2
    told = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**told, "pooling_type": "mean"}))
    with pytest.raises(UnknownConfiguration, match="pooling_type = 'mean'; only None"):
        vs.load(tmp_path)
    with pytest.raises(
        UnknownConfiguration, match="cannot say: end_padding = true, affine = true; keep"
    ):
        filled(small("patchtst", affine=True)).save(tmp_path / "ours", layout="huggingface")
