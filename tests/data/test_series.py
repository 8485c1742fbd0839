"""Time series are read as they stand, scaled by what is trained on, padded and masked.

Those named after published data need the files of VESALIUS_DATA.
"""

import subprocess
import sys

import numpy as np
import pytest
from published import published

from vesalius.data.batches import require_labels
from vesalius.data.series import (
    LabelledSeries,
    MaskedSeries,
    Series,
    cut,
    read_csv,
    read_tables,
    read_ts,
    renamed,
    split,
    windows,
)
from vesalius.errors import (
    BrokenFile,
    EmptyCorpus,
    ImpossibleSetting,
    NotFinite,
    UnusableData,
    WrongLength,
)
from vesalius.preparation import Scaling


def data(name):
    return published(f"timeseries/{name}")


def written(folder, text, name="some.ts"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


HEADER = "# a remark\n@problemName Some\n@univariate false\n@dimensions 2\n@classLabel true a b\n"


def test_importing_needs_neither_torch_nor_pandas():
    code = "import vesalius.data.series, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "pandas"} & set(done.stdout.split())


def test_a_ts_file_gives_series_of_any_length_with_their_classes(tmp_path):
    series = read_ts(written(tmp_path, HEADER + "@data\n1,2,3:4,5,6:b\n# once more\n7:8:a\n\n"))
    assert [values.tolist() for values in series.values] == [[[1, 4], [2, 5], [3, 6]], [[7, 8]]]
    assert all(values.dtype == np.float32 for values in series.values)
    assert series.labels.tolist() == [1, 0]
    assert series.labels.dtype == np.int64
    assert series.names == ("a", "b")
    assert len(series) == 2


def test_a_ts_file_may_have_no_classes_one_channel_and_capitals_as_it_likes(tmp_path):
    series = read_ts(written(tmp_path, "@UniVariate TRUE\n@CLASSLABEL False\n@DATA\n1,2\r\n3"))
    assert [values.tolist() for values in series.values] == [[[1], [2]], [[3]]]
    assert series.labels is None
    assert series.names == ()


def test_gaps_of_a_ts_file_are_nan(tmp_path):
    (values,) = read_ts(written(tmp_path, HEADER + "@data\n1,?,3:NaN,5,6:b\n")).values
    np.testing.assert_equal(values, np.array([[1, np.nan], [np.nan, 5], [3, 6]], np.float32))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("1,2\n", BrokenFile, "no line @data"),
        (HEADER + "@data\n", EmptyCorpus, "holds no series"),
        (HEADER + "@data\n1:2:b\n1:b\n", UnusableData, "line 8: expected 2 channels, got 1"),
        ("@targetLabel true\n@data\n3\n", UnusableData, "line 3: expected values before"),
        ("@univariate true\n@data\n1:2\n", UnusableData, "line 3: expected 1 channels, got 2"),
        (HEADER + "@data\n1:2:c\n", UnusableData, "line 7: no class 'c'; there are: a, b"),
        (HEADER + "@data\n1,x:2,3:a\n", UnusableData, "line 7, channel 1: .* got 'x'; a gap"),
        (HEADER + "@data\n1,2:2,1e39:a\n", UnusableData, "channel 2: .* got '1e39'"),
        (HEADER + "@data\n1,2:2:a\n", UnusableData, "channels of one length, got 2, 1"),
        (HEADER + "@data\n?,?:?,NaN:a\n", UnusableData, "line 7: the series is one gap"),
        ("@timeStamps true\n@data\n(0,1)\n", UnusableData, "has time stamps"),
        ("@classLabel true\n@data\n1:2\n", BrokenFile, "lists no classes"),
        ("@dimensions many\n@data\n1:2\n", BrokenFile, "dimensions, got 'many'"),
    ],
)
def test_a_ts_file_that_cannot_be_used_says_where_and_why(tmp_path, text, error, message):
    with pytest.raises(error, match=message):
        read_ts(written(tmp_path, text))


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "some.ts").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BrokenFile, match=r"some\.ts is not UTF-8"):
        read_ts(tmp_path / "some.ts")


