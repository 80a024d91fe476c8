"""A traced program does the same as without the probes, whatever instruction they are on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from inlinetrace.probe import x86
from tests.probe.conftest import run

pytestmark = [pytest.mark.compiled, pytest.mark.uprobes, pytest.mark.usefixtures("tracefs", "each_backend")]

Compiler = Callable[..., Path]

# What is assembled for long f(long a, long b, long *p), with the probe on the first instruction; rax is what counts.
FINE = {
    "nop": "nop; mov %rdi,%rax",
    "nop5": ".byte 0x0f,0x1f,0x44,0,0; mov %rdi,%rax",
    "pause": "pause; mov %rdi,%rax",
    "lahf": "lahf; and $0x100,%eax",
    "rdtsc": "rdtsc; mov %rdi,%rax",
    "cpuid": "mov %rbx,%r8; cpuid; mov %r8,%rbx; mov %rdi,%rax",
    "movs": "rep movsb; mov %rdi,%rax",
    "load": "mov number(%rip),%rax",
    "store": "mov %rdi,number(%rip); mov number(%rip),%rax",
    "add": "add %rsi,number(%rip); mov number(%rip),%rax",
    "lea": "lea number(%rip),%rax; sub $number,%rax",
    "exchange": "xchg %rsi,number(%rip); mov %rsi,%rax",
    "call": "call one",
    "callmem": "call *pointer(%rip)",
    "jumpmem": "jmp *pointer(%rip)",
    "tail": "jmp one",
    "branch": "jne 1f; mov $5,%eax; ret; 1: mov $6,%eax",
    "loop": "loop 1f; mov $5,%eax; ret; 1: mov $6,%eax",
    "jrcxz": "jrcxz 1f; mov $5,%eax; ret; 1: mov $6,%eax",
    "push": "push %rdi; pop %rax",
    "pushsp": "push %rsp; pop %rax; sub %rsp,%rax",
    "enter": "enter $16,$0; mov %rdi,%rax; leave",
    "movdqu": "movdqu %xmm0,(%rdx); mov (%rdx),%rax",
}
REFUSED = {
    "syscall": "syscall; mov %rdi,%rax",
    "pushf": "pushf; pop %rax; and $0x100,%eax",
    "exchange8": ".byte 0x49,0x90; mov %r8,%rax",
    "je66": ".byte 0x66,0x74,0; mov %rdi,%rax",
    "stackseg": "mov %r9d,%ss; mov %rdi,%rax",
}
AVX = {"vmovdqu": "vmovdqu %xmm0,(%rdx); mov (%rdx),%rax", "vmovq": "vmovq %xmm0,%rax", "vzeroupper": "vzeroupper"}


def program() -> str:
    bodies = FINE | REFUSED | AVX
    functions = "".join(
        f'__attribute__((naked)) long i_{name}(long a, long b, long *p) {{ asm("{body}; ret"); }}\n'
        for name, body in bodies.items()
    )
    calls = "".join(f'    {"if (avx) " if name in AVX else ""}show("{name}", i_{name});\n' for name in bodies)
    return f"""
#include <stdio.h>
long number = 40;
void one(void);
asm(".text; one: mov $1,%eax; ret");
void *pointer = one;
{functions}
static void show(const char *name, long (*function)(long, long, long *))
{{
    static long memory[8];
    for (int i = 0; i < 3; i++) {{
        long a = (long)(memory + 4), rax = 39, rcx = 2, rdx = (long)memory, rsi = (long)memory, selector;
        asm volatile("mov %%ss,%0" : "=r"(selector));
        register long r8 asm("r8") = 7, r9 asm("r9") = selector;
        memory[0] = i;
        asm volatile("movq %[v],%%xmm0; cmp $5,%[v]; call *%[f]"
            : "+a"(rax), "+D"(a), "+S"(rsi), "+d"(rdx), "+c"(rcx), "+r"(r8), "+r"(r9)
            : [f] "r"(function), [v] "r"(i * 3L) : "r10", "r11", "xmm0", "memory", "cc");
        printf("%s %lx %lx\\n", name, rax, memory[0]);
    }}
}}
int main(void)
{{
    int avx = __builtin_cpu_supports("avx");
{calls}
    return 0;
}}
"""


UNKNOWN = """
__attribute__((naked)) void i_unknown(void) { asm(".byte 0x66,0x0f,0x79,0xc1; ret"); }
__attribute__((noipa)) long i_known(long a) { return a; }
__attribute__((noipa)) long i_other(long a) { return a + 1; }
int main(void) { return i_known(1) + i_other(2) - 4; }
"""
"""Linux 6.18 takes the probe on an instruction that it does not know, and leaves it out when the program is started."""


INLINED = """
#include <stdio.h>
static inline __attribute__((always_inline)) void nop(void) { asm volatile(".byte 0x0f,0x1f,0x44,0,0"); }
__attribute__((noipa)) long leaf(long a)
{
    volatile long kept[4] = { a, a + 1, a + 2, a + 3 };
    nop();
    return kept[0] + kept[1] + kept[2] + kept[3];
}
int main(void)
{
    for (int i = 0; i < 5; i++)
        printf("%ld\\n", leaf(i));
    return 0;
}
"""


def test_each_instruction_does_what_it_does(compiler: Compiler, tmp_path: Path) -> None:
    built = compiler(program(), "-O1", "-no-pie", "-mno-red-zone")
    expected = subprocess.run([built], capture_output=True, text=True, check=True).stdout
    done = run("i_*", "-x", str(built), "--json", "-o", str(tmp_path / "hits"), "--")
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
    hits = [json.loads(line)["function"].removeprefix("i_") for line in (tmp_path / "hits").read_text().splitlines()]
    # one that repeats itself is stepped over again and again
    assert {name: hits.count(name) for name in FINE if name != "movs"} == {name: 3 for name in FINE if name != "movs"}
    assert set(hits) == set(FINE)
    assert f"{len(FINE)} of {len(FINE) + len(REFUSED) + len(AVX)} sites can be attached" in done.stderr


def test_what_is_refused_says_why(compiler: Compiler) -> None:
    built = compiler(program(), "-O1", "-no-pie", "-mno-red-zone")
    done = run("i_syscall", "i_pushf", "i_exchange8", "i_je66", "i_vmovdqu", "-x", str(built), "--dry-run")
    assert done.returncode == 0, done.stderr
    for name, why in (("syscall", x86.CANNOT), ("je66", x86.CANNOT), ("pushf", x86.WRONGLY), ("vmovdqu", x86.WRONGLY)):
        assert any(f"i_{name} " in line and why in line for line in done.stdout.splitlines())


def test_what_a_function_keeps_below_its_stack_pointer_stays(compiler: Compiler, tmp_path: Path) -> None:
    built = compiler(INLINED)
    expected = subprocess.run([built], capture_output=True, text=True, check=True).stdout
    done = run("nop", "leaf", "-x", str(built), "-o", str(tmp_path / "hits"), "--")
    assert done.stdout == expected
    assert x86.RED_ZONE in done.stderr


def test_a_probe_that_the_kernel_would_leave_out_does_not_take_others_along(compiler: Compiler) -> None:
    done = run("i_*", "-x", str(compiler(UNKNOWN)), "--json", "--")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["function"] for line in done.stdout.splitlines()] == ["i_known", "i_other"]
    assert "2 of 3 sites can be attached" in done.stderr
    assert "not i_unknown" in done.stderr
