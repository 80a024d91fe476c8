"""Live traces of user programs on this machine, through the command line."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from inlinetrace._signals import ENDING
from inlinetrace.errors import InlineTraceError
from inlinetrace.probe.traced_file import TracedFile
from inlinetrace.target import open_image
from tests.probe.conftest import command, run, trace
from tests.probe.programs import BURST, CHAIN, LIBRARY, LONG_TEXT, NULL_CHAIN, PAGE_END, QUEUE, SERVER, USER

pytestmark = [pytest.mark.compiled, pytest.mark.uprobes, pytest.mark.usefixtures("tracefs", "each_backend")]

Compiler = Callable[..., Path]
NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc")


def values(hits: list[dict[str, Any]], name: str) -> list[Any]:
    return [hit["args"].get(name, hit["unavailable"].get(name)) for hit in hits]


@contextmanager
def server(program: Path) -> Iterator[Callable[[bytes], None]]:
    """A running SERVER; what is yielded sends it bytes and waits until it has answered them."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.read(1) == b"r"

    def ask(text: bytes) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(text)
        process.stdin.flush()
        assert process.stdout.read(len(text)) == text

    ask.pid = process.pid  # type: ignore[attr-defined]
    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def obey_signals() -> None:
    """Undo what nohup and background jobs of a shell hand down: signals that are ignored stay ignored."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def tracing(*arguments: str, within: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """A trace in the background that has attached everything, run by the command ``within``."""
    process = subprocess.Popen(
        [*within, *command("probe", *arguments, "-v")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=obey_signals,
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "sites attached" in line:
            break
    else:
        process.wait()
        pytest.fail(f"did not attach: {said}")
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
        process.stderr.close()


def end(process: subprocess.Popen[str], number: signal.Signals = signal.SIGINT) -> list[dict[str, Any]]:
    """End a trace and return its hits."""
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    return [json.loads(line) for line in output.splitlines()]


def test_arguments_and_fields_have_their_types(compiler: Compiler) -> None:
    program = compiler(QUEUE)
    wanted = (
        "queue->len,queue->dev->id,queue->dev->name,queue->dev->next->name,queue->a,queue->b,queue->c,queue->color,"
        "queue->row,queue->row[1],queue->label,queue->x,queue->y[2],queue->inner.in,queue->on,number,what"
    )
    hits = trace("push", "--args", wanted, "--strings", "--inline-only", "-x", str(program), "--")
    assert [hit["function"] for hit in hits] == ["push"] * 3
    first, second, third = (hit["args"] for hit in hits)
    assert first == {
        "queue->len": 5,
        "queue->dev->id": 42,
        "queue->dev->name": "eth0",
        "queue->dev->next->name": "lo",
        "queue->a": 3,
        "queue->b": 9,
        "queue->c": -7,
        "queue->color": "GREEN",
        "queue->row": [1, -2, 3, 4],
        "queue->row[1]": -2,
        "queue->label": "label",
        "queue->x": 0x04030201,
        "queue->y[2]": 3,
        "queue->inner.in": 77,
        "queue->on": True,
        "number": -1,
        "what": "one",
    }
    assert hits[1]["unavailable"] == {
        "queue->dev->id": "fault",
        "queue->dev->name": "fault",
        "queue->dev->next->name": "fault",
    }
    assert second["queue->color"] == "BLUE"
    assert second["queue->label"] == "0x0"
    assert second["what"] == "0x0"
    assert second["queue->on"] is False
    assert third["what"] == str(program)
    assert third["number"] == 3


def test_a_whole_structure_behind_a_pointer_is_an_object(compiler: Compiler) -> None:
    program = compiler(QUEUE)
    (hit, *_) = trace("push", "--args", "*queue->dev", "--inline-only", "-x", str(program), "--")
    assert hit["args"]["*queue->dev"] == {"id": 42, "name": "eth0", "next": hit["args"]["*queue->dev"]["next"]}


def test_a_read_that_faults_is_never_the_value_of_the_hit_before(compiler: Compiler) -> None:
    program = compiler(NULL_CHAIN)
    hits = trace("visit", "--args", "node->value,node->next->value,node", "--inline-only", "-x", str(program), "--")
    good = 0x1122334455667788
    assert values(hits, "node->value") == [good, 33, "fault", "fault", 1, good]
    assert values(hits, "node->next->value") == [33, "fault", "fault", "fault", 0, 33]
    assert values(hits, "node")[2:4] == ["0x0", "0x10"]


def test_what_follows_a_value_in_memory_loses_no_hit(compiler: Compiler) -> None:
    """The proof of a read is bounded: 3 KB without a NUL behind each of two fields."""
    program = compiler(LONG_TEXT)
    hits = trace("look", "--args", "a->number,b->number,a->text", "--inline-only", "-x", str(program), "--")
    assert values(hits, "a->number") == [0, 0x7F010101, -1, 5]
    assert values(hits, "b->number") == [0, 0x7F010101, -1, 5]


def test_arrays_of_characters_end_where_they_end(compiler: Compiler) -> None:
    program = compiler(LONG_TEXT)
    wanted = "*names,names->id,names->next,names->rows,names->large"
    (hit,) = trace("name", "--args", wanted, "--where", 'names->id == "ABCD"', "-x", str(program), "--")
    right = {"id": "ABCD", "next": "EFGHIJKL", "rows": ["mnop", "qrst"], "large": "u" * 523}
    assert hit["unavailable"] == {"*names": "unsupported-expression"}
    assert {label.removeprefix("names->"): value for label, value in hit["args"].items()} == right


def test_values_at_the_end_of_what_can_be_read(each_backend: str, compiler: Compiler) -> None:
    program = compiler(PAGE_END)
    hits = trace("visit", "--args", "node->value,node->small,*node", "--inline-only", "-x", str(program), "--")
    # a 0 that nothing proves
    zero = 0 if each_backend == "bcc" else "fault"
    assert values(hits, "node->value") == [9, zero, 0, zero, "fault", "fault"]
    assert values(hits, "node->small") == ["fault", "fault", zero, -1, "fault", "fault"]


@pytest.mark.parametrize("option", ["-pie", "-no-pie"])
def test_the_address_of_a_hit_is_the_one_at_run_time(option: str, compiler: Compiler) -> None:
    program = compiler(QUEUE, "-O2", option, *(["-fno-pie"] if option == "-no-pie" else ["-fPIE"]))
    hits = trace("push", "--args", "number", "-x", str(program), "--", "7")
    assert values(hits, "number") == [7, 2, 3]
    assert (int(hits[0]["address"], 16) > 1 << 32) == (option == "-pie")
    assert {hit["pid"] for hit in hits} == {hits[0]["tid"]}
    assert hits[0]["comm"] == "program"
    assert abs(hits[0]["time"] - time.time()) < 60
    assert [hit["time"] for hit in hits] == sorted(hit["time"] for hit in hits)


def test_a_library_is_traced_in_every_process_that_uses_it(compiler: Compiler, tmp_path: Path) -> None:
    library = compiler(LIBRARY, "-O2", "-shared", "-fPIC", name="libtally.so")
    user = compiler(USER, "-O0", str(library), f"-Wl,-rpath,{tmp_path}", name="user")
    with tracing("count", "--args", "--json", "--inline-only", "-x", str(library)) as process:
        both = [subprocess.Popen([user, "50", str(who)]) for who in (1, 2)]
        assert [one.wait() for one in both] == [0, 0]
        hits = end(process)
    for who, one in zip((1, 2), both, strict=True):
        mine = [hit for hit in hits if hit["pid"] == one.pid]
        assert [hit["args"] for hit in mine] == [{"who": who, "number": 3 * i} for i in range(50)]
    assert len(hits) == 100


def test_one_process_of_two_with_all_of_its_threads(compiler: Compiler) -> None:
    program = compiler(SERVER, "-O2", "-pthread")
    with server(program) as first, server(program) as second:
        pid = first.pid  # type: ignore[attr-defined]
        with tracing("serve", "--args", "--json", "--inline-only", "-x", str(program), "-p", str(pid)) as process:
            first(b"ab")
            second(b"xy")
            first(b"c")
            hits = end(process)
    assert [hit["args"] for hit in hits] == [{"who": pid, "number": byte} for byte in b"abc"]
    assert {hit["pid"] for hit in hits} == {pid}
    # each in a thread that did not exist when the trace began, and is gone now
    assert len({hit["tid"] for hit in hits} | {pid}) == 4


def test_threads_that_start_each_other_are_not_lost(compiler: Compiler) -> None:
    program = compiler(CHAIN, "-O2", "-pthread")
    with subprocess.Popen([program], stdin=subprocess.PIPE) as process:
        hits = trace("next", "--args", "-x", str(program), "-p", str(process.pid), "-c", "30")
        assert process.stdin is not None
        process.stdin.close()
    numbers = values(hits, "number")
    # without a gap from one hit to the next
    assert numbers == list(range(numbers[0], numbers[0] + 30))


def test_a_process_may_be_named_by_any_of_its_threads(compiler: Compiler) -> None:
    program = compiler(CHAIN, "-O2", "-pthread")
    with subprocess.Popen([program], stdin=subprocess.PIPE) as process:
        while len(threads := os.listdir(f"/proc/{process.pid}/task")) < 2:
            time.sleep(0.01)
        # the second is there as long as the process
        thread = sorted(threads, key=int)[1]
        hits = trace("next", "--args", "-x", str(program), "-p", thread, "-c", "2")
        assert process.stdin is not None
        process.stdin.close()
    assert {hit["pid"] for hit in hits} <= {process.pid, None}
    assert len(hits) == 2


def test_filters(compiler: Compiler) -> None:
    program = str(compiler(QUEUE))

    def numbers(where: str) -> list[int]:
        return values(trace("push", "--args", "number", "--where", where, "--strings", "-x", program, "--"), "number")

    assert numbers("number < 0") == [-1]
    assert numbers("queue->len == 5 and not (number == 3)") == [-1]
    assert numbers("queue->dev->id == 42 || number == 2") == [-1, 2, 3]
    # the second hit has no device: neither the condition nor its opposite holds
    assert numbers("queue->dev->id != 42") == []
    assert numbers("not (queue->dev->id == 42)") == []
    assert numbers("queue->color == GREEN") == [-1, 3]
    assert numbers("queue->color == -2") == [2]
    assert numbers('what == "one"') == [-1]
    assert numbers("queue->b & 1") == [-1, 3]


def test_limits_end_a_trace(compiler: Compiler) -> None:
    program = str(compiler(BURST))
    assert len(trace("tick", "-c", "5", "-x", program, "--", "1000")) == 5
    begin = time.monotonic()
    assert trace("tick", "-d", "0.3", "-x", program) == []
    assert time.monotonic() - begin < 20


def test_stdout_has_only_the_hits(compiler: Compiler, tmp_path: Path) -> None:
    program = str(compiler(QUEUE))
    done = run("push", "--json", "-x", program, "--")
    assert "done" in done.stderr
    assert all(json.loads(line)["function"] == "push" for line in done.stdout.splitlines())
    output = tmp_path / "hits"
    done = run("push", "--json", "-o", str(output), "--summary", "-x", program, "--")
    assert done.stdout == "done\n"
    assert len(output.read_text().splitlines()) == 3
    assert " 3 push " in done.stderr


def test_text_says_why_with_v(compiler: Compiler) -> None:
    program = str(compiler(NULL_CHAIN))
    done = run("visit", "--args", "node->next->value", "--inline-only", "-x", program, "--")
    assert "visit(node->next->value=33) step+0x" in done.stdout
    assert "visit(node->next->value=?) step+0x" in done.stdout
    done = run("visit", "--args", "node->next->value", "-v", "-x", program, "--")
    assert "node->next->value=?<fault: the memory could not be read" in done.stdout


def test_a_limit_on_probes_is_said_and_all_means_all(compiler: Compiler, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    program = compiler(
        QUEUE.replace('puts("done");', f'fclose(fopen("{mark}", "w"));'), "-O2", "-fno-inline-functions-called-once"
    )
    everything = run("*", "-x", str(program), "--require", "all", "--max-probes", "1", "--")
    assert everything.returncode == 4
    assert "nothing is attached" in everything.stderr
    assert not mark.exists()
    some = run("*", "-x", str(program), "--max-probes", "1", "--")
    assert some.returncode == 0
    assert "limit: --max-probes 1" in some.stderr
    assert mark.exists()


def test_a_reader_that_goes_away_ends_the_trace(compiler: Compiler) -> None:
    program = str(compiler(SERVER, "-O2", "-pthread"))
    with server(Path(program)) as ask, tracing("serve", "--json", "-x", program) as process:
        assert process.stdout is not None
        ask(b"a")
        assert process.stdout.readline()
        process.stdout.close()
        ask(b"b" * 8000)
        deadline = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < deadline:
            ask(b"c" * 4000)
        assert process.poll() == 0
        process.stdout = open(os.devnull)  # noqa: SIM115


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_trace_whose_reader_does_not_read(number: signal.Signals, compiler: Compiler) -> None:
    program = str(compiler(BURST))
    reading, writing = os.pipe()
    process = subprocess.Popen(
        command("probe", "tick", "--args", "-x", program, "--", "100000"), stdout=writing, preexec_fn=obey_signals
    )
    room = select.poll()
    room.register(writing, select.POLLOUT)
    while room.poll(0):
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_end_a_trace_cleanly(number: signal.Signals, compiler: Compiler) -> None:
    program = str(compiler(SERVER, "-O2", "-pthread"))
    with server(Path(program)) as ask, tracing("serve", "--json", "--args", "-x", program) as process:
        ask(b"q")
        hits = end(process, number)
        assert process.returncode == 128 + number
    assert values(hits, "number") == [ord("q")] * len(hits)
    assert len(hits) == 1


def test_two_traces_of_one_program_at_once(compiler: Compiler) -> None:
    program = str(compiler(SERVER, "-O2", "-pthread"))
    with server(Path(program)) as ask, tracing("serve", "--json", "--args", "-x", program) as one:
        ask(b"1")
        with tracing("serve", "--json", "--args", "-x", program) as two:
            ask(b"2")
            second = end(two)
        ask(b"3")
        first = end(one)
    assert values(first, "number") == list(b"123")
    assert values(second, "number") == list(b"2")


def test_a_killed_trace_is_cleaned_up(compiler: Compiler, tracefs: str) -> None:
    program = str(compiler(SERVER, "-O2", "-pthread"))
    with server(Path(program)) as ask:
        with tracing("serve", "--json", "--args", "-x", program) as process:
            # the traced program is idle: it waits for input
            process.kill()
            process.wait()
            name = f"inlinetrace_{process.pid}_"
            assert name in Path(f"{tracefs}/uprobe_events").read_text()
        done = subprocess.run(command("clean", "-v"), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert f"removed {name}" in done.stderr
        assert name not in Path(f"{tracefs}/uprobe_events").read_text()
        assert not [entry for entry in os.listdir(f"{tracefs}/instances") if entry.startswith(name)]
        ask(b"still there")


def test_clean_leaves_a_trace_that_runs(compiler: Compiler) -> None:
    program = str(compiler(SERVER, "-O2", "-pthread"))
    with server(Path(program)) as ask, tracing("serve", "--json", "--args", "-x", program) as process:
        assert subprocess.run(command("clean"), check=False).returncode == 0
        ask(b"z")
        assert values(end(process), "number") == [ord("z")]


def test_traces_in_and_outside_of_a_pid_namespace_leave_each_other_alone(compiler: Compiler) -> None:
    program = str(compiler(SERVER, "-O2", "-pthread"))
    arguments = ("serve", "--json", "--args", "-x", program)
    with server(Path(program)) as ask, tracing(*arguments) as outside:
        # unshare passes on no signals
        with tracing(*arguments, "-c", "1", "-d", "20", within=NAMESPACE) as inside:
            # events of a stranger may have to stay
            assert subprocess.run(command("clean"), check=False).returncode in (0, 4)
            ask(b"1")
            output, said = inside.communicate(timeout=30)
        ask(b"2")
        assert values(end(outside), "number") == list(b"12")
    (hit,) = [json.loads(line) for line in output.splitlines()]
    assert hit["args"]["number"] == ord("1")
    # by the machine's number, as its thread
    assert hit["pid"] in (ask.pid, None)  # type: ignore[attr-defined]
    assert "stay" not in said


@pytest.mark.parametrize("wanted", [("-p", "1"), ("--",)])
def test_processes_cannot_be_chosen_in_a_pid_namespace(wanted: tuple[str, ...], compiler: Compiler) -> None:
    program = compiler(QUEUE)
    arguments = command("probe", "push", "-x", str(program), *wanted)
    done = subprocess.run([*NAMESPACE, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("inlinetrace: -p and -- do not work inside of a PID namespace")
    assert done.stderr.count("\n") == 1


def test_a_program_that_is_deleted_while_it_is_traced(compiler: Compiler) -> None:
    program = compiler(SERVER, "-O2", "-pthread")
    with server(program) as ask, tracing("serve", "--json", "--args", "-x", str(program)) as process:
        ask(b"1")
        program.unlink()
        ask(b"2")
        assert values(end(process), "number") == list(b"12")


@pytest.mark.parametrize("how", ["replaced", "deleted"])
def test_a_program_that_is_replaced_is_named_at_the_end(how: str, compiler: Compiler) -> None:
    program = compiler(SERVER, "-O2", "-pthread")
    other = compiler(SERVER.replace("serve", "other"), "-O2", "-pthread", name="other")
    with server(program) as ask, tracing("serve", "--json", "--args", "-x", str(program)) as process:
        ask(b"1")
        if how == "replaced":
            other.rename(program)
        else:
            program.unlink()
        ask(b"2")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert [json.loads(line)["args"]["number"] for line in output.splitlines()] == list(b"12")
    assert f"{program} was replaced or deleted meanwhile: processes that ran another file were not traced" in errors


def test_a_program_that_is_replaced_before_it_is_attached_is_refused(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a build id, and of the same size: the code is compared."""
    program = compiler(SERVER, "-O2", "-pthread", "-Wl,--build-id=none")
    image = open_image(str(program))
    os.close(TracedFile.open(str(program), image.program).descriptor)
    data = program.read_bytes()
    section = image.program.section(".text")
    assert section is not None
    at = section.offset + 40
    changed = program.with_name("changed")
    changed.write_bytes(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
    changed.rename(program)
    with pytest.raises(InlineTraceError, match="the file was replaced or changed while it was read: start again"):
        TracedFile.open(str(program), image.program)


def test_a_program_that_is_written_to_ends_the_trace(compiler: Compiler) -> None:
    """Probes would be in the middle of the new instructions."""
    program = compiler(SERVER, "-O2", "-pthread")
    other = compiler(SERVER.replace("who ^ number", "who * number + 5"), "-O2", "-pthread", name="other")
    with tracing("serve", "--json", "--args", "-x", str(program)) as process:
        program.write_bytes(other.read_bytes())
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"{program}: the file was written to while it was traced: the trace ends" in errors
    with server(program) as ask:
        ask(b"12")
    assert output == ""


def test_a_process_that_does_not_run_the_program_is_not_traced(compiler: Compiler) -> None:
    program = compiler(SERVER, "-O2", "-pthread")
    other = compiler(SERVER, "-O2", "-pthread", name="other")
    with server(other) as stranger, server(program) as ask:
        foreign, own = stranger.pid, ask.pid  # type: ignore[attr-defined]
        done = run("serve", "-x", str(program), "-p", str(foreign))
        assert done.returncode == 1
        assert done.stderr == (
            f"inlinetrace: {program}: process {foreign} runs {other} and does not use this file: nothing to trace\n"
        )
        with tracing("serve", "--json", "-x", str(program), "-p", str(foreign), "-p", str(own)) as process:
            stranger(b"1")
            ask(b"2")
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        assert [json.loads(line)["pid"] for line in output.splitlines()] == [own]


def test_a_process_that_runs_a_program_that_was_replaced_is_not_traced(compiler: Compiler) -> None:
    program = compiler(SERVER, "-O2", "-pthread")
    with server(program) as ask:
        pid = ask.pid  # type: ignore[attr-defined]
        compiler(SERVER, "-O2", "-pthread", name="new").rename(program)
        done = run("serve", "-x", str(program), "-p", str(pid))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            f"inlinetrace: {program}: process {pid} has an older file of this name in its memory, "
            "which was replaced or deleted since: nothing to trace\n"
        )
        with tracing("serve", "--json", "-x", f"/proc/{pid}/exe", "-p", str(pid)) as process:
            ask(b"1")
            assert len(end(process)) == 1


