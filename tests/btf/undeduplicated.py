"""What pahole hands to libbpf's deduplication: the types of all units of a file after each other.

pahole has no option for that. It is run with a ``btf__dedup`` that does nothing put before libbpf's.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.btf.conftest import output, tool

_NOTHING = "int btf__dedup(void *btf, const void *opts) { (void)btf; (void)opts; return 0; }\n"


def undeduplicated(elf: Path, place: Path, base: Path | None = None) -> Path:
    """Write the types of ``elf``, split from ``base`` if there is one, to ``place``."""
    source, shim = place.with_suffix(".c"), place.with_suffix(".so")
    source.write_text(_NOTHING)
    output("gcc", "-shared", "-fPIC", "-o", str(shim), str(source))
    command = [tool("pahole"), "-J", "--btf_gen_floats", f"--btf_encode_detached={place}"]
    if base is not None:
        command.append(f"--btf_base={base}")
    place.unlink(missing_ok=True)
    subprocess.run([*command, str(elf)], env={**os.environ, "LD_PRELOAD": str(shim)}, check=True, capture_output=True)
    return place
