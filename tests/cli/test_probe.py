"""``inlinetrace probe`` without attaching anything: plans, their JSON, and what is refused."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

import pytest

from inlinetrace import cli
from inlinetrace.cli.probe import check_kernel
from inlinetrace.errors import MismatchError
from inlinetrace.target import open_image
from inlinetrace.target.host import Host
from tests.kernels import Kernel
from tests.probe.programs import QUEUE

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("program")
    (folder / "queue.c").write_text(QUEUE)
    subprocess.run(["gcc", "-O2", "-g", "queue.c", "-o", "queue"], cwd=folder, check=True)
    return str(folder / "queue")


def test_the_plan_is_printed(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["probe", "push", "--args", "number", "--dry-run", "-x", program]) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0].startswith("event sites0: ")
    assert f"p:inlinetrace/sites0 {program}:0x" in output[1]
    assert "      number: a0" in output


def test_the_plan_as_json(program: str, tmp_path: Path) -> None:
    file = tmp_path / "plan"
    arguments = ["probe", "*", "--args", "--dry-run", "--json", "--max-probes", "2", "-o", str(file), "-x", program]
    assert cli.run(arguments) == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["number"] for row in rows if "number" in row] == [0, 1]
    assert {row["refused"] for row in rows if "refused" in row} == {"limit"}


@pytest.mark.parametrize("tool", ["tracefs", "bpftrace", "perf"])
def test_the_plan_for_other_tools(tool: str, program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["probe", "push", "--args", "--emit", tool, "-x", program]) == 0
    assert program in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["push", "--"], 2, "add -x PROGRAM"),
        (["push", "-x", "PROGRAM", "-p", "1", "--"], 2, "one of the two"),
        (["push", "-x", "PROGRAM", "--args", "number+1"], 2, "neither ->member"),
        (["push", "-x", "PROGRAM", "--where", "number ="], 2, "--where"),
        (["push", "-x", "PROGRAM", "--where", "NAME == 1"], 2, "none of its names is a parameter"),
        (["absent", "-x", "PROGRAM"], 1, "no function absent"),
        (["push", "-k", "PROGRAM", "--dry-run"], 1, "no symbol _stext"),
        (["push", "-x", "/nowhere"], 1, "/nowhere"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str], code: int, words: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["probe", *(program if word == "PROGRAM" else word for word in arguments)]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [["-c", "0"], ["-d", "-1"], ["-d", "nan"], ["--max-probes", "x"], ["--require", "some"]]
)
def test_limits_are_checked(arguments: list[str], program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.run(["probe", "push", "-x", program, *arguments])
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.kernel
def test_a_kernel_is_probed_relative_to_its_anchor(kernel_6_1: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    vmlinux = str(kernel_6_1.vmlinux)
    assert cli.run(["probe", "vfs_llseek", "--args", "--dry-run", "--json", "-k", vmlinux]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["hits"][0]["symbol"] for row in rows} >= {"vfs_llseek", "ksys_lseek"}
    assert all(" _stext+0x" in row["definition"] for row in rows)


@pytest.mark.kernel
def test_a_kernel_that_is_not_the_running_one(kernel_6_1: Kernel, tmp_path: Path) -> None:
    image = open_image(str(kernel_6_1.vmlinux))
    assert image.program.build_id is not None
    notes = tmp_path / "sys" / "kernel" / "notes"
    notes.parent.mkdir(parents=True)
    for build_id, same in ((bytes(20), False), (image.program.build_id, True)):
        notes.write_bytes(struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id)
        if same:
            check_kernel(Host(tmp_path), image)
        else:
            with pytest.raises(MismatchError, match="but the running kernel has 0000"):
                check_kernel(Host(tmp_path), image)
