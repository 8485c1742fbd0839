"""Series along time: the tables they come in, their parts as published, and what is refused."""

import numpy as np
import pytest

from vesalius.data.settings import ForecastData
from vesalius.data.timelines import Timeline, borders, brief, fitted, read_timeline, scaled_parts
from vesalius.errors import ImpossibleSetting, UnusableData, VesaliusError, WrongLength
from vesalius.preparation import Preparation, Scaling
from vesalius.tasks.forecasting.intervals import conformal, half_width

DAYS = [f"2024-01-{day:02d}" for day in range(1, 13)]


def wide(path, days=DAYS, cells=None):
    rows = [f"{day},{i},{10 * i}" for i, day in enumerate(days)]
    path.write_text("\n".join(["date,a,b", *(cells or rows)]))
    return path


def test_wide_and_long_tables_and_arrays_hold_the_same_series(tmp_path):
    found = read_timeline(wide(tmp_path / "wide.csv"))
    assert found.names == ("a", "b")
    assert found.values[3].tolist() == [3, 30]
    rows = [f"{d},{10 * i if n == 'b' else i},{n}" for n in "ab" for i, d in enumerate(DAYS)]
    (tmp_path / "long.csv").write_text("\n".join(["ds,y,unique_id", *rows]))
    long = read_timeline(tmp_path / "long.csv")
    assert (long.names, long.times) == (found.names, found.times)
    np.save(tmp_path / "series.npy", found.values.T)
    for other in (long, read_timeline(tmp_path / "series.npy"), read_timeline(found.values.T)):
        np.testing.assert_array_equal(other.values, found.values)
    assert read_timeline([1.0, 2.0]).values.shape == (2, 1)


@pytest.mark.parametrize(
    ("times", "after"),
    [
        (("2024-02-28", "2024-02-29"), ["2024-03-01", "2024-03-02"]),
        (("2024-01-01 22:00:00", "2024-01-01 23:00:00"), ["2024-01-02 00:00:00"]),
        (("2023-10-31", "2023-11-30"), ["2023-12-30"]),
        (("2024-10-01", "2024-11-01"), ["2024-12-01", "2025-01-01", "2025-02-01"]),
        (("2023-12-31", "2024-12-31"), ["2025-12-31"]),
        (("20240228", "20240229"), ["20240301"]),
        (("1990/1/1 0:00", "1990/1/2 0:00"), ["1990/1/3 0:00"]),
        (("2010/10/8 23:00", "2010/10/9 0:00"), ["2010/10/9 1:00"]),
        (("2010/9/30 0:00:00", "2010/10/31 0:00:00"), ["2010/12/1 0:00:00"]),
        (("2010/09/01", "2010/10/01"), ["2010/11/01"]),
        (("2010/08/01 0:00", "2010/09/01 0:00"), ["2010/10/01 0:00"]),
        (("2024-1-30", "2024-1-31"), ["2024-2-1"]),
        (("1998", "1999"), ["2000", "2001"]),
        (("0.5", "0.75"), ["1", "1.25"]),
        (("week 1", "week 2"), ["1", "2"]),
        ((), ["1"]),
    ],
)
def test_the_times_that_follow_keep_the_step(times, after):
    assert Timeline(np.zeros((2, 1)), ("a",), times).after(len(after)) == after


def test_dates_with_the_year_first_need_no_zeros(tmp_path):
    times = [f"1990/1/{day} 0:00" for day in range(1, 13)]  # which are not in order as texts
    found = read_timeline(wide(tmp_path / "wide.csv", times))
    assert found.times == tuple(times)
    assert brief(found.times)[-1] == "1990/1/12"
    rows = [f"a,{time},{i}" for i, time in enumerate(times)]
    (tmp_path / "long.csv").write_text("\n".join(["unique_id,ds,y", *rows[::-1]]))
    assert read_timeline(tmp_path / "long.csv").times == found.times
    with pytest.raises(UnusableData, match=r"'1990/2/30 0:00' is not known to be a time"):
        read_timeline(wide(tmp_path / "wide.csv", [*times, "1990/2/30 0:00"]))


def test_numbers_and_dates_without_signs_are_times_too(tmp_path):
    """A long table is put in their order, 2 before 10; as text it would be another."""
    for times in (range(1, 13), range(20240101, 20240113)):
        found = read_timeline(wide(tmp_path / "wide.csv", times))
        assert (found.names, found.times) == (("a", "b"), tuple(map(str, times)))
        rows = [f"{n},{t},{10 * i if n == 'b' else i}" for i, t in enumerate(times) for n in "ab"]
        (tmp_path / "long.csv").write_text("\n".join(["unique_id,ds,y", *rows[::-1]]))
        long = read_timeline(tmp_path / "long.csv")
        assert long.times == found.times
        np.testing.assert_array_equal(long.values[:, ::-1], found.values)
    unnamed = [f"{i},{10 * i}" for i in range(5)]
    (tmp_path / "INDEX.CSV").write_text("\n".join([",a", *unnamed]))  # as pandas writes it
    assert read_timeline(tmp_path / "INDEX.CSV").names == ("a",)


