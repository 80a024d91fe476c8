"""Print a generated program as C: the traced units, the model, and the driver that calls both.

Every call stands on a line of its own, and the lines of the second unit start at 5001, so a line number names a call.
The model records, at the start of each function, which function it is, the lines of all calls that led to it and the
bytes of all its arguments. Layout of one record, little endian: u16 function number, u16 number of lines, u32
invocation, the lines as u16 (outermost first), then the arguments one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.c_types import POOL_PAIRS, POOL_WORDS, TABLE_WORDS, CType, Kind, declarations
from tests.oracle.generate import Call, Function, Program, Statement, Text

SECOND_UNIT_LINE = 5001
EXIT_MISMATCH = 3
"""Exit status of a program whose two versions disagree: it says nothing about locations and is discarded."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The C texts of a program and the line of every call."""

    traced: tuple[str, ...]
    model: str
    driver: str
    call_lines: dict[int, str]


def emit(program: Program, invocations: int) -> Sources:
    """Print the program; the driver calls entry functions ``invocations`` times in turn."""
    lines: dict[Call, int] = {}
    traced = tuple(_traced_unit(program, unit, lines) for unit in range(program.units))
    return Sources(
        traced,
        _model(program, lines),
        _driver(program, invocations),
        {line: call.callee.name for call, line in lines.items()},
    )


def signature(function: Function, prefix: str) -> str:
    """The function's head without storage class."""
    parameters = ", ".join(f"{p.type.c} {p.name}" for p in function.parameters) or "void"
    return f"{function.returns.c if function.returns else 'void'} {prefix}{function.name}({parameters})"


def _traced_unit(program: Program, unit: int, lines: dict[Call, int]) -> str:
    out = declarations().splitlines()
    out.append(f"{'' if unit == 0 else 'extern '}u64 table[{TABLE_WORDS}];")
    if unit == 0:
        shared = "" if program.units == 2 else "static "
        out += [f"{shared}u64 state;", f"{shared}u64 store[8];", f"{shared}volatile u64 sink;"]
        out.append(
            "u64 traced_state(void) { u64 s = state; for (int i = 0; i < 8; i++) s = s * 31 + store[i]; return s; }"
        )
    else:
        out.append("extern u64 state, store[8]; extern volatile u64 sink;")
    for function in program.functions:
        if function.unit != unit and not function.storage:
            out.append(f"extern {signature(function, '')};")
    if unit:
        out.append(f"#line {SECOND_UNIT_LINE}")
        first = len(out) - SECOND_UNIT_LINE + 1
    else:
        first = 0

    def put(statement: Statement, indent: int) -> None:
        tabs = "\t" * indent
        if isinstance(statement, Text):
            out.append(tabs + statement.c.replace("$", ""))
        elif isinstance(statement, Call):
            left = "return " if statement.returned else f"{statement.target} = " if statement.target else ""
            out.append(f"{tabs}{left}{statement.callee.name}({', '.join(statement.arguments)});".replace("$", ""))
            lines[statement] = len(out) - first
        else:
            out.append(f"{tabs}{statement.head} {{".replace("$", ""))
            for inner in statement.body:
                put(inner, indent + 1)
            out.append(f"{tabs}}}{statement.tail}".replace("$", ""))

    for function in program.functions:
        if function.unit == unit:
            out += [f"{function.storage} {signature(function, '')}".strip(), "{"]
            for statement in function.body:
                put(statement, 1)
            out.append("}")
    return "\n".join(out) + "\n"


def _model(program: Program, lines: dict[Call, int]) -> str:
    out = ["#include <stdio.h>", declarations(), f"extern u64 table[{TABLE_WORDS}];"]
    out += [
        "extern FILE *oracle_log; extern u32 oracle_invocation;",
        "static u64 m_state, m_store[8]; static volatile u64 m_sink;",
        "static u16 path[64]; static u16 depth;",
        "static void record(u16 function)",
        "{",
        "\tu16 head[2] = { function, depth };",
        "\tfwrite(head, sizeof head, 1, oracle_log); fwrite(&oracle_invocation, 4, 1, oracle_log);",
        "\tfwrite(path, 2, depth, oracle_log);",
        "}",
        "u64 model_state(void)",
        "{ u64 s = m_state; for (int i = 0; i < 8; i++) s = s * 31 + m_store[i]; return s; }",
    ]

    def put(statement: Statement, indent: int, function: Function) -> None:
        tabs = "\t" * indent
        if isinstance(statement, Text):
            out.append(tabs + statement.c.replace("$", "m_"))
        elif isinstance(statement, Call):
            push = f"path[depth++] = {lines[statement]};"
            call = f"m_{statement.callee.name}({', '.join(statement.arguments)});".replace("$", "m_")
            if statement.returned:
                assert function.returns is not None
                out.append(f"{tabs}{{ {push} {function.returns.c} r = {call} depth--; return r; }}")
            else:
                left = f"{statement.target} = " if statement.target else ""
                out.append(f"{tabs}{push} {left}{call} depth--;")
        else:
            out.append(f"{tabs}{statement.head} {{".replace("$", "m_"))
            for inner in statement.body:
                put(inner, indent + 1, function)
            out.append(f"{tabs}}}{statement.tail}".replace("$", "m_"))

    for function in program.functions:
        storage = "" if function.external else "static "
        out += [f"{storage}__attribute__((noinline)) {signature(function, 'm_')}", "{", f"\trecord({function.number});"]
        for parameter in function.parameters:
            out.append(f"\tfwrite(&{parameter.name}, sizeof {parameter.name}, 1, oracle_log);")
        for statement in function.body:
            put(statement, 1, function)
        out.append("}")
    return "\n".join(out) + "\n"


