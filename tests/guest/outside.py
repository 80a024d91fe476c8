"""The host's half of the plugin: boots the guests and turns what they report into the outcomes of the tests here.

All selected tests that ask for the same guest run in one boot of it. A test that kills or hangs its guest fails with
the console's end, and the tests after it run in a new boot. Up to ``INLINETRACE_VM_PARALLEL`` (default 2) guests run at
once, those that may take longest first, whatever pytest waits for.
``INLINETRACE_VM_RESULTS`` names a directory where each boot leaves its console, pytest's output and the files of $OUT.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import pytest
from vmimages import kmodule, package
from vmimages.cache import RecipeError
from vmimages.console import troubles
from vmimages.machine import Machine, MachineError

from tests.guest.configs import GuestConfig, config_of, timeout_of
from tests.guest.host import write_values

REPOSITORY = Path(__file__).resolve().parents[2]

_RUN = """#!/bin/sh
cd /job/repo
mkdir -p /run/pytest
export INLINETRACE_GUEST=1 TMPDIR=/run/pytest PYTHONHASHSEED=0
exec python3 -m pytest -p no:cacheprovider -p no:faulthandler -o addopts= \\
    --strict-markers --tb=long -q @/job/tests > $OUT/pytest.txt 2>&1
"""
_BOOT_TIMEOUT = 180.0
_POLL = 0.02
# What may take longer than this has a limit for other days.
_LONG = 600.0


class Guest:
    """The tests of one configuration and the boots they run in."""

    def __init__(
        self, config: GuestConfig, items: list[pytest.Item], pytest_config: pytest.Config, idle: Callable[[], None]
    ) -> None:
        self.config = config
        self._idle = idle
        self._items = {item.nodeid: item for item in items}
        self._waiting = dict.fromkeys(self._items)
        self._reports: dict[str, list[pytest.TestReport]] = {nodeid: [] for nodeid in self._items}
        self._finished: set[str] = set()
        self._pytest_config = pytest_config
        self._machine: Machine | None = None
        self._messages: Iterator[dict[str, Any]] | None = None
        self._results: Path | None = None
        self._running: str | None = None
        self._boots = 0
        self._collect_errors: list[str] = []
        self._console_mark = 0

    @property
    def seconds(self) -> float:
        """How long its tests may take."""
        return sum(min(timeout_of(item), _LONG) for item in self._items.values())

    def start(self) -> None:
        """Boot a guest for the tests that have not run yet; a failure to do so becomes the outcome of them all."""
        if self._machine is not None or not self._waiting:
            return
        self._boots += 1
        self._collect_errors.clear()
        self._results = Path(tempfile.mkdtemp(prefix="inlinetrace-guest-"))
        try:
            with tempfile.TemporaryDirectory(prefix="inlinetrace-job-") as directory:
                job = Path(directory)
                self._write_job(job)
                self._machine = Machine(
                    self.config.options, job, self._results, test_requirements=[f"pytest=={version('pytest')}"]
                )
            self._machine.idle = self._idle
            self._messages = self._machine.messages(_BOOT_TIMEOUT)
        except (RecipeError, MachineError) as error:
            for nodeid in list(self._waiting):
                self._fail(nodeid, f"no guest {self.config.name}: {error}", "setup")

    @property
    def is_started(self) -> bool:
        """Whether this guest was booted for its tests, or has none left."""
        return self._machine is not None or not self._waiting

    @property
    def is_running(self) -> bool:
        """Whether a boot of this guest uses the machine now."""
        return self._machine is not None and self._machine.running

    def reports(self, nodeid: str) -> list[pytest.TestReport]:
        """The reports of a test, once it has run."""
        while nodeid not in self._finished:
            if self._machine is not None:
                self._advance()
            elif self._boots:
                # the boot before has died
                self.start()
            else:
                self._idle()
                time.sleep(_POLL)
        reports = self._reports[nodeid]
        if not self._waiting and self._finished == set(self._items) and self._machine is not None:
            self._end(nodeid, reports)
        return reports

    def stop(self) -> None:
        """End the guest, whatever it is doing."""
        if self._machine is not None:
            self._machine.stop()
            self._machine = None
        if self._results is not None:
            kept = os.environ.get("INLINETRACE_VM_RESULTS")
            if kept:
                place = Path(kept) / f"{self.config.name}-{self._boots}"
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(self._results, place)
            shutil.rmtree(self._results, ignore_errors=True)
            self._results = None

    def _write_job(self, job: Path) -> None:
        kernel_modules = kmodule.build(REPOSITORY / "tests" / "guest" / "module", self.config.options.kernel)
        shutil.copytree(package.site(), job / "site")
        shutil.copytree(kernel_modules, job / "module")
        repository = job / "repo"
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(REPOSITORY / "tests" / "guest", repository / "tests" / "guest", ignore=ignore)
        shutil.copytree(REPOSITORY / "vm-images", repository / "vm-images", ignore=ignore)
        for name in ("pyproject.toml", "tests/__init__.py", "tests/conftest.py", "tests/kernels.py"):
            shutil.copyfile(REPOSITORY / name, repository / name)
        modules = {sys.modules[name] for name in {self._module_name(nodeid) for nodeid in self._waiting}}
        write_values(modules, kmodule.find(self.config.options.kernel), job)
        (job / "tests").write_text("".join(f"{nodeid}\n" for nodeid in self._waiting))
        (job / "run").write_text(_RUN)
        (job / "run").chmod(0o755)

    def _module_name(self, nodeid: str) -> str:
        item = self._items[nodeid]
        module = item.getparent(pytest.Module)
        if module is None:
            raise RecipeError(f"{nodeid} is not in a module")
        return str(module.obj.__name__)

    def _advance(self) -> None:
        """Take in one message, or the guest's end."""
        if self._messages is None:
            raise MachineError("the guest was not started")
        try:
            message = next(self._messages, None)
        except MachineError as error:
            self._died(str(error))
            return
        if message is None:
            self._ended_early()
            return
        event, nodeid = message.get("event"), message.get("nodeid", "")
        if event == "collect":
            self._collect_errors.append(f"{nodeid}: {message['text']}")
        elif event == "start" and nodeid in self._waiting:
            self._running = nodeid
            self._limit(timeout_of(self._items[nodeid]))
        elif event == "report" and nodeid in self._waiting:
            report = self._pytest_config.hook.pytest_report_from_serializable(
                config=self._pytest_config, data=message["report"]
            )
            self._reports[nodeid].append(report)
            if report.when == "teardown":
                self._done(nodeid)

    def _limit(self, seconds: float) -> None:
        if self._machine is not None:
            self._machine.patience = seconds

    def _done(self, nodeid: str) -> None:
        self._waiting.pop(nodeid)
        self._finished.add(nodeid)
        self._running = None
        self._limit(_BOOT_TIMEOUT)

    def _died(self, why: str) -> None:
        running = self._running
        self.stop()
        if running is not None:
            self._fail(running, why, "call")
            return
        for nodeid in list(self._waiting):
            self._fail(nodeid, why, "setup")

    def _ended_early(self) -> None:
        """The guest has run all it found, and some tests were not among them."""
        output = ""
        if self._results is not None and (self._results / "pytest.txt").is_file():
            output = (self._results / "pytest.txt").read_text(errors="replace")[-8000:]
        why = "\n".join([*self._collect_errors, f"the guest {self.config.name} did not run this test:", output])
        for nodeid in list(self._waiting):
            self._fail(nodeid, why, "setup")

    def _fail(self, nodeid: str, text: str, when: Literal["setup", "call", "teardown"]) -> None:
        self._reports[nodeid].append(self._failure(nodeid, text, when))
        self._waiting.pop(nodeid, None)
        self._finished.add(nodeid)
        self._running = None

    def _failure(self, nodeid: str, text: str, when: Literal["setup", "call", "teardown"]) -> pytest.TestReport:
        item = self._items[nodeid]
        return pytest.TestReport(
            nodeid=nodeid,
            location=item.location,
            keywords=dict.fromkeys(item.keywords, 1),
            outcome="failed",
            longrepr=text,
            when=when,
        )

    def _end(self, nodeid: str, reports: list[pytest.TestReport]) -> None:
        """After the last test: let the guest finish, and hold its console against it."""
        machine = self._machine
        if machine is None:
            return
        try:
            if self._messages is not None:
                for _ in self._messages:
                    pass
            found = troubles(machine.console())
            if found:
                text = "the console of the guest tells of trouble:\n" + "\n".join(found)
                reports.append(self._failure(nodeid, text, "teardown"))
        except MachineError as error:
            reports.append(self._failure(nodeid, f"after the last test: {error}", "teardown"))
        self.stop()


