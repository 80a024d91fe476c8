"""What inlined functions of the kernel are passed by system calls that a test makes: the truth to hold hits against.

The functions are inlined on the way of system calls that nobody makes behind our back, so that the hits of this
process are exactly the calls listed here, in their order. The test knows the values because it chose them:
descriptors, offsets, lengths, names, families, ports, policies.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import select
import signal
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.guest.syscalls import call, refused

FAULT = object()
"""The value of what must be shown as memory that cannot be read."""


class Call(NamedTuple):
    """One entry of ``function``, inlined into ``symbol``, and the values it was passed, as JSON has them."""

    function: str
    symbol: str
    values: dict[str, Any]


def functions(calls: Iterable[Call]) -> list[str]:
    """The functions that ``calls`` are of, each once."""
    return sorted({one.function for one in calls})


def by_system_calls(directory: Path) -> Iterator[Call]:
    """Make system calls; for each inlined function that one of them enters, what it was passed.

    Nothing is called before the first value is asked for, and all of it when the last one was.
    """
    yield from _files(directory)
    yield from _names(directory)
    yield from _memory()
    yield from _sockets()
    yield from _scheduler()
    yield from _ipc()


def _files(directory: Path) -> Iterator[Call]:
    path = directory / "values-file"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(file, bytes(8192))
    for offset, whence in ((7, os.SEEK_SET), (50, os.SEEK_CUR), (-3, os.SEEK_END), (1 << 33, os.SEEK_SET)):
        call("lseek", file, offset, whence)
        yield Call("vfs_llseek", "ksys_lseek", {"offset": offset, "whence": whence})
    call("fadvise64", file, 4096, 1 << 34, 3)
    yield Call("vfs_fadvise", "ksys_fadvise64_64", {"offset": 4096, "len": 1 << 34, "advice": 3})
    for mode, offset, length in ((0, 0x1234, 0x4321), (1, 5, 6)):
        call("fallocate", file, mode, offset, length)
        values = {"fd": file, "mode": mode, "offset": offset, "len": length}
        yield Call("ksys_fallocate", "__x64_sys_fallocate", values)
    call("sync_file_range", file, 4096, 1 << 32, 2)
    values = {"fd": file, "offset": 4096, "nbytes": 1 << 32, "flags": 2}
    yield Call("ksys_sync_file_range", "__x64_sys_sync_file_range", values)
    for count, position in ((100, 4000), (0, 1 << 40)):
        # Not an empty text: kprobe events do not tell one of a process from memory that cannot be read.
        buffer = ctypes.create_string_buffer(b"what is there before", 100)
        of_buffer = {"buf": "what is there before", "count": count, "pos": position}
        call("pwrite64", file, buffer, count, position)
        yield Call("ksys_pwrite64", "__x64_sys_pwrite64", of_buffer)
        call("pread64", file, buffer, count, position)
        yield Call("ksys_pread64", "__x64_sys_pread64", of_buffer)
    call("fchown", file, 12, 34)
    yield Call("vfs_fchown", "ksys_fchown", {"user": 12, "group": 34})
    only_path = os.open(path, os.O_PATH)
    call("fcntl", only_path, fcntl.F_GETFL, 0)
    yield Call("check_fcntl_cmd", "__x64_sys_fcntl", {"cmd": fcntl.F_GETFL})
    for new, flags in ((900, 0), (77, os.O_CLOEXEC)):
        call("dup3", file, new, flags)
        yield Call("__do_sys_dup3", "__x64_sys_dup3", {"oldfd": file, "newfd": new, "flags": flags})
        os.close(new)
    os.close(only_path)
    os.close(file)


def _names(directory: Path) -> Iterator[Call]:
    place = str(directory / "a-directory-of-ours")
    one, other, third = f"{place}/one", f"{place}/other", f"{place}/third"
    encoded = {name: name.encode() for name in (place, one, other, third)}
    for nowhere in (1, 0xDEAD << 48):
        assert refused("rmdir", nowhere) == "EFAULT"
        yield Call("getname", "__x64_sys_rmdir", {"filename": FAULT})
    for system_call, names in (
        ("mkdir", [place]),
        ("symlink", ["elsewhere", one]),
        ("rename", [one, other]),
        ("link", [other, third]),
        ("unlink", [other]),
        ("unlink", [third]),
        ("rmdir", [place]),
    ):
        words = [encoded.get(name, name.encode()) for name in names]
        call(system_call, *words, *([0o700] if system_call == "mkdir" else []))
        # gcc evaluates the arguments of a call from the last to the first.
        for name in reversed(names):
            yield Call("getname", f"__x64_sys_{system_call}", {"filename": name})


def _memory() -> Iterator[Call]:
    with mmap.mmap(-1, 1 << 20) as memory:
        held = ctypes.c_char.from_buffer(memory)
        start = ctypes.addressof(held)
        call("mlock", start + 4096, 8192)
        yield Call("__do_sys_mlock", "__x64_sys_mlock", {"start": start + 4096, "len": 8192})
        for prot in (mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE):
            call("mprotect", start, 3 * 4096, prot)
            yield Call("__do_sys_mprotect", "__x64_sys_mprotect", {"start": start, "len": 3 * 4096, "prot": prot})
        call("madvise", start + 65536, 5 * 4096, mmap.MADV_SEQUENTIAL)
        values = {"start": start + 65536, "len_in": 5 * 4096, "behavior": mmap.MADV_SEQUENTIAL}
        yield Call("__do_sys_madvise", "__x64_sys_madvise", values)
        del held


def _sockets() -> Iterator[Call]:
    for family, kind, protocol in ((socket.AF_INET, socket.SOCK_STREAM, 6), (socket.AF_UNIX, socket.SOCK_DGRAM, 0)):
        descriptor = call("socket", family, kind | socket.SOCK_CLOEXEC, protocol)
        values = {"family": family, "type": kind | socket.SOCK_CLOEXEC, "protocol": protocol}
        yield Call("__sys_socket_create", "__sys_socket", values)
        yield Call("sock_create", "__sys_socket", {**values, "type": kind})
        yield Call("sock_map_fd", "__sys_socket", {"flags": socket.SOCK_CLOEXEC})
        os.close(descriptor)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 34567))
        yield from _created(socket.AF_INET, socket.SOCK_STREAM)
        yield Call("inet_port_requires_bind_service", "__inet_bind", {"port": 34567})
        call("listen", server.fileno(), 17)
        yield Call("__do_sys_listen", "__x64_sys_listen", {"fd": server.fileno(), "backlog": 17})
        call("shutdown", server.fileno(), socket.SHUT_RD)
        yield Call("__sys_shutdown_sock", "__sys_shutdown", {"how": socket.SHUT_RD})


def _created(family: int, kind: int) -> Iterator[Call]:
    """What the library's way to make a socket comes to."""
    values = {"family": family, "type": kind | socket.SOCK_CLOEXEC, "protocol": 0}
    yield Call("__sys_socket_create", "__sys_socket", values)
    yield Call("sock_create", "__sys_socket", {**values, "type": kind})
    yield Call("sock_map_fd", "__sys_socket", {"flags": socket.SOCK_CLOEXEC})