def test_parts_are_those_of_the_published_code():
    """Borders of ETT: 12, 4 and 4 months of 30 days; else 70, 10 and 20 %, rounded down."""
    assert borders(17420, ForecastData(borders="ett-hours")) == (8640, 11520, 14400)
    assert borders(966, ForecastData()) == (676, 773, 966)
    values = np.arange(100.0, dtype=np.float32)[:, None]
    scaling = Scaling.of([values[:70]])
    parts = scaled_parts(Timeline(values, ("a",)), ForecastData(), scaling, 12, 4)
    assert [len(part) for part in parts] == [70 - 12 - 4 + 1, 10 - 4 + 1, 20 - 4 + 1]
    past, future = parts[2].rows(np.array([0, len(parts[2]) - 1]))
    undone = scaling.undo(np.concatenate([past, future], axis=1))[:, :, 0]
    np.testing.assert_allclose(undone, [np.arange(68, 84), np.arange(84, 100)], rtol=1e-6)
    assert scaling.apply(values[:70]).std() == pytest.approx(1)


def test_what_cannot_be_forecast_is_refused(tmp_path):
    gap = [day for day in DAYS if day != "2024-01-07"]
    cases = {
        "a gap of 2 days, 0:00:00 after 2024-01-06": lambda f: wide(f, gap),
        "expected dates that ascend": lambda f: wide(f, [*DAYS, "2024-01-03"]),
        "2024-01-03 follows 2024-01-04; expected": lambda f: wide(
            f, [*DAYS[:2], DAYS[3], *DAYS[2:]]
        ),
        "a gap of 2.0 after 6, where steps are of 1.0": lambda f: wide(f, [1, 2, 3, 4, 5, 6, 8]),
        "a gap of 2 days, 0:00:00 after 20240102": lambda f: wide(
            f, [20240101, 20240102, 20240104, 20240105]
        ),
        "'01/31/2024' is not known to be a time; expected dates as in 2024-01-31": lambda f: wide(
            f, ["01/31/2024", "02/01/2024"]
        ),
        "some dates have a time zone": lambda f: wide(f, ["2024-01-01", "2024-01-02T00:00:00Z"]),
        "column 'b': expected a number, got ''": lambda f: wide(f, cells=["2024-01-01,1,"]),
    }
    long = {
        "'b' has no value at 2024-01-02": ["a,2024-01-01,1", "a,2024-01-02,2", "b,2024-01-01,1"],
        "line 3, column 'y': expected a number": ["a,2024-01-01,1", "a,2024-01-02,?"],
        "has 2024-01-01 twice": ["a,2024-01-01,1", "a,2024-01-01,2"],
        "'1/2/24' is not known to be a time": ["a,1/1/24,1", "a,1/2/24,2"][::-1],
        "line 2: field larger than": [f'a,"{"x" * 200_000}'],
    }
    for message, make in cases.items():
        with pytest.raises(VesaliusError, match=message):
            read_timeline(make(tmp_path / "wide.csv"))
    for message, rows in long.items():
        (tmp_path / "long.csv").write_text("\n".join(["unique_id,ds,y", *rows]))
        with pytest.raises(VesaliusError, match=message):
            read_timeline(tmp_path / "long.csv")
    with pytest.raises(VesaliusError, match="channel 1 at time step 2"):
        read_timeline([[1, 2, 3], [1, 2, np.nan]])
    with pytest.raises(VesaliusError, match="no corpus of this name"):
        read_timeline("etth9")
    short = Timeline(np.zeros((40, 1), np.float32), ("a",))
    with pytest.raises(WrongLength, match=r"training part has 28 time steps .*24 \+ 8 = 32"):
        scaled_parts(short, ForecastData(), Scaling.of([short.values]), 24, 8)
    with pytest.raises(WrongLength, match="validation part has 16 time steps"):
        scaled_parts(short, ForecastData(), Scaling.of([short.values]), 12, 8)
    with pytest.raises(WrongLength, match="need 14,400 time steps"):
        borders(966, ForecastData(borders="ett-hours"))
    with pytest.raises(ImpossibleSetting, match="nothing to train on"):
        borders(966, ForecastData(split=0.5, test=0.5))
    (tmp_path / "s.txt").write_text("")
    with pytest.raises(VesaliusError, match="cannot be read as a series along time"):
        read_timeline(tmp_path / "s.txt")


def test_an_interval_holds_its_share_of_errors():
    """The rank is that of split conformal prediction: ⌈(m + 1) level⌉ of m."""
    sizes = np.random.default_rng(0).permutation(np.arange(1.0, 100.0))[:, None, None]
    kept = Preparation(intervals=conformal(sizes))
    assert [float(half_width(kept, level, 1, 1)[0, 0]) for level in (0.5, 0.8, 0.9, 0.95)] == [
        *(50, 80, 90, 95)
    ]
    assert half_width(Preparation(), 0.9, 1, 1) is None
    with pytest.raises(ImpossibleSetting, match=r"level 0\.7; it has 0\.5, 0\.8, 0\.9, 0\.95"):
        half_width(kept, 0.7, 1, 1)
    with pytest.raises(VesaliusError, match="intervals of 2 time steps and 1 channels"):
        half_width(kept, 0.9, 2, 1)


def test_a_single_channel_may_have_another_name():
    other = Timeline(np.arange(3.0)[:, None], ("sales",))
    assert fitted(other, 1, ("power",), "file.csv") is other
    two = Timeline(np.arange(6.0).reshape(3, 2), ("low", "high"))
    np.testing.assert_array_equal(
        fitted(two, 2, ("high", "low"), "file.csv").values, two.values[:, ::-1]
    )
