"""``inlinetrace dump``: options, output, messages and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from inlinetrace.btf.builder import Builder
from inlinetrace.btf.kinds import Dialect, Kind
from inlinetrace.btf.reader import Btf
from tests.btf.conftest import RUNNING, output, running_btf, tool
from tests.btf.examples import APRIL_BLOB, SPLIT_INLINE, SPLIT_MAIN
from tests.btf.samples import everything

__all__ = ["running_btf"]


def dump(*arguments: object, code: int = 0) -> tuple[str, str]:
    """Run the command in a process of its own; gives stdout and stderr."""
    command = [sys.executable, "-c", "from inlinetrace.cli import main; main()", "dump", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.btf"
    path.write_bytes(everything())
    return path


def test_everything_as_text(sample: Path) -> None:
    text, messages = dump(sample)
    assert text.startswith("[1] INT 'int' size=4 bits_offset=0 nr_bits=32 encoding=SIGNED\n")
    assert text.count("\n[") == 49
    assert messages == f"{sample}: location info in dialect new: {Dialect.NEW.description}\n"


def test_json(sample: Path) -> None:
    text, _ = dump(sample, "-j")
    assert [entry["id"] for entry in json.loads(text)["types"]] == list(range(1, 51))
    assert dump(sample, "--format", "json")[0] == text


def test_choices(sample: Path) -> None:
    assert dump(sample, "--id", "6", "--id", "0x2")[0].split("\n")[0] == "[6] FLOAT 'double' size=8"
    assert dump(sample, "--name", "node")[0].startswith("[17] STRUCT 'node'")
    assert dump(sample, "--name", "*_t")[0] == "[21] TYPEDEF 'node_t' type_id=17\n[22] TYPEDEF 'wide_t' type_id=13\n"
    assert dump(sample, "--kind", "fwd")[0] == "[14] FWD 'later' fwd_kind=struct\n"
    assert dump(sample, "--kind", "func", "--name", "h*")[0].count("FUNC '") == 2
    assert dump(sample, "--name", "node", "--kind", "func", code=1)[1].endswith(
        "no func is called 'node'; near names: node, node_t, handle\n"
    )


def test_c(sample: Path) -> None:
    text, _ = dump(sample, "--c", "--name", "node_t", "--asserts")
    assert text.startswith("struct node;\n\ntypedef struct node node_t;\n\nstruct later;\n\n")
    assert "_Static_assert(sizeof(struct node) == 64" in text
    assert dump(sample, "--format", "c")[0].startswith("#ifndef __VMLINUX_H__\n")


def test_layout(sample: Path) -> None:
    text, _ = dump(sample, "--layout", "node")
    assert "\tunsigned int               low:3;                /*     8: 8  4 */\n" in text
    assert "\t/* XXX 16 bits hole, try to pack */\n\t/* XXX 4 bytes hole, try to pack */\n" in text
    assert text.endswith(
        "\t/* size: 64, cachelines: 1, members: 9 */\n"
        "\t/* sum members: 53, holes: 1, sum holes: 4 */\n"
        "\t/* sum bitfield members: 8 bits, bit holes: 1, sum bit holes: 16 bits */\n"
        "\t/* padding: 4 */\n};\n"
    )


def test_split_objects(tmp_path: Path) -> None:
    main, inline = tmp_path / "main", tmp_path / "inline"
    main.write_bytes(SPLIT_MAIN)
    inline.write_bytes(SPLIT_INLINE)
    text, messages = dump("-B", main, inline)
    assert text.startswith("[4] FUNC 'helper' type_id=2 linkage=static\n")
    assert "\tname='add' func_type_id=3 loc_proto_type_id=6 offset=16\n" in text
    assert "dialect v2" in messages
    assert "split from a base, name it (-B)" in dump(inline, code=1)[1]
    assert dump("-B", main, inline, "--name", "add")[0].startswith("[3] FUNC 'add'")
    assert "ends inside a record" in dump("-B", main, inline, "--dialect", "rfc", code=1)[1]


def test_faults_are_warnings_unless_strict(tmp_path: Path) -> None:
    builder = Builder()
    builder.add_ptr(99)
    builder.add_ptr(98)
    builder.record(Kind.TYPEDEF, "a b", size_or_type=0)
    path = tmp_path / "faulty"
    path.write_bytes(builder.to_bytes())
    text, messages = dump(path)
    assert text.startswith("[1] PTR '(anon)' type_id=99\n")
    assert messages == f"warning: {path}, offset 0x28, type [1]: type [99] does not exist (and 1 more like it)\n"
    assert "type [99] does not exist" in dump(path, "--strict", code=1)[1]


def test_messages(tmp_path: Path, sample: Path) -> None:
    (tmp_path / "april").write_bytes(APRIL_BLOB)
    assert "April-2025" in dump(tmp_path / "april", code=1)[1]
    assert dump(tmp_path / "none", code=1)[1] == f"inlinetrace: {tmp_path}/none: no such file\n"
    assert "near names: node, node_t" in dump(sample, "--name", "nod", code=1)[1]
    assert "the ids go from 1 to 50" in dump(sample, "--id", "51", code=1)[1]
    assert "no struct or union is called 'color'" in dump(sample, "--layout", "color", code=1)[1]
    assert "the kinds are int, ptr" in dump(sample, "--kind", "klass", code=2)[1]
    assert "--layout goes without" in dump(sample, "--layout", "node", "--c", code=2)[1]
    assert "--asserts goes with --c" in dump(sample, "--asserts", code=2)[1]


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    builder = Builder()
    for _ in range(100_000):
        builder.add_ptr(0)
    (tmp_path / "many").write_bytes(builder.to_bytes())
    main = f"{sys.executable} -c 'from inlinetrace.cli import main; main()'"
    command = f"{main} dump {tmp_path}/many | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_running_kernel_is_the_default(running_btf: str) -> None:
    file = () if running_btf == RUNNING else (running_btf,)
    theirs = output(tool("bpftool"), "btf", "dump", "file", running_btf)
    assert dump(*file)[0].encode(errors="surrogateescape") == theirs
    text, _ = dump(*file, "--c", "--name", "list_head")
    assert text == "struct list_head {\n\tstruct list_head *next;\n\tstruct list_head *prev;\n};\n\n"


def test_the_sample_is_what_the_tests_think() -> None:
    assert Btf(everything()).end_id == 51
