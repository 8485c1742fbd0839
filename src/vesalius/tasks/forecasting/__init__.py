"""The time steps that follow a series."""

from vesalius.families.family import Lazy
from vesalius.tasks.task import Task

TASKS = (
    Task(
        name="forecast",
        option="forecast",
        objective=Lazy("vesalius.tasks.forecasting.objective:FORECAST"),
        kinds={"timeline": {}},
        examples="windows",
        then=("forecast {folder} {data}", "evaluate {folder} {data}"),
        epochs=4,
        training={"batch": 128, "optimiser": "adam", "warmup": 0, "weight_decay": 0.0},
        follows=("channels",),
    ),
)
