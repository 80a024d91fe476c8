"""What an object of BTF says, independent of ids and order, as an independent reader sees it.

``described(path)`` has bpftool read a file and gives one line for each named type, function, variable and tag. What
they refer to is spelled out down to the next name, so that two objects that say the same have equal sets of lines.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.btf.conftest import output, tool

_TAGS = {"STRUCT": "struct", "UNION": "union", "ENUM": "enum", "ENUM64": "enum"}
_MODIFIERS = {"CONST": "const", "VOLATILE": "volatile", "RESTRICT": "restrict", "PTR": "ptr"}


def described(path: Path, *base: str) -> set[str]:
    """The lines of an object; ``base`` are arguments of bpftool that name what it is split from."""
    return set(_Reader(json.loads(output(tool("bpftool"), *base, "btf", "dump", "-j", "file", str(path)))).lines())


class _Reader:
    def __init__(self, dump: dict[str, Any]) -> None:
        self.types: dict[int, dict[str, Any]] = {entry["id"]: entry for entry in dump["types"]}

    def lines(self) -> list[str]:
        return [line for entry in self.types.values() if (line := self.line(entry))]

    def line(self, entry: dict[str, Any]) -> str:
        kind, name = entry["kind"], entry["name"]
        if name == "(anon)":
            return ""
        if kind in ("STRUCT", "UNION", "ENUM", "ENUM64"):
            return f"{kind} {name} {self.body(entry)}"
        if kind == "FWD":
            return f"FWD {entry['fwd_kind']} {name}"
        if kind == "TYPEDEF":
            return f"TYPEDEF {name} = {self.spelled(entry['type_id'])}"
        if kind == "FUNC":
            return f"FUNC {name} {entry['linkage']} {self.spelled(entry['type_id'])}"
        if kind == "INT":
            return f"INT {name} {entry['size']} {entry['nr_bits']} {entry['bits_offset']} {entry['encoding']}"
        if kind == "FLOAT":
            return f"FLOAT {name} {entry['size']}"
        if kind == "VAR":
            return f"VAR {name} {entry['linkage']} {self.spelled(entry['type_id'])}"
        if kind == "DATASEC":
            inside = [f"{self.types[v['type_id']]['name']}@{v['offset']}+{v['size']}" for v in entry["vars"]]
            return f"DATASEC {name} {entry['size']}: {', '.join(inside)}"
        if kind == "DECL_TAG":
            return f"DECL_TAG {name} {entry['component_idx']} of {self.target(entry['type_id'])}"
        return ""

    def target(self, type_id: int) -> str:
        entry = self.types[type_id]
        return f"{entry['kind']} {entry['name']}"

    def body(self, entry: dict[str, Any]) -> str:
        """A struct, union or enum without its name."""
        if "members" in entry:
            inside = [
                f"{m['name']}: {self.spelled(m['type_id'])} @{m['bits_offset']}"
                + (f":{m['bitfield_size']}" if m.get("bitfield_size") else "")
                for m in entry["members"]
            ]
        else:
            inside = [f"{v['name']}={v['val']}" for v in entry.get("values", [])]
        return f"{entry['size']} {{{'; '.join(inside)}}}"

    def spelled(self, type_id: int) -> str:
        """A type down to the next names."""
        before = ""
        while type_id:
            entry = self.types.get(type_id)
            if entry is None:
                # of the base
                return f"{before}base:{type_id}"
            kind, name = entry["kind"], entry["name"]
            if kind in _MODIFIERS:
                before += f"{_MODIFIERS[kind]} "
                type_id = entry["type_id"]
            elif kind == "TYPE_TAG":
                before += f"tag({name}) "
                type_id = entry["type_id"]
            elif kind == "ARRAY":
                before += f"[{entry['nr_elems']}] "
                type_id = entry["type_id"]
            elif kind == "FUNC_PROTO":
                params = [f"{p['name']}: {self.spelled(p['type_id'])}" for p in entry["params"]]
                before += f"({', '.join(params)}) -> "
                type_id = entry["ret_type_id"]
            elif kind in _TAGS:
                return before + _TAGS[kind] + " " + (name if name != "(anon)" else self.body(entry))
            elif kind == "FWD":
                return f"{before}{entry['fwd_kind']} {name}"
            else:
                return f"{before}{name}"
        return f"{before}void"
