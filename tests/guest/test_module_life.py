"""The test module comes and goes without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guest.testmodule import NAME, Call, InlineShapes


@pytest.mark.guest(kaslr=(True, False))
def test_loaded_unloaded_and_loaded_again() -> None:
    module = InlineShapes()
    for value in ("1", "2"):
        module.load()
        assert module.call("take_u32", int(value)) == [Call("take_u32", {"value": value})]
        assert Path(f"/sys/kernel/btf/{NAME}").read_bytes()[:2] == b"\x9f\xeb"
        module.unload()
        assert not Path(f"/sys/kernel/btf/{NAME}").exists()
        assert not Path("/sys/kernel/debug/inline_shapes").exists()