class GuestRunner:
    """Runs the items that are marked ``guest`` in guests, all others being left to pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._guests: dict[GuestConfig, Guest] = {}
        self._order: list[Guest] = []
        self._parallel = max(1, int(os.environ.get("INLINETRACE_VM_PARALLEL", "2")))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Sort the selected items by guest."""
        if self._config.option.collectonly:
            return
        by_config: dict[GuestConfig, list[pytest.Item]] = {}
        for item in session.items:
            config = config_of(item)
            if config is not None:
                by_config.setdefault(config, []).append(item)
        self._guests = {
            config: Guest(config, items, self._config, self._start_more) for config, items in by_config.items()
        }
        # long ones first, so that the last ones to end are short
        self._order = sorted(self._guests.values(), key=lambda guest: -guest.seconds)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Report what the guest said about ``item``."""
        config = config_of(item)
        if config is None:
            return None
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self._start_more()
        for report in self._guests[config].reports(item.nodeid):
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        # pytest keeps packages and modules set up for the next item by what it believes was run before it.
        item.session._setupstate.teardown_exact(nextitem)
        return True

    def pytest_sessionfinish(self) -> None:
        """End what is still running after an interruption."""
        for guest in self._guests.values():
            guest.stop()

    def _start_more(self) -> None:
        """Start guests until as many run as may."""
        room = self._parallel - sum(guest.is_running for guest in self._order)
        for guest in self._order:
            if room > 0 and not guest.is_started:
                guest.start()
                room -= 1
