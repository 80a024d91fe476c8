"""What to install for the debug symbols of the running kernel, by distribution (os-release(5))."""

from __future__ import annotations

import re

from inlinetrace.target.host import Host

_SERVERS = {
    "arch": "https://debuginfod.archlinux.org",
    "opensuse": "https://debuginfod.opensuse.org",
    "suse": "https://debuginfod.opensuse.org",
}


def distributions(host: Host) -> list[str]:
    """The distribution's identifier and those of its relatives, nearest first; empty if it does not say."""
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        try:
            text = host.read_text(path)
        except OSError:
            continue
        values = dict(re.findall(r"^(ID|ID_LIKE)=[\"']?([^\"'\n]*)", text, re.MULTILINE))
        return f"{values.get('ID', '')} {values.get('ID_LIKE', '')}".lower().split()
    return []


def debug_symbols_advice(host: Host, release: str) -> str:
    """One clause that says how to get the debug symbols of kernel ``release`` here."""
    for name in distributions(host):
        if name == "ubuntu":
            return f"apt install linux-image-{release}-dbgsym (from ddebs.ubuntu.com)"
        if name == "debian":
            return f"apt install linux-image-{release}-dbg"
        if name in ("fedora", "rhel", "centos"):
            return "dnf debuginfo-install kernel"
        server = _SERVERS.get(name.split("-")[0])
        if server is not None:
            return f"set DEBUGINFOD_URLS={server} and install {_client(name)}"
    return "install the package with the kernel's debug symbols, or set DEBUGINFOD_URLS"


def _client(name: str) -> str:
    return "debuginfod" if name == "arch" else "debuginfod-client"