def test_a_table_is_read_without_its_dates(tmp_path):
    table = read_csv(written(tmp_path, "date,x, y\n2020-01-01,1,2.5\n2020-01-02,-3,4e2\n\n"))
    assert table.names == ("x", "y")
    assert table.values.tolist() == [[1, 2.5], [-3, 400]]
    assert table.values.dtype == np.float32


def test_a_first_column_of_numbers_is_a_channel(tmp_path):
    assert read_csv(written(tmp_path, "x,y\n1,2\n3,4\n")).names == ("x", "y")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("x,y\n", EmptyCorpus, "holds no rows"),
        ("", EmptyCorpus, "holds no rows"),
        ("1,2\n3,4\n", UnusableData, "starts with numbers; expected the columns' names"),
        ("x,y\n1,2\n3\n", UnusableData, "line 3: expected 2 cells, got 1"),
        ("t,x,y\na,1,2\n\nb,3,\n", UnusableData, "line 4, column 'y': .* got ''; fill the gap"),
        ("x,y\n1,2\nlow,3\n", UnusableData, "line 3, column 'x': expected a number, got 'low'"),
        ("x,y\n1,NaN\n", NotFinite, "line 2, column 'y': expected a number, got 'NaN'"),
        ("x,y\n1,-inf\n", NotFinite, "column 'y': expected a number, got '-inf'"),
        ("x,y\n1,1e39\n", NotFinite, "column 'y': expected a number, got '1e39'"),
        ("x;y\n1;2\n", UnusableData, "no column of numbers; expected some, separated by commas"),
        ("date,x,x\n2020-01-01,1,2\n", UnusableData, "has the column 'x' twice; expected diff"),
        ("2020-01-01,1\n2020-01-02,2\n", UnusableData, "starts with numbers; expected the colu"),
    ],
)
def test_a_table_that_cannot_be_used_says_where_and_why(tmp_path, text, error, message):
    with pytest.raises(error, match=message):
        read_csv(written(tmp_path, text))


def test_an_unknown_column_is_named(tmp_path):
    with pytest.raises(UnusableData, match="no column 'HUFF'; did you mean HUFL"):
        read_csv(written(tmp_path, "HUFL,OT\n1,2\n"), label="HUFF")


def rows(count, channels=2):
    return np.arange(count * channels, dtype=np.float32).reshape(count, channels)


def test_a_column_of_labels_is_no_channel(tmp_path):
    table = read_csv(written(tmp_path, "kind,x\nup,1\n down,2\n"), label="kind")
    assert (table.names, table.labels) == (("x",), ("up", "down"))
    assert table.values.tolist() == [[1], [2]]
    assert read_csv(written(tmp_path, "x,7\n1,2\n"), label="7").names == ("x",)


def test_every_table_of_a_folder_is_a_series(tmp_path):
    for name, rows in (("b", "5,6\n7,8"), ("a", "1,2"), ("c", "9,10")):
        written(tmp_path, f"x,y\n{rows}\n", f"{name}.csv")
    written(tmp_path, "no table", "notes.txt")
    series = read_tables(tmp_path)
    assert [values.tolist() for values in series.values] == [[[1, 2]], [[5, 6], [7, 8]], [[9, 10]]]
    assert (series.labels, series.names) == (None, ())


def test_every_stretch_of_rows_with_one_label_is_a_series(tmp_path):
    text = "x,kind\n1,up\n2,up\n3,down\n4,up\n"
    series = read_tables(written(tmp_path, text, "some.csv"), label="kind")
    assert [values.ravel().tolist() for values in series.values] == [[1, 2], [3], [4]]
    assert [series.names[label] for label in series.labels] == ["up", "down", "up"]


def test_classes_keep_their_names_among_more():
    series = Series([np.zeros((2, 1))] * 3, np.array([0, 1, 0]), ("a", "c"))
    more = renamed(series, ["a", "b", "c"])
    assert (more.labels.tolist(), more.names) == ([0, 2, 0], ("a", "b", "c"))


def test_series_become_windows_with_their_labels_and_short_ones_stay():
    series = Series(
        [np.arange(7.0)[:, None], np.arange(2.0)[:, None]], np.array([1, 0]), ("a", "b")
    )
    windowed = cut(series, 3)
    assert [w.ravel().tolist() for w in windowed.values] == [[0, 1, 2], [3, 4, 5], [0, 1]]
    assert windowed.labels.tolist() == [1, 1, 0]
    assert [w[0, 0] for w in cut(series, 3, stride=2).values] == [0, 2, 4, 0]
    assert cut(Series(series.values), 3).labels is None


