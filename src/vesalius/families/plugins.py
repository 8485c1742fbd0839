"""Rows that other packages add to a table, by an entry point."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from vesalius.errors import BrokenPlugin


class Named(Protocol):
    @property
    def name(self) -> str: ...


Row = TypeVar("Row", bound=Named)


def with_added(group: str, kind: type[Row], ours: Sequence[Row]) -> tuple[Row, ...]:
    """Our rows, and those of other packages, which have names of their own."""
    from importlib.metadata import entry_points

    rows, what = {row.name: row for row in ours}, kind.__name__
    for point in entry_points(group=group):
        try:
            row = point.load()
        except Exception as error:
            raise BrokenPlugin(
                f"the {what.lower()} {point.name} of {point.value!r} cannot be loaded: {error}"
            ) from error
        if not isinstance(row, kind) or row.name in rows:
            raise BrokenPlugin(
                f"{point.value!r} in the entry points {group} must be a {what} with a name of its "
                f"own, got {getattr(row, 'name', row)!r}"
            )
        rows[row.name] = row
    return tuple(rows.values())
