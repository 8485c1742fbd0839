"""The learning-rate schedule: warm-up, then cosine decay, steps, or no change.

It is a function of the step alone: a resumed run has no scheduler state to restore.
"""

import math

from vesalius.training.settings import Training


def learning_rate(settings: Training, step: int) -> float:
    """The learning rate of a step, counted from 0.

    Warm-up rises in equal steps to the full rate. Cosine decay reaches its end, the share
    ``final_rate``, after the last step: where that share is 0, no step is lost.
    """
    since = step - settings.warmup
    if since < 0:
        return settings.learning_rate * (step + 1) / (settings.warmup + 1)
    if settings.schedule == "constant":
        return settings.learning_rate
    if settings.schedule == "step":
        return settings.learning_rate * settings.step_factor ** (since // settings.step_every)
    done = min(1.0, since / max(1, settings.steps - settings.warmup))
    left = settings.final_rate
    return settings.learning_rate * (left + (1 - left) * (1 + math.cos(math.pi * done)) / 2)