def test_what_cannot_be_traced_is_one_line(compiler: Compiler, tmp_path: Path) -> None:
    program = str(compiler(QUEUE))
    for arguments, code, words in (
        (["nothing", "-x", program], 1, "no function nothing"),
        (["push", "--args", "nothing", "-x", program], 1, "no parameter nothing of push: it has"),
        (["push", "--args", "queue->lenn", "-x", program], 2, "has no member lenn; near: len"),
        (["push", "--args", "number->x", "-x", program], 2, "int has no members"),
        (["push", "--where", "number >", "-x", program], 2, "something to compare is missing"),
        (["push", "-x", program, "-p", "999999999"], 1, "no process 999999999"),
        (["push", "-x", program, "-p", "1", "--"], 2, "one of the two"),
        (["push", "-o", str(tmp_path), "-x", program], 1, "directory"),
    ):
        done = run(*arguments)
        assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
        assert words in done.stderr


def test_a_burst_is_seen_or_counted_as_lost(compiler: Compiler) -> None:
    program = str(compiler(BURST))
    total = 1_000_000
    done = run(
        "tick", "--buffer-size", "64", "--inline-only", "--args", "--json", "-v", "-x", program, "--", str(total)
    )
    assert done.returncode == 0, done.stderr
    words = done.stderr.split()
    lost = int(words[words.index("hits,") + 1])
    seen = done.stdout.count("\n")
    assert seen + lost == total
    assert seen > 0
    numbers = [json.loads(line)["args"]["number"] for line in done.stdout.splitlines()[:1000]]
    assert numbers == sorted(numbers)


def test_the_script_for_tracefs_works_and_leaves_nothing(compiler: Compiler, tmp_path: Path, tracefs: str) -> None:
    program = str(compiler(QUEUE))
    script = tmp_path / "script.sh"
    script.write_text(run("push", "--args", "number", "--inline-only", "--emit", "tracefs", "-x", program).stdout)
    process = subprocess.Popen(
        ["sh", str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=obey_signals,
    )
    assert process.stdout is not None
    deadline = time.monotonic() + 20
    name = f"inlinetrace_script_{process.pid}"
    switch = Path(f"{tracefs}/instances/{name}/events/{name}/enable")
    while time.monotonic() < deadline and not (switch.exists() and switch.read_text().strip() == "1"):
        time.sleep(0.05)
    subprocess.run([program], check=True, stdout=subprocess.DEVNULL)
    lines = [process.stdout.readline() for _ in range(3)]
    assert ["comm=" in line for line in lines] == [True] * 3
    # as Ctrl-C does: to all processes of the terminal
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert errors == ""
    assert name not in Path(f"{tracefs}/uprobe_events").read_text()
    assert not Path(f"{tracefs}/instances/{name}").exists()
