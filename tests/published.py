"""What others published: the files of VESALIUS_DATA, which tests can do without and CI cannot."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def published(name: str) -> Path:
    """A file or folder of VESALIUS_DATA; the test that asks for it is skipped where it is not."""
    if "VESALIUS_DATA" not in os.environ:
        pytest.skip(f"set VESALIUS_DATA to the folder with {name}")
    path = Path(os.environ["VESALIUS_DATA"]) / name
    if not path.exists():
        pytest.skip(f"there is no {name} in VESALIUS_DATA")
    return path


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[Any]:
    """Where CI is true, a test without its data fails."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and "VESALIUS_DATA" in reason(report):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {reason(report)}"
    return report


def reason(report: pytest.TestReport) -> str:
    return report.longrepr[-1] if isinstance(report.longrepr, tuple) else ""
