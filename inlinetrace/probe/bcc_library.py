"""BCC's library: where its Python module is found, and the calls of it that the bcc backend uses.

>>> library = open_library()                # NotFoundError says what to install
>>> table = library.make_map(HASH, "sites", 8, 64, 1000)

Programs are loaded, maps made and symbols found through it. Its compiler is not used, so neither the kernel's headers
nor the seconds that compiling takes are needed. Distributions package the module for their own Python; it is found from
inside a virtual environment too.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from inlinetrace.errors import NotFoundError

HASH, ARRAY, RING = 1, 2, 27
"""BPF_MAP_TYPE_* (include/uapi/linux/bpf.h)."""
NO_PREALLOCATION = 1
"""BPF_F_NO_PREALLOC."""
KPROBE_PROGRAM, TRACEPOINT_PROGRAM = 2, 5
"""BPF_PROG_TYPE_*; programs on uprobes are of the type of kprobes too."""
SLEEPABLE = 1 << 4
"""BPF_F_SLEEPABLE: the program may wait for memory to be read in."""

MISSING = (
    "the bcc backend needs BCC's Python module: install python3-bpfcc (Debian, Ubuntu) or python3-bcc (Fedora, RHEL, "
    "SUSE); the bcc of PyPI is another project"
)
_PERF_TYPE_TRACEPOINT = 2


def system_directories() -> list[str]:
    """Where distributions have modules for this version of Python, whatever virtual environment it runs in."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return [
        "/usr/lib/python3/dist-packages",
        *(f"{prefix}/{version}/site-packages" for prefix in ("/usr/lib64", "/usr/lib", "/usr/local/lib")),
    ]


def find_module(directories: Iterable[str] | None = None) -> ModuleType:
    """BCC's module, imported. Raises NotFoundError that says what to install."""
    loaded = sys.modules.get("bcc")
    if loaded is not None and hasattr(loaded, "BPF"):
        return loaded
    places = []
    if directories is None:
        own = importlib.util.find_spec("bcc") if loaded is None else None
        if own is not None and own.submodule_search_locations:
            places += list(own.submodule_search_locations)
        directories = system_directories()
    places += [os.path.join(directory, "bcc") for directory in directories]
    # The bcc of PyPI has no such module.
    place = next((place for place in places if os.path.exists(os.path.join(place, "libbcc.py"))), None)
    if place is None:
        raise NotFoundError(MISSING)
    spec = importlib.util.spec_from_file_location(
        "bcc", os.path.join(place, "__init__.py"), submodule_search_locations=[place]
    )
    if spec is None or spec.loader is None:
        raise NotFoundError(MISSING)
    module = importlib.util.module_from_spec(spec)
    sys.modules["bcc"] = module
    try:
        spec.loader.exec_module(module)
    except (ImportError, OSError, AttributeError) as error:
        for name in [name for name in sys.modules if name == "bcc" or name.startswith("bcc.")]:
            del sys.modules[name]
        raise NotFoundError(
            f"BCC's Python module cannot be loaded: {error}; install it again (python3-bpfcc or python3-bcc)",
            path=place,
        ) from error
    return module


class _LoadOptions(ctypes.Structure):
    """``struct bpf_prog_load_opts`` of libbpf 1.0, all of which the library may look at. Later ones only have more."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("attempts", ctypes.c_int),
        ("expected_attach_type", ctypes.c_uint32),
        ("btf", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("interface", ctypes.c_uint32),
        ("kernel_version", ctypes.c_uint32),
        ("attach_type_id", ctypes.c_uint32),
        ("attach_program", ctypes.c_uint32),
        ("attach_object", ctypes.c_uint32),
        ("descriptors", ctypes.c_void_p),
        ("functions", ctypes.c_void_p),
        ("functions_count", ctypes.c_uint32),
        ("function_size", ctypes.c_uint32),
        ("lines", ctypes.c_void_p),
        ("lines_count", ctypes.c_uint32),
        ("line_size", ctypes.c_uint32),
        ("log_level", ctypes.c_uint32),
        ("log_size", ctypes.c_uint32),
        ("log", ctypes.c_void_p),
        # room for what later versions of the library may look at
        ("later", ctypes.c_uint64 * 8),
    ]


class Library:
    """The calls that are used, with errors as exceptions. File descriptors are the caller's to close."""

    def __init__(self, module: ModuleType) -> None:
        self._lib = module.lib
        self.BPF: Any = module.BPF
        try:
            # by index: attributes are shared with everybody who uses the module
            self._create_map = self._lib["bcc_create_map"]
            self._load = self._lib["bcc_prog_load_xattr"]
            self._attach = self._lib["bpf_attach_perf_event_raw"]
            self._attributes = importlib.import_module("bcc.perf").Perf.perf_event_attr
        except AttributeError as error:
            raise NotFoundError(f"BCC's library is too old: {error}; 0.24 or later is needed") from error
        self._create_map.restype = ctypes.c_int
        self._create_map.argtypes = [ctypes.c_int, ctypes.c_char_p, *[ctypes.c_int] * 4]
        self._attach.restype = ctypes.c_int
        self._attach.argtypes = [ctypes.c_int, ctypes.c_void_p, *[ctypes.c_int] * 3, ctypes.c_ulong]
        self._load.restype = ctypes.c_int
        self._load.argtypes = [
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.POINTER(_LoadOptions),
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_uint,
            ctypes.c_bool,
        ]

    def make_map(self, kind: int, name: str, key_size: int, value_size: int, entries: int, flags: int = 0) -> int:
        """Make a map; its descriptor. Raises OSError."""
        return _checked(
            self._create_map(kind, name.encode(), key_size, value_size, entries, flags), "a BPF map cannot be made"
        )

    def update(self, table: int, key: bytes, value: bytes) -> None:
        """Set an element of a map. Raises OSError."""
        _checked(self._lib.bpf_update_elem(table, key, value, 0), "an element of a BPF map cannot be set")

    def lookup(self, table: int, key: bytes, size: int) -> bytes | None:
        """The element of a map, None if there is none."""
        buffer = ctypes.create_string_buffer(size)
        return buffer.raw if self._lib.bpf_lookup_elem(table, key, buffer) == 0 else None

    def load_program(self, kind: int, name: str, code: bytes, flags: int = 0) -> int:
        """Load a program; its descriptor. Raises OSError; the library says on stderr what the kernel has against it."""
        options = _LoadOptions(size=_LoadOptions.later.offset, attempts=1, flags=flags)
        descriptor = self._load(kind, name.encode(), b"GPL", code, options, len(code), None, 0, True)
        return _checked(descriptor, "the kernel does not accept the BPF program")

    def attach_tracepoint(self, identity: int, program: int, processor: int) -> int:
        """A perf event on an event of tracefs, with a program on it; its descriptor. Raises OSError.

        It is for all processes, and hits on any processor reach the program.
        """
        attributes = self._attributes()
        attributes.type = _PERF_TYPE_TRACEPOINT
        attributes.config = identity
        descriptor = self._attach(program, ctypes.byref(attributes), -1, processor, -1, 0)
        return _checked(descriptor, "a perf event cannot be opened")


def open_library(directories: Iterable[str] | None = None) -> Library:
    """BCC's library. Raises NotFoundError that says what to install."""
    return Library(find_module(directories))


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