def test_the_last_share_of_every_series_is_held_out():
    series = Series(
        [np.arange(n)[:, None] for n in (10, 1, 4)], np.array([0, 1, 2]), ("a", "b", "c")
    )
    before, after = split(series, 0.25)
    assert [values.ravel().tolist() for values in before.values] == [[*range(8)], [0], [0, 1, 2]]
    assert [values.ravel().tolist() for values in after.values] == [[8, 9], [3]]
    assert (before.labels.tolist(), after.labels.tolist()) == ([0, 1, 2], [0, 2])
    with pytest.raises(ImpossibleSetting, match="a share of 0 of 10 time steps is none"):
        split(series, 0)


def test_windows_are_a_stride_apart_and_complete():
    cut = windows(rows(10), length=4, stride=3)
    assert cut.shape == (3, 4, 2)
    for number, start in enumerate((0, 3, 6)):
        assert (cut[number] == rows(10)[start : start + 4]).all()
    assert len(windows(rows(10), 10)) == 1
    with pytest.raises(WrongLength, match="10 rows has no window of 11"):
        windows(rows(10), 11)
    with pytest.raises(ImpossibleSetting, match="length and stride from 1, got 2 and 0"):
        windows(rows(10), 2, 0)


def test_scaling_gives_every_channel_zero_mean_and_unit_deviation(rng):
    values = [rng.normal(50, 3, (n, 4)).astype(np.float32) * [1, 10, 0.1, 5] for n in (8, 30, 9)]
    scaling = Scaling.of(values)
    scaled = np.concatenate([scaling.apply(series) for series in values])
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), 1, rtol=1e-5)
    np.testing.assert_allclose(scaling.undo(scaling.apply(values[0])), values[0], rtol=1e-6)


def test_a_constant_channel_becomes_zero_and_comes_back():
    values = np.full((1000, 1), 0.1, np.float32)
    scaling = Scaling.of([values])
    assert scaling.std.tolist() == [1]
    assert (scaling.apply(values) == 0).all()
    assert (scaling.undo(scaling.apply(values)) == values).all()


def test_gaps_do_not_count_in_the_scaling_and_a_channel_of_gaps_is_left_alone():
    nan = np.nan
    scaling = Scaling.of([np.array([[1, nan], [nan, nan]]), np.array([[5, nan]])])
    assert scaling.mean.tolist() == [3, 0]
    assert scaling.std.tolist() == [2, 1]


def some_series(rng, count, longest=9, channels=3):
    lengths = rng.integers(2, longest + 1, count)
    values = [rng.normal(5, 2, (n, channels)).astype(np.float32) for n in lengths]
    return Series(values, rng.integers(0, 2, count), ("a", "b"))


@pytest.fixture
def two(rng):
    return {"training": some_series(rng, 20), "validation": some_series(rng, 7)}


def test_labelled_series_are_scaled_and_padded_with_zeros(two):
    batches = LabelledSeries(**two, batch=4, context=12)
    scaling = Scaling.of(two["training"].values)
    found = []
    for step in range(5):
        batch = batches.train(step)
        assert {key: value.shape for key, value in batch.items()} == {
            "series": (4, 12, 3),
            "real": (4, 12),
            "labels": (4,),
        }
        assert [batch[k].dtype for k in ("series", "real", "labels")] == [
            "float32",
            "bool",
            "int64",
        ]
        for series, real, label in zip(*batch.values(), strict=True):
            assert real.tolist() == [True] * real.sum() + [False] * (12 - real.sum())
            assert (series[~real] == 0).all()
            found.append((scaling.undo(series[real]), label))
    for values, label in zip(two["training"].values, two["training"].labels, strict=True):
        matches = [
            other_label
            for other, other_label in found
            if len(other) == len(values) and np.allclose(other, values, atol=1e-5)
        ]
        assert matches == [label]  # once an epoch, with its own label