def _scheduler() -> Iterator[Call]:
    mask = ctypes.create_string_buffer(bytes([0xFF] * 8), 8)
    call("sched_setaffinity", 0, 8, mask)
    values = {"pid": 0, "len": 8, "user_mask_ptr": hex(ctypes.addressof(mask))}
    yield Call("__do_sys_sched_setaffinity", "__x64_sys_sched_setaffinity", values)
    for pid in (os.getppid(), 1):
        call("sched_getscheduler", pid)
        yield Call("find_process_by_pid", "__x64_sys_sched_getscheduler", {"pid": pid})
        call("sched_getparam", pid, ctypes.create_string_buffer(64))
        yield Call("find_process_by_pid", "__x64_sys_sched_getparam", {"pid": pid})
        yield Call("rt_policy", "__x64_sys_sched_getparam", {"policy": os.SCHED_OTHER})
    for nice in (-7, 0):
        call("setpriority", os.PRIO_PROCESS, 0, nice)
        if nice < 0:
            # who wants less needs no permission
            yield Call("is_nice_reduction", "can_nice", {"nice": nice})
            yield Call("nice_to_rlimit", "can_nice", {"nice": nice})
        yield Call("__normal_prio", "set_user_nice", {"policy": os.SCHED_OTHER, "rt_prio": 0, "nice": nice})
    call("kill", os.getpid(), signal.SIGURG)
    yield Call("prepare_kill_siginfo", "__x64_sys_kill", {"sig": int(signal.SIGURG)})
    call("getrlimit", 7, ctypes.create_string_buffer(16))
    yield Call("do_prlimit", "__x64_sys_getrlimit", {"resource": 7, "new_rlim": "0x0"})
    descriptor = call("pidfd_open", os.getpid(), 0)
    yield Call("find_vpid", "__x64_sys_pidfd_open", {"nr": os.getpid()})
    os.close(descriptor)
    with select.epoll() as poll:
        call("epoll_wait", poll.fileno(), ctypes.create_string_buffer(12), 1, 23)
        yield Call("ep_timeout_to_timespec", "__x64_sys_epoll_wait", {"ms": 23})