def _random_value(target: str, kind: CType) -> str:
    if kind.kind is Kind.INTEGER:
        return f"{target} = ({kind.c})pick();"
    if kind.kind is Kind.BOOL:
        return f"{target} = pick() & 1;"
    if kind.kind is Kind.ENUM:
        return f"{target} = {'(enum level)((s32)(pick() % 7) - 3)' if kind.signed else '(enum hue)(pick() & 3)'};"
    if kind.kind is Kind.FLOAT:
        return f"{target} = (s16)pick() * 0.25f;"
    if kind.kind is Kind.WIDE:
        return f"{target} = (u128)pick() << 64 | pick();"
    if kind.kind is Kind.POINTER:
        return f"{target} = {'&pool[pick() & 31]' if 'u64' in kind.c else '&pairs[pick() & 7]'};"
    return " ".join(_random_value(f"{target}.{chr(97 + i)}", member) for i, member in enumerate(kind.members))


def _driver(program: Program, invocations: int) -> str:
    out = ["#include <stdio.h>", "#include <stdlib.h>", declarations()]
    out += [
        f"u64 pool[{POOL_WORDS}]; struct s16 pairs[{POOL_PAIRS}]; extern u64 table[{TABLE_WORDS}];",
        "FILE *oracle_log; u32 oracle_invocation; static u64 seed;",
        "extern u64 model_state(void), traced_state(void);",
        '__attribute__((noinline)) void oracle_anchor(void) { __asm__ volatile (""); }',
        "u64 opaque(u64 x) { return x * 0x9e3779b97f4a7c15ul ^ x >> 29; }",
        "static u64 word(void)",
        "{ seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return seed * 0x2545f4914f6cdd1dul; }",
        "static u64 pick(void)",
        "{ u64 w = word(); switch (w >> 61) { case 0: return w & 15; case 1: return -(w & 15);"
        " case 2: return w & 0xffff; case 3: return (u64)(s32)w; default: return w; } }",
    ]
    for entry in program.entries:
        out += [f"extern {signature(entry, '')};", f"extern {signature(entry, 'm_')};"]
    out += [
        "int main(int argc, char **argv)",
        "{",
        '\tif (argc != 3 || !(oracle_log = fopen(argv[1], "wb"))) return 2;',
        "\tseed = strtoul(argv[2], 0, 0) * 2 + 1; word(); word();",
        f"\tfor (int i = 0; i < {POOL_WORDS}; i++) pool[i] = pick();",
        f"\tfor (int i = 0; i < {POOL_PAIRS}; i++) {{ pairs[i].a = pick(); pairs[i].b = (s64)pick(); }}",
        f"\tfor (int i = 0; i < {TABLE_WORDS}; i++) table[i] = pick();",
        f"\tfor (; oracle_invocation < {invocations}; oracle_invocation++) {{",
        "\t\tu64 wanted = 0, got = 0;",
        f"\t\tswitch (oracle_invocation % {len(program.entries)}) {{",
    ]
    for number, entry in enumerate(program.entries):
        out.append(f"\t\tcase {number}: {{")
        for parameter in entry.parameters:
            out.append(f"\t\t\t{parameter.type.c} {parameter.name}; {_random_value(parameter.name, parameter.type)}")
        names = ", ".join(p.name for p in entry.parameters)
        out.append(f"\t\t\twanted = m_{entry.name}({names}); oracle_anchor(); got = {entry.name}({names}); break;")
        out.append("\t\t}")
    out += [
        "\t\t}",
        f"\t\tif (wanted != got || model_state() != traced_state()) return {EXIT_MISMATCH};",
        "\t}",
        "\treturn fclose(oracle_log) ? 2 : 0;",
        "}",
    ]
    return "\n".join(out) + "\n"