def test_validation_series_come_in_order_scaled_as_those_trained_on(two):
    batches = LabelledSeries(**two, batch=4, context=9)
    scaling = Scaling.of(two["training"].values)
    series, real, labels = (
        np.concatenate([batch[key] for batch in batches.valid()])
        for key in ("series", "real", "labels")
    )
    assert [len(batch["series"]) for batch in batches.valid()] == [4, 3]
    assert (labels == two["validation"].labels).all()
    for number, values in enumerate(two["validation"].values):
        assert (series[number, : len(values)] == scaling.apply(values)).all()
        assert real[number].sum() == len(values)


def test_a_scaling_of_ones_own_is_used(two):
    mine = Scaling(np.zeros(3), np.full(3, 2.0))
    batch = next(LabelledSeries(**two, batch=4, context=9, scaling=mine).valid())
    first = two["validation"].values[0]
    assert (batch["series"][0, : len(first)] == first / 2).all()


def test_masked_series_hide_real_values_and_nothing_else(two):
    batches = MaskedSeries(**two, batch=20, context=12)
    plain = LabelledSeries(**two, batch=20, context=12)
    for step in range(3):
        batch = batches.train(step)
        masked = batch["masked"]
        assert [batch[key].dtype for key in ("series", "target", "masked", "real")] == [
            "float32",
            "float32",
            "bool",
            "bool",
        ]
        assert masked.shape == (20, 12, 3)
        assert masked.any()
        assert not masked[~batch["real"]].any()
        assert (batch["series"][masked] == 0).all()
        assert (batch["series"][~masked] == batch["target"][~masked]).all()
        assert (batch["target"] == plain.train(step)["series"]).all()
        assert (batch["real"] == plain.train(step)["real"]).all()


def test_masked_series_use_the_ratio_and_the_length_said(rng):
    whole = Series([rng.normal(size=(200, 2)).astype(np.float32) for _ in range(100)])
    settings = {"training": whole, "validation": whole, "batch": 100, "context": 200}
    half = MaskedSeries(**settings, ratio=0.5, mean_length=5).train(0)["masked"]
    stops = (half[:, :-1] & ~half[:, 1:]).sum() / half[:, :-1].sum()
    # The standard errors of 40,000 steps in runs of 5 and 5 are 0.005 and 0.0029.
    assert abs(half.mean() - 0.5) < 5 * 0.005
    assert abs(stops - 1 / 5) < 5 * 0.0029


def test_gaps_are_zero_never_masked_and_a_step_of_gaps_is_not_real(rng):
    values = rng.normal(size=(6, 2)).astype(np.float32)
    values[1, 0] = np.nan
    values[4] = np.nan
    whole = Series([values] * 50, np.zeros(50, np.int64))
    settings = {"training": whole, "validation": whole, "batch": 50, "context": 8}
    batch = MaskedSeries(**settings, ratio=0.5).train(0)
    assert (batch["target"][:, 1, 0] == 0).all()
    assert np.isfinite(batch["series"]).all()
    assert not batch["masked"][:, 1, 0].any()
    assert not batch["masked"][:, 4].any()
    assert batch["masked"][:, 1, 1].any()
    assert batch["real"][0].tolist() == [True] * 4 + [False, True, False, False]
    assert (LabelledSeries(**settings).train(0)["real"] == batch["real"]).all()


def test_there_is_always_something_to_restore(rng):
    tiny = Series([rng.normal(size=(2, 1)).astype(np.float32)])
    batches = MaskedSeries(training=tiny, validation=tiny, batch=1, context=3, ratio=1e-6)
    places = [np.flatnonzero(batches.train(step)["masked"]).tolist() for step in range(40)]
    assert all(places)
    assert {place for found in places for place in found} == {0, 1}


@pytest.mark.parametrize("kind", [LabelledSeries, MaskedSeries])
def test_a_batch_is_a_function_of_seed_and_step(two, kind):
    def batches(seed):
        return kind(**two, batch=4, context=9, seed=seed)

    def same(one, other):
        return all((one[key] == other[key]).all() for key in one)

    assert same(batches(1).train(3), batches(1).train(3))
    assert not same(batches(1).train(3), batches(1).train(4))
    assert not same(batches(1).train(3), batches(2).train(3))
    ours = batches(1)
    assert all(same(a, b) for a, b in zip(ours.valid(), ours.valid(), strict=True))


