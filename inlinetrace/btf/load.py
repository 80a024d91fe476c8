"""Where BTF comes from: detached files, sysfs, sections of ELF files.

``load("vmlinux")`` gives a ``Btf`` on top of the bases that it needs:

=============================================== =====================================================================
input                                           base, if none is named
=============================================== =====================================================================
detached file                                   none
``/sys/kernel/btf/MODULE``                      ``vmlinux`` beside it
``/sys/kernel/btf/MODULE.inline``               ``MODULE`` beside it, and its base
``/sys/kernel/btf_extra/MODULE``                ``btf/MODULE`` beside ``btf_extra``, and its base
``.BTF`` of an ELF file                         ``.BTF.base`` of the same file if there is one
``.BTF.inline`` or ``.BTF.extra``               ``.BTF`` of the same file, and its base
=============================================== =====================================================================

Files of sysfs are read to their end whatever size they claim: that of a ``.inline`` file is 0 until the kernel has
loaded the module that delivers it, which opening the file makes it do.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from inlinetrace.btf.header import april_blob
from inlinetrace.btf.kinds import Dialect
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError, InlineTraceError, NotFoundError, NotPermittedError

# Importing typing would take a tenth of the time of finding one type.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile

MAIN = ".BTF"
BASE = ".BTF.base"
INLINE = ".BTF.inline"
EXTRA = ".BTF.extra"
_APRIL = ".BTF_inline"
_DELIVERED_BY = "btf_vmlinux_inline"
_ELF_MAGIC = b"\x7fELF"
_COMPRESSED = (b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"\x1f\x8b")
_LARGEST = 1 << 32
_BITE = 1 << 16


def _opener(path: str, flags: int) -> int:
    """Without O_NONBLOCK a FIFO would wait for its writer for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_blob(path: str) -> bytes | memoryview:
    """All bytes of a file, read until there are no more (a size of 0 means nothing in sysfs).

    The vmlinux file of newer kernels is mapped instead, which saves copying it.

    Errors: NotFoundError, NotPermittedError, InlineTraceError; for a sysfs file whose data a module delivers, the text
    names the module that is missing.
    """
    try:
        with open(path, "rb", buffering=0, opener=_opener) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FormatError("not a regular file", path=path)
            if _is_sysfs(path) and status.st_size:
                mapped = _mapped(file.fileno(), status.st_size)
                if mapped is not None:
                    return mapped
            parts = []
            total = 0
            while part := file.read(max(status.st_size - total, 0) + _BITE):
                parts.append(part)
                total += len(part)
                if total > _LARGEST:
                    raise FormatError("more than 4 GB: this is no BTF", path=path)
            return parts[0] if len(parts) == 1 else b"".join(parts)
    except OSError as error:
        raise _os_error(error, path) from error


def _mapped(descriptor: int, size: int) -> memoryview | None:
    """A mapping of a sysfs file, None where the kernel does not map it. Such a file cannot shrink under the mapping."""
    import mmap

    try:
        return memoryview(mmap.mmap(descriptor, size, mmap.MAP_PRIVATE, mmap.PROT_READ))
    except (OSError, ValueError):
        return None


def _os_error(error: OSError, path: str) -> InlineTraceError:
    if error.errno == errno.ENODEV:
        name = os.path.basename(path).removesuffix(".inline")
        module = _DELIVERED_BY if name == "vmlinux" else name
        return NotFoundError(
            f"the kernel cannot deliver it, because the module {module} is missing or does not fit: is it installed "
            f"for this kernel (modprobe {module})?",
            path=path,
        )
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NotFoundError("no such file", path=path)
    if error.errno in (errno.EACCES, errno.EPERM):
        return NotPermittedError("not permitted to read it", path=path)
    return InlineTraceError(f"cannot be read: {(error.strerror or str(error)).lower()}", path=path)


def load(
    path: str,
    bases: Sequence[str] = (),
    *,
    section: str | None = None,
    dialect: Dialect | None = None,
) -> Btf:
    """Load the BTF of a file with its bases.

    ``bases`` are paths, outermost first; they take the place of the default ones of the table above, except that an
    ELF file's own ``.BTF.base`` is always what its ``.BTF`` refers to. ``section`` chooses one of an ELF file
    (default ``.BTF``, else ``.BTF.inline``). ``dialect`` forces how location kinds are read.

    Errors: those of ``read_blob`` and ``Btf``; NotFoundError for an ELF file without BTF.
    """
    base: Btf | None = None
    for name in bases:
        base = _load_one(name, base, None, None)
    if base is None:
        base = _sysfs_base(path)
    return _load_one(path, base, section, dialect)


def _load_one(path: str, base: Btf | None, section: str | None, dialect: Dialect | None) -> Btf:
    try:
        with open(path, "rb", buffering=0, opener=_opener) as file:
            magic = file.read(6) or b""
    except OSError as error:
        raise _os_error(error, path) from error
    if magic[:4] == _ELF_MAGIC or magic.startswith(_COMPRESSED):
        return _load_elf(path, base, section, dialect)
    if section is not None:
        raise NotFoundError(f"no ELF file, so there is no section {section}", path=path)
    return Btf(read_blob(path), base, path=path, dialect=dialect)


def _load_elf(path: str, base: Btf | None, section: str | None, dialect: Dialect | None) -> Btf:
    from inlinetrace.elf.file import ElfFile

    elf = ElfFile.open(path)
    if section is None:
        section = next((name for name in (MAIN, INLINE, EXTRA) if elf.section(name) is not None), None)
        if section is None:
            if elf.section(_APRIL) is not None:
                raise april_blob(f"section {_APRIL}")
            raise NotFoundError("the file has no section .BTF", path=path)
    data = _contents(elf, section)
    if not len(data):
        found = elf.section(section)
        why = "has no contents in this file" if found is not None else "does not exist"
        raise NotFoundError(f"the section {section} {why}", path=path)
    if section in (INLINE, EXTRA) and len(_contents(elf, MAIN)):
        base = _load_elf(path, base, MAIN, None)
    elif section == MAIN and len(_contents(elf, BASE)):
        base = Btf(_contents(elf, BASE), path=path, section=BASE)
    return Btf(data, base, path=path, section=section, dialect=dialect)


def _contents(elf: ElfFile, name: str) -> memoryview:
    """The bytes of a section as they are: relocations of BTF, which BPF objects have, are for their loader."""
    section = elf.section(name)
    if section is None or section.compressed:
        return elf.data(section)
    return elf.raw_data(section)


def _is_sysfs(path: str) -> bool:
    above, last = os.path.split(os.path.dirname(os.path.abspath(path)))
    return os.path.basename(above) == "kernel" and last in ("btf", "btf_extra")


def _sysfs_base(path: str) -> Btf | None:
    """The base of a file of ``/sys/kernel/btf``, None for other files and for vmlinux itself."""
    if not _is_sysfs(path):
        return None
    folder, name = os.path.split(os.path.abspath(path))
    above, last = os.path.split(folder)
    if last == "btf_extra":
        beneath = name
    elif name.endswith(".inline"):
        beneath = name.removesuffix(".inline")
    elif name != "vmlinux":
        beneath = "vmlinux"
    else:
        return None
    base_path = os.path.join(above, "btf", beneath)
    return Btf(read_blob(base_path), _sysfs_base(base_path), path=base_path)