def _ipc() -> Iterator[Call]:
    for name, function, arguments, values in (
        ("semget", "ksys_semget", (0x1111, 3, 0o1600), {"key": 0x1111, "nsems": 3, "semflg": 0o1600}),
        ("shmget", "ksys_shmget", (0x2222, 5000, 0o1600), {"key": 0x2222, "size": 5000, "shmflg": 0o1600}),
        ("msgget", "ksys_msgget", (0x3333, 0o1600), {"key": 0x3333, "msgflg": 0o1600}),
    ):
        call(name, *arguments)
        yield Call(function, f"__x64_sys_{name}", values)


class Comparison(NamedTuple):
    """``compared`` counts the values that were held against the truth, ``wrong`` are those that differ, as text.

    ``unavailable`` counts what had no value, ``doubtful`` the values with a doubt, which are not compared.
    """

    compared: int
    unavailable: Counter[str]
    wrong: list[str]
    functions: set[str]


def compare(calls: Iterable[Call], hits: Iterable[dict[str, Any]]) -> Comparison:
    """Hold the hits of inlined copies against the calls, place by place, in their order."""
    wanted: dict[tuple[str, str], list[Call]] = {}
    for one in calls:
        wanted.setdefault((one.function, one.symbol), []).append(one)
    seen: dict[tuple[str, str], list[dict[str, Any]]] = {place: [] for place in wanted}
    for hit in hits:
        place = (hit["function"], hit["symbol"])
        if hit["inlined"] and place in seen:
            seen[place].append(hit)
    compared, unavailable, wrong, known = 0, Counter[str](), [], set()
    for place, expected in wanted.items():
        name = f"{place[0]} in {place[1]}"
        if len(seen[place]) != len(expected):
            wrong.append(f"{name}: {len(seen[place])} hits for {len(expected)} calls: {seen[place][:6]}")
            continue
        for one, hit in zip(expected, seen[place], strict=True):
            for argument, value in one.values.items():
                if value is FAULT and hit["unavailable"].get(argument) == "fault":
                    compared += 1
                elif argument not in hit["args"]:
                    unavailable[f"{name}: {argument}: {hit['unavailable'].get(argument)}"] += 1
                elif hit["args"][argument] != value:
                    wrong.append(f"{name}: {argument} was {value!r}, shown is {hit['args'][argument]!r}")
                else:
                    compared += 1
                    known.add(one.function)
    return Comparison(compared, unavailable, wrong, known)