def test_validation_masks_differ_from_batch_to_batch_and_from_those_trained_on(rng):
    whole = Series([rows(50)] * 12)
    batches = MaskedSeries(training=whole, validation=whole, batch=4, context=50)
    masks = [batch["masked"] for batch in (*batches.valid(), *map(batches.train, range(3)))]
    assert len({mask.tobytes() for mask in masks}) == 6


def test_parts_that_do_not_belong_together_are_refused(rng, two):
    other = some_series(rng, 5, channels=2)
    with pytest.raises(UnusableData, match="series 0 of the validation part has 2 channels"):
        MaskedSeries(training=two["training"], validation=other, batch=4, context=9)
    nameless = Series(two["validation"].values)
    with pytest.raises(UnusableData, match="the validation part has no labels"):
        require_labels(two["training"], nameless)
    swapped = Series(two["validation"].values, two["validation"].labels, ("b", "a"))
    with pytest.raises(UnusableData, match="to train on are a, b, those to validate on b, a"):
        require_labels(two["training"], swapped)


def test_japanese_vowels_are_as_published():
    train, test = (read_ts(data(f"JapaneseVowels_{part}.ts")) for part in ("TRAIN", "TEST"))
    assert (len(train), len(test)) == (270, 370)
    lengths = [len(values) for part in (train, test) for values in part.values]
    assert (min(lengths), max(lengths)) == (7, 29)
    assert {values.shape[1] for values in (*train.values, *test.values)} == {12}
    assert train.names == test.names == tuple("123456789")
    assert np.bincount(train.labels).tolist() == [30] * 9
    assert np.bincount(test.labels).tolist() == [31, 35, 88, 44, 29, 24, 40, 50, 29]
    assert train.values[0][0, :2].tolist() == np.float32([1.860936, -0.207383]).tolist()
    batches = LabelledSeries(training=train, validation=test, batch=64, context=29)
    assert sum(len(batch["labels"]) for batch in batches.valid()) == 370
    assert batches.train(0)["series"].shape == (64, 29, 12)


def test_ett_and_illness_are_as_published():
    ett, illness = read_csv(data("ETTh1.csv")), read_csv(data("national_illness.csv"))
    assert ett.values.shape == (17_420, 7)
    assert ett.names == ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
    assert ett.values[0, 6] == np.float32(30.5310001373291)
    assert illness.values.shape == (966, 7)
    assert (
        illness.values[0].tolist()
        == np.float32([1.22262, 1.16668, 582, 805, 2060, 754, 176569]).tolist()
    )
    train, valid, test = np.split(ett.values, [12_194, 13_936])
    assert len(train) + len(valid) + len(test) == 17_420
    whole = {
        "training": Series(windows(train, 96, 24)),
        "validation": Series(windows(valid, 96, 96)),
    }
    batch = MaskedSeries(**whole, batch=32, context=96, scaling=Scaling.of([train])).train(0)
    assert batch["series"].shape == (32, 96, 7)
    assert batch["real"].all()


def test_a_cell_that_is_longer_than_any_cell_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text(f"a,b\n1,2\n{'9' * 200_000},3\n")
    with pytest.raises(BrokenFile, match=r"x\.csv, line 3: field larger than field limit"):
        read_csv(tmp_path / "x.csv")


def test_a_number_may_end_each_line_of_a_ts_file(tmp_path):
    file = tmp_path / "targets.ts"
    file.write_text("@univariate true\n@targetlabel true\n@data\n1,2:0.5\n3:-1e3\n")
    read = read_ts(file)
    assert read.targets.tolist() == [0.5, -1000]
    assert (read.labels, read.names) == (None, ())
    for wrong in ("", "?", "nan", "inf", "high"):
        file.write_text(f"@univariate true\n@targetlabel true\n@data\n1,2:0.5\n3:{wrong}\n")
        with pytest.raises(UnusableData, match="line 5: expected a number to end the line"):
            read_ts(file)
    file.write_text("@classlabel true a\n@targetlabel true\n@data\n1,2:a\n")
    with pytest.raises(BrokenFile, match="classes and targets; expected one of them"):
        read_ts(file)
