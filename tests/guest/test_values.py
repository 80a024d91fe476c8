"""Values at true inline sites of the kernel, held against what the test passed: files, memory, network, scheduler."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.guest import values
from tests.guest.tracing import VMLINUX, end, tracing

FUNCTIONS = (
    "vfs_llseek", "vfs_fadvise", "ksys_fallocate", "ksys_sync_file_range", "ksys_pread64", "ksys_pwrite64",
    "vfs_fchown", "check_fcntl_cmd", "__do_sys_dup3", "getname", "__do_sys_mlock", "__do_sys_mprotect",
    "__do_sys_madvise", "__sys_socket_create", "sock_create", "sock_map_fd", "inet_port_requires_bind_service",
    "__do_sys_listen", "__sys_shutdown_sock", "__do_sys_sched_setaffinity", "find_process_by_pid", "rt_policy",
    "is_nice_reduction", "nice_to_rlimit", "__normal_prio", "prepare_kill_siginfo", "do_prlimit", "find_vpid",
    "ep_timeout_to_timespec", "ksys_semget", "ksys_shmget", "ksys_msgget",
)  # fmt: skip


def check_system_calls(directory: Path, *options: str, missing: float = 0.02) -> None:
    """Trace the functions that system calls enter, and hold every value against what was passed.

    ``missing`` is the share of values that may be unavailable.
    """
    arguments = ("--args", "--strings", "--inline-only", "-k", VMLINUX, "-p", str(os.getpid()), *options)
    with tracing(*FUNCTIONS, *arguments) as trace:
        calls = list(values.by_system_calls(directory))
        hits = end(trace)
    calls.append(values.Call("prepare_kill_siginfo", "__x64_sys_kill", {"sig": int(signal.SIGINT)}))
    found = values.compare(calls, hits)
    print(f"{found.compared} values of {len(found.functions)} functions; unavailable: {dict(found.unavailable)}")
    assert not found.wrong, "\n".join(found.wrong)
    assert set(values.functions(calls)) == set(FUNCTIONS)
    unavailable = sum(found.unavailable.values())
    assert unavailable <= missing * (found.compared + unavailable)


@pytest.mark.guest(kaslr=(True, False), timeout=400)
def test_values_are_those_that_were_passed(tmp_path: Path) -> None:
    check_system_calls(tmp_path)


@pytest.mark.guest(root="bcc", kaslr=(True, False), timeout=400)
def test_values_by_bpf_programs_are_those_that_were_passed(tmp_path: Path) -> None:
    check_system_calls(tmp_path, "--backend", "bcc")
