"""Whose groups are whose, and the order in which they are removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inlinetrace.probe import groups
from tests.probe.fake_tracefs import TRACEFS, FakeTracefs


@pytest.fixture
def host(tmp_path: Path) -> FakeTracefs:
    return FakeTracefs(tmp_path)


def make(host: FakeTracefs, name: str, events: tuple[str, ...] = ("sites0",), kind: str = "uprobe_events") -> None:
    host.make_directory(f"{TRACEFS}/instances/{name}")
    with host.writer(f"{TRACEFS}/{kind}") as write:
        for event in events:
            write(f"p:{name}/{event} /bin/x:0x10 k=\\0:u32 comm=$comm:string\n")
    host.write(f"{TRACEFS}/instances/{name}/events/{name}/enable", "1\n")
    host.done.clear()


def test_a_name_has_the_process_and_its_start_time(host: FakeTracefs) -> None:
    name = groups.group_name(host, TRACEFS)
    assert name == f"inlinetrace_{os.getpid()}_1000"
    assert groups.owner(name) == (os.getpid(), 1000)
    assert groups.is_alive(host, TRACEFS, name)
    make(host, name)
    assert groups.group_name(host, TRACEFS) == f"{name}_1"


@pytest.mark.parametrize(
    "name", ["uprobes", "inlinetrace", "inlinetrace_x_1", "inlinetrace_1_2_3_4", "my_inlinetrace_1_2"]
)
def test_other_groups_are_not_ours(name: str, host: FakeTracefs) -> None:
    assert groups.owner(name) is None
    make(host, name)
    assert groups.groups(host, TRACEFS) == []
    assert groups.clean(host, TRACEFS) == ([], [])
    assert host.done == []


def test_the_order_of_removal(host: FakeTracefs) -> None:
    name = "inlinetrace_1_2"
    make(host, name, ("sites0", "sites1"))
    assert groups.remove(host, TRACEFS, name) == []
    assert host.done == [
        f"instances/{name}/events/{name}/enable <- 0",
        f"rmdir instances/{name}",
        f"uprobe_events <- -:{name}/sites0",
        f"uprobe_events <- -:{name}/sites1",
    ]
    assert host.read_text(f"{TRACEFS}/uprobe_events") == ""


def test_events_that_somebody_enabled_elsewhere_are_disabled_first(host: FakeTracefs) -> None:
    name = "inlinetrace_1_2"
    host.make_directory(f"{TRACEFS}/instances/another")
    make(host, name)
    host.write(f"{TRACEFS}/events/{name}/enable", "1\n")
    host.write(f"{TRACEFS}/instances/another/events/{name}/enable", "1\n")
    assert groups.remove(host, TRACEFS, name) == []
    assert host.read_text(f"{TRACEFS}/uprobe_events") == ""
    assert host.exists(f"{TRACEFS}/instances/another")


def test_an_event_that_stays_enabled_is_not_deleted(host: FakeTracefs, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "inlinetrace_1_2"
    make(host, name)
    host.write(f"{TRACEFS}/events/{name}/enable", "1\n")
    write = host.write
    monkeypatch.setattr(
        host,
        "write",
        lambda path, text, append=False: (
            None if path.startswith(f"{TRACEFS}/events/") else write(path, text, append=append)
        ),
    )
    left = groups.remove(host, TRACEFS, name)
    assert any("cannot be switched off" in line for line in left)
    assert name in host.read_text(f"{TRACEFS}/uprobe_events")
    assert host.exists(f"{TRACEFS}/events/{name}")


@pytest.mark.parametrize("link", ["anon_inode:[perf_event]", "anon_inode:[bpf_link]"])
def test_an_open_perf_event_keeps_the_events(link: str, host: FakeTracefs) -> None:
    name = "inlinetrace_1_2"
    make(host, name)
    host.add_process(55, 500, ("/dev/null", link))
    if "bpf" in link:
        folder = Path(host.path("/proc/55/fdinfo"))
        folder.mkdir()
        (folder / "1").write_text("pos:\t0\nlink_type:\tperf\n")
    known = list(groups.perf_descriptors(host))
    assert known == [groups.Descriptor(55, 500, 1)]
    left = groups.remove(host, TRACEFS, name)
    assert left == [f"the events {name} stay: process 55 has perf events open that may be on them"]
    assert name in host.read_text(f"{TRACEFS}/uprobe_events")
    # what was open before the group came into being is not on it
    assert groups.remove(host, TRACEFS, name, known) == []
    assert name not in host.read_text(f"{TRACEFS}/uprobe_events")


def test_another_kind_of_bpf_link_does_no_harm(host: FakeTracefs) -> None:
    host.add_process(55, 500, ("anon_inode:[bpf_link]",))
    folder = Path(host.path("/proc/55/fdinfo"))
    folder.mkdir()
    (folder / "0").write_text("link_type:\tcgroup\n")
    assert list(groups.perf_descriptors(host)) == []


def test_a_group_whose_lock_is_held_is_left_alone(host: FakeTracefs) -> None:
    """Its process may be one of another PID namespace, which is not seen here by its number."""
    name, lock = groups.claim(host, TRACEFS)
    host.start_time = lambda pid: None  # type: ignore[method-assign]
    make(host, name)
    assert groups.is_alive(host, TRACEFS, name)
    assert groups.clean(host, TRACEFS) == ([], [])
    assert host.done == []
    os.close(lock)
    assert not groups.is_alive(host, TRACEFS, name)
    assert groups.clean(host, TRACEFS) == ([name], [])


def test_a_name_that_is_claimed_is_not_given_again(host: FakeTracefs) -> None:
    claims = [groups.claim(host, TRACEFS) for _ in range(3)]
    base = f"inlinetrace_{os.getpid()}_1000"
    assert [name for name, _ in claims] == [base, f"{base}_1", f"{base}_2"]
    for _, lock in claims:
        os.close(lock)
    assert groups.group_name(host, TRACEFS) == base


def test_in_a_pid_namespace_what_is_not_our_own_is_left_alone(host: FakeTracefs) -> None:
    host.enter_namespace("pid:[4026532178]")
    make(host, "inlinetrace_1_2")
    removed, left = groups.clean(host, TRACEFS)
    assert removed == []
    assert left == ["inlinetrace_1_2 stays: whether anybody uses it cannot be seen from inside of a PID namespace"]
    assert host.done == []
    assert groups.remove(host, TRACEFS, "inlinetrace_1_2") == []


def test_clean_takes_only_those_whose_process_is_gone(host: FakeTracefs) -> None:
    host.add_process(55, 500)
    make(host, "inlinetrace_55_500")
    make(host, "inlinetrace_55_499")
    make(host, "inlinetrace_56_1", kind="kprobe_events")
    assert groups.clean(host, TRACEFS) == (["inlinetrace_55_499", "inlinetrace_56_1"], [])
    assert groups.groups(host, TRACEFS) == ["inlinetrace_55_500"]
    assert host.read_text(f"{TRACEFS}/kprobe_events") == ""


def test_an_instance_without_events_is_removed(host: FakeTracefs) -> None:
    host.make_directory(f"{TRACEFS}/instances/inlinetrace_1_2")
    assert groups.clean(host, TRACEFS) == (["inlinetrace_1_2"], [])


def test_a_zombie_is_gone(host: FakeTracefs) -> None:
    host.add_process(77, 5)
    path = Path(host.path("/proc/77/stat"))
    path.write_text(path.read_text().replace(") S", ") Z"))
    assert host.start_time(77) is None


def test_a_trace_in_a_container_is_known_by_its_number_there(
    host: FakeTracefs, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.add_process(4000, 500, ("anon_inode:[perf_event]",))
    with open(host.path("/proc/4000/status"), "a") as status:
        status.write("NSpid:\t4000\t9\t7\n")
    monkeypatch.setattr(groups, "group_name", lambda host, tracefs: "inlinetrace_7_500")
    _, lock = groups.claim(host, TRACEFS)
    make(host, "inlinetrace_7_500")
    make(host, "inlinetrace_1_2")
    assert groups.remove(host, TRACEFS, "inlinetrace_1_2") == []
    os.close(lock)
    # nobody's trace any more: the perf event may be on anything
    make(host, "inlinetrace_1_2")
    assert groups.remove(host, TRACEFS, "inlinetrace_1_2") == [
        "the events inlinetrace_1_2 stay: process 4000 has perf events open that may be on them"
    ]


def test_another_trace_of_ours_has_perf_events_on_its_own_group_only(host: FakeTracefs) -> None:
    host.add_process(55, 500, ("anon_inode:[perf_event]",))
    make(host, "inlinetrace_55_500")
    make(host, "inlinetrace_1_2")
    assert groups.remove(host, TRACEFS, "inlinetrace_1_2") == []
    assert groups.groups(host, TRACEFS) == ["inlinetrace_55_500"]
