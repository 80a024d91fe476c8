"""Makes ``@pytest.mark.guest`` work, and checks after each guest test that the kernel is as it was before.

Outside, the tests so marked are handed to guests (``outside.py``); the same file is loaded in the guest, where they run
(``inside.py``). docs/guests.md tells how to write one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.guest import configs
from tests.guest.configs import INSIDE
from tests.guest.faults import as_nobody, kptr_restrict_2, no_tracefs, read_only_root
from tests.guest.testmodule import inline_shapes

__all__ = ["as_nobody", "inline_shapes", "kptr_restrict_2", "no_tracefs", "read_only_root"]


def pytest_configure(config: pytest.Config) -> None:
    """Load the half of the plugin that belongs here."""
    if INSIDE:
        from tests.guest.inside import Reporter

        config.pluginmanager.register(Reporter(config), "guest-reporter")
    else:
        from tests.guest.outside import GuestRunner

        config.pluginmanager.register(GuestRunner(config), "guest-runner")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run of a guest test for each guest it asks for."""
    configs.parametrize(metafunc)


@pytest.fixture(scope="session", autouse=True)
def guest_machine(request: pytest.FixtureRequest) -> configs.GuestConfig | None:
    """The guest that runs the test; None for tests that run outside."""
    config: configs.GuestConfig | None = getattr(request, "param", None)
    return config


@pytest.fixture(autouse=True)
def kernel_is_as_before(guest_machine: configs.GuestConfig | None) -> Iterator[None]:
    """Fail the test if it leaves events, groups, knobs or modules behind, or if the kernel complained meanwhile."""
    if not INSIDE or guest_machine is None:
        yield
        return
    from tests.guest.state import KernelLog, differences, guest_state

    log = KernelLog()
    before = guest_state()
    yield
    found = differences(before, guest_state()) + log.troubles()
    log.close()
    if found:
        pytest.fail("the test left the kernel different:\n" + "\n".join(found), pytrace=False)
