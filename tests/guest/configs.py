"""From ``@pytest.mark.guest(...)`` to the guests that a test runs in.

::

    @pytest.mark.guest                                          # both kernels, KASLR on
    @pytest.mark.guest(kernel="6.12", kaslr=(True, False))      # one kernel, booted twice
    @pytest.mark.guest(memory=256, cmdline="lockdown=confidentiality", root="bcc", timeout=300)

A tuple stands for several guests, and the test runs once in each. ``timeout`` (seconds) is the test's own; tests that
ask for the same guest share one boot. ``@pytest.mark.guest(outside=True)`` is for tests that boot guests themselves.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any

import pytest
from vmimages.machine import MachineOptions

from tests.kernels import SERIES

INSIDE = os.environ.get("INLINETRACE_GUEST") == "1"
"""True in the guest, where the tests run; False outside, where their outcomes are collected."""

PARAMETER = "guest_machine"
DEFAULT_TIMEOUT = 120.0

_DEFAULTS = MachineOptions(kernel="any")
_OPTIONS = {"kernel", "kaslr", "memory", "cmdline", "root", "read_only_root", "timeout", "outside"}


@dataclass(frozen=True, slots=True)
class GuestConfig:
    """One guest, as a test asked for it."""

    options: MachineOptions

    @property
    def name(self) -> str:
        """The part of a test's id that names the guest."""
        options = self.options
        words = [options.kernel]
        if not options.kaslr:
            words.append("nokaslr")
        if options.memory != _DEFAULTS.memory:
            words.append(f"{options.memory}MB")
        if options.root != _DEFAULTS.root:
            words.append(options.root)
        if options.read_only_root:
            words.append("ro")
        return "-".join([*words, *options.cmdline])


def configs(marker: pytest.Mark) -> list[GuestConfig]:
    """The guests that a marker asks for; UsageError if it asks for something unknown."""
    unknown = set(marker.kwargs) - _OPTIONS
    if marker.args or unknown:
        raise pytest.UsageError(
            f"pytest.mark.guest knows {', '.join(sorted(_OPTIONS))}, not {sorted(unknown)}{marker.args}"
        )
    kernels = _several(marker.kwargs.get("kernel", SERIES))
    layouts = _several(marker.kwargs.get("kaslr", True))
    cmdline = marker.kwargs.get("cmdline", "")
    return [
        GuestConfig(
            MachineOptions(
                kernel=kernel,
                kaslr=kaslr,
                memory=marker.kwargs.get("memory", _DEFAULTS.memory),
                # the root with BCC has all that the other one has: without KASLR one boot serves both
                root=marker.kwargs.get("root", _DEFAULTS.root) if kaslr else "bcc",
                read_only_root=marker.kwargs.get("read_only_root", False),
                cmdline=tuple(cmdline.split()),
            )
        )
        for kernel, kaslr in itertools.product(kernels, layouts)
    ]


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Run the test of ``metafunc`` once for each guest that its marker asks for."""
    marker = metafunc.definition.get_closest_marker("guest")
    if marker is not None and not marker.kwargs.get("outside", False):
        guests = configs(marker)
        metafunc.parametrize(PARAMETER, guests, ids=[guest.name for guest in guests], indirect=True, scope="session")


def config_of(item: pytest.Item) -> GuestConfig | None:
    """The guest that ``item`` runs in, None if it runs outside."""
    callspec = getattr(item, "callspec", None)
    config = callspec.params.get(PARAMETER) if callspec is not None else None
    return config if isinstance(config, GuestConfig) else None


def timeout_of(item: pytest.Item) -> float:
    """Seconds that ``item`` may take in the guest."""
    marker = item.get_closest_marker("guest")
    return float(marker.kwargs.get("timeout", DEFAULT_TIMEOUT)) if marker is not None else DEFAULT_TIMEOUT


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)
