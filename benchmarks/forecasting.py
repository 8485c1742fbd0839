"""Forecasts without a network on ETTh1 and national illness, on the windows that recipes test on.

``python benchmarks/forecasting.py`` prints mean squared and absolute errors of scaled values over
every window, and beside them without the last batch that is not full, as published code has them.
"""

from functools import partial

from vesalius.baselines.forecasting import fit_dlinear, last_season, last_value, measure
from vesalius.data.batches import Scaling
from vesalius.data.settings import ForecastData
from vesalius.data.timelines import borders, read_timeline, scaled_parts

ETTH1 = (ForecastData(corpus="etth1", borders="ett-hours"), 336, (96, 192, 336, 720), 128, 24)
ILLNESS = (ForecastData(corpus="national-illness"), 104, (24, 36, 48, 60), 16, 52)
"""Data, look-back, horizons, the published batch, and time steps of a season: a day, a year."""


def main() -> None:
    print("| corpus | horizon | windows | method | MSE | MAE | MSE of full batches |")
    print("| --- | ---: | ---: | --- | ---: | ---: | ---: |")
    for data, context, horizons, batch, season in (ETTH1, ILLNESS):
        timeline = read_timeline(data.corpus)
        scaling = Scaling.of([timeline.values[: borders(len(timeline), data)[0]]])
        for horizon in horizons:
            train, valid, test = scaled_parts(timeline, data, scaling, context, horizon)
            full = len(test) // batch * batch
            dlinear = fit_dlinear(train, valid)
            methods = {
                "last value": partial(last_value, horizon=horizon),
                "last season": partial(last_season, horizon=horizon, season=season),
                f"DLinear, ridge {dlinear.ridge:g}": dlinear,
            }
            for name, method in methods.items():
                (mse, mae), (published, _) = measure(method, test), measure(method, test, full)
                cells = (data.corpus, horizon, len(test), name)
                numbers = (f"{number:.4f}" for number in (mse, mae, published))
                print(f"| {' | '.join(map(str, (*cells, *numbers)))} |", flush=True)


if __name__ == "__main__":
    main()
