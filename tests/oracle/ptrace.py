"""Run a program under ptrace with breakpoints (x86-64 Linux): the smallest debugger that the harness needs.

::

    with Tracee(["./program", "log"]) as tracee:
        tracee.insert({address: number, ...})
        for address in tracee.stops(seconds):
            registers = tracee.registers()
            word = tracee.read(registers[7], 8)
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

PTRACE_TRACEME, PTRACE_CONT, PTRACE_SINGLESTEP, PTRACE_GETREGS, PTRACE_SETREGS = 0, 7, 9, 12, 13
PTRACE_SETOPTIONS, PTRACE_O_EXITKILL = 0x4200, 0x100000
_ADDR_NO_RANDOMIZE = 0x0040000

_REGISTERS = struct.Struct("27Q")
# Position in struct user_regs_struct (sys/user.h) of DWARF registers 0..16: rax rdx rcx rbx rsi rdi rbp rsp r8-r15 rip.
_DWARF_ORDER = (10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16)
_RIP_OFFSET = 16 * 8


class TraceError(Exception):
    """The program did not run as expected: a crash, a stop that nobody asked for, or too slow."""


class _IoVector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Tracee:
    """One traced child process, killed when it is left or when this process dies."""

    def __init__(self, arguments: list[str], stdout: int | None = None) -> None:
        """Start the program, stopped before its first instruction; ``stdout`` is a file descriptor for its output."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._ptrace = self._libc.ptrace
        self._ptrace.restype = ctypes.c_long
        self._ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self._readv = self._libc.process_vm_readv
        self._readv.restype = ctypes.c_ssize_t
        self._readv.argtypes = [
            ctypes.c_long,
            ctypes.c_void_p,
            ctypes.c_ulong,
            ctypes.c_void_p,
            ctypes.c_ulong,
            ctypes.c_ulong,
        ]
        self._buffer = ctypes.create_string_buffer(_REGISTERS.size)
        self._buffer_address = ctypes.addressof(self._buffer)
        self._bytes = ctypes.create_string_buffer(4096)
        self._local = _IoVector(ctypes.addressof(self._bytes), 0)
        self._remote = _IoVector(0, 0)
        self._local_address = ctypes.addressof(self._local)
        self._remote_address = ctypes.addressof(self._remote)
        self._original: dict[int, bytes] = {}
        self.status: int | None = None
        self._memory = -1
        self.pid = os.fork()
        if self.pid == 0:
            self._child(arguments, stdout)
        try:
            _, status = os.waitpid(self.pid, 0)
            if not os.WIFSTOPPED(status):
                raise TraceError(f"{arguments[0]} did not start")
            self._request(PTRACE_SETOPTIONS, 0, PTRACE_O_EXITKILL)
            self._memory = os.open(f"/proc/{self.pid}/mem", os.O_RDWR)
        except BaseException:
            self.close()
            raise

    def _child(self, arguments: list[str], stdout: int | None) -> None:
        try:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null if stdout is None else stdout, 1)
            self._libc.personality(_ADDR_NO_RANDOMIZE)
            self._ptrace(PTRACE_TRACEME, 0, None, None)
            os.execv(arguments[0], arguments)
        finally:
            os._exit(127)

    def __enter__(self) -> Tracee:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Kill the child if it still runs, and reap it."""
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
            self.status = -1
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    def _request(self, request: int, address: int, data: int) -> None:
        if self._ptrace(request, self.pid, address, data) == -1:
            number = ctypes.get_errno()
            raise TraceError(f"ptrace request {request}: {os.strerror(number)}")

    def mapping(self, name: str) -> tuple[int, int]:
        """First and one-past-last address of the mappings of a file, or of ``[stack]``."""
        spans = []
        for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5] == name:
                spans.append(tuple(int(x, 16) for x in fields[0].split("-")))
        if not spans:
            raise TraceError(f"no mapping of {name}")
        return min(s[0] for s in spans), max(s[1] for s in spans)

    def insert(self, addresses: Iterable[int]) -> None:
        """Put breakpoints at run-time addresses."""
        for address in addresses:
            self._original[address] = os.pread(self._memory, 1, address)
            os.pwrite(self._memory, b"\xcc", address)

    def read(self, address: int, size: int) -> bytes | None:
        """Bytes of the child's memory (breakpoints included), or None where it has none."""
        if not 0 < size <= 4096:
            return None
        self._local.length = self._remote.length = size
        self._remote.base = address & 0xFFFFFFFFFFFFFFFF
        if self._readv(self.pid, self._local_address, 1, self._remote_address, 1, 0) != size:
            return None
        return self._bytes.raw[:size]

    def registers(self) -> dict[int, int]:
        """The general registers at the current stop by their DWARF numbers; 16 is the address of the breakpoint."""
        values = _REGISTERS.unpack_from(self._buffer)
        return {number: values[position] for number, position in enumerate(_DWARF_ORDER)}

    def stops(self, seconds: float) -> Iterator[int]:
        """Run to the end; yields the address of each breakpoint before its instruction has been executed.

        Raises :class:`TraceError` for a signal of the program and when it takes longer than ``seconds`` (the child is
        killed then). At the end ``status`` is the exit status, as subprocess has it.
        """
        watchdog = threading.Timer(seconds, os.kill, (self.pid, signal.SIGKILL))
        watchdog.daemon = True
        watchdog.start()
        try:
            yield from self._run()
        finally:
            watchdog.cancel()

    def _run(self) -> Iterator[int]:
        pid, ptrace, wait, buffer, original = self.pid, self._ptrace, os.waitpid, self._buffer_address, self._original
        word = struct.Struct("<Q")
        memory, write, trap = self._memory, os.pwrite, b"\xcc"
        while True:
            ptrace(PTRACE_CONT, pid, 0, 0)
            _, status = wait(pid, 0)
            self._check(status)
            if self.status is not None:
                return
            ptrace(PTRACE_GETREGS, pid, 0, buffer)
            address = word.unpack_from(self._buffer, _RIP_OFFSET)[0] - 1
            if address not in original:
                raise TraceError(f"trap at {address:#x}, where no breakpoint is")
            word.pack_into(self._buffer, _RIP_OFFSET, address)
            yield address
            # Step over the breakpoint. One that follows directly is not executed by the step: CONT reports it.
            ptrace(PTRACE_SETREGS, pid, 0, buffer)
            write(memory, original[address], address)
            ptrace(PTRACE_SINGLESTEP, pid, 0, 0)
            _, status = wait(pid, 0)
            self._check(status)
            if self.status is not None:
                raise TraceError(f"the program ended in the step at {address:#x}")
            write(memory, trap, address)

    def _check(self, status: int) -> None:
        """Note an exit in ``status``; raise for any signal but the breakpoints' own."""
        if os.WIFSTOPPED(status):
            if os.WSTOPSIG(status) != signal.SIGTRAP:
                raise TraceError(f"stopped by {signal.Signals(os.WSTOPSIG(status)).name}")
            return
        self.status = os.waitstatus_to_exitcode(status)
        if self.status < 0:
            raise TraceError(f"killed by {signal.Signals(-self.status).name} (SIGKILL: out of time)")
