"""Properties that are computed once and then kept.

Python 3.11's holds one lock for all objects of a class while it computes. A process that forked
meanwhile would wait for it for ever; this one has no lock.
"""

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 (as Python's)
        """As ``functools.cached_property``; of threads that compute at once, the first is right."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))
