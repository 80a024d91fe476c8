"""Where BCC's Python module is found, and what is said where it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from inlinetrace.errors import NotFoundError
from inlinetrace.probe.bcc_library import find_module, system_directories


@pytest.fixture(autouse=True)
def not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nobody had imported it."""
    for name in [name for name in sys.modules if name == "bcc" or name.startswith("bcc.")]:
        monkeypatch.delitem(sys.modules, name)


def module(folder: Path, text: str) -> Path:
    place = folder / "bcc"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(text)
    (place / "libbcc.py").write_text("")
    return folder


def test_the_first_place_that_has_it_counts(tmp_path: Path) -> None:
    first = module(tmp_path / "one", "BPF = 1")
    second = module(tmp_path / "two", "BPF = 2")
    assert find_module([str(tmp_path), str(first), str(second)]).BPF == 1
    # and is the one that is imported from then on
    assert find_module([]).BPF == 1
    del sys.modules["bcc"]


def test_a_missing_module_is_one_line_that_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as problem:
        find_module([str(tmp_path)])
    text = str(problem.value)
    assert "python3-bpfcc" in text
    assert "python3-bcc" in text
    assert "PyPI" in text
    assert "\n" not in text


def test_the_bcc_of_pypi_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "bcc").mkdir()
    (tmp_path / "bcc" / "__init__.py").write_text("raise RuntimeError")
    with pytest.raises(NotFoundError, match="another project"):
        find_module([str(tmp_path)])


@pytest.mark.parametrize("problem", ["raise OSError('libbcc.so.0: cannot open')", "import no_such_module"])
def test_a_module_that_cannot_be_loaded_is_said_and_forgotten(problem: str, tmp_path: Path) -> None:
    place = module(tmp_path, problem)
    with pytest.raises(NotFoundError, match=r"cannot be loaded.*(libbcc|no_such_module)"):
        find_module([str(place)])
    assert "bcc" not in sys.modules


def test_distributions_have_it_outside_of_virtual_environments() -> None:
    places = system_directories()
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    assert "/usr/lib/python3/dist-packages" in places
    assert f"/usr/lib/{version}/site-packages" in places


def test_nothing_is_imported_before_it_is_needed() -> None:
    script = "import sys, inlinetrace.cli.probe, inlinetrace.probe.bcc_library; print('bcc' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
