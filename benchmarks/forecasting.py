"""Forecasts without a network on ETTh1 and national illness, on the windows that recipes test on.

``python benchmarks/forecasting.py`` prints mean squared and absolute errors of scaled values over
every window, and those without the last batch that is not full, as published code has them.
``--write`` keeps them in forecasting.jsonl, from which `make docs` makes tables.
"""

import argparse
import json
from functools import partial
from pathlib import Path

from vesalius.data.settings import ForecastData
from vesalius.data.timelines import borders, read_timeline, scaled_parts
from vesalius.preparation import Scaling
from vesalius.tasks.forecasting.baseline import fit_dlinear, last_season, last_value, measure

KEPT = Path(__file__).with_suffix(".jsonl")
ETTH1 = (ForecastData(corpus="etth1", borders="ett-hours"), 336, (96, 192, 336, 720), 128, 24)
ILLNESS = (ForecastData(corpus="national-illness"), 104, (24, 36, 48, 60), 16, 52)
"""Data, look-back, horizons, the published batch, and time steps of a season: a day, a year."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", action="store_true")
    asked, lines = arguments.parse_args(), []
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
                "DLinear": dlinear,
            }
            for name, method in methods.items():
                (mse, mae), (published, _) = measure(method, test), measure(method, test, full)
                found = {"corpus": data.corpus, "horizon": horizon, "method": name}
                found |= {"windows": len(test)}
                found |= {"ridge": dlinear.ridge} if method is dlinear else {}
                found |= {"mean_squared_error": round(float(mse), 6)}
                found |= {"mean_absolute_error": round(float(mae), 6)}
                found |= {"mean_squared_error_of_full_batches": round(float(published), 6)}
                lines.append(json.dumps(found))
                print(lines[-1], flush=True)
    if asked.write:
        KEPT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
