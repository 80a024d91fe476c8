"""The guest's half of the plugin: sends each test's reports to the host as it goes.

One JSON object per line on the second serial port: ``start`` (a test begins), ``report`` (pytest's own serialised
report), ``collect`` (a file could not be collected).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

CHANNEL = "/dev/ttyS1"


def _send(event: str, **content: Any) -> None:
    line = json.dumps({"event": event, **content}, ensure_ascii=True)
    with open(CHANNEL, "wb", buffering=0) as channel:
        data = b"\n" + line.encode() + b"\n"
        while data:
            data = data[channel.write(data) :]


class Reporter:
    """Passes on what pytest reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell which test runs, so that the host knows which one a dying guest takes with it."""
        _send("start", nodeid=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send the outcome of a test's phase with its captured output."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        _send("report", nodeid=report.nodeid, report=data)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Send why a file cannot be collected."""
        if report.failed:
            _send("collect", nodeid=report.nodeid, text=report.longreprtext)
