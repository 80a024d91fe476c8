"""Disk images made from directories, without loop devices or mounts: mke2fs copies the files in."""

from __future__ import annotations

import struct
from pathlib import Path

from vmimages.cache import require, run

DISK_SIGNATURE = 0x52494701
"""The MBR's signature of a root disk: the kernel finds its first partition by PARTUUID ``52494701-01``."""

_PARTITION_START = 2048  # sectors of 512 bytes


def filesystem(directory: Path, image: Path, *, free_megabytes: int = 0, label: str = "") -> None:
    """Write an ext4 file system that has the files of ``directory`` and some free space to the new file ``image``."""
    _mke2fs(directory, image, _size_megabytes(directory, free_megabytes), label=label, offset=0)


def root_disk(directory: Path, image: Path, *, free_megabytes: int = 512) -> None:
    """Write a disk with a partition table and one ext4 partition of ``directory``, to boot from by PARTUUID."""
    size = _size_megabytes(directory, free_megabytes)
    record = bytearray(512)
    struct.pack_into("<I", record, 440, DISK_SIGNATURE)
    struct.pack_into("<B3sB3sII", record, 446, 0, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", _PARTITION_START, size * 2048)
    record[510:512] = b"\x55\xaa"
    with open(image, "wb") as handle:
        handle.write(record)
        handle.truncate((size + 2) << 20)
    _mke2fs(directory, image, size, label="root", offset=_PARTITION_START * 512)


def empty(image: Path, megabytes: int) -> None:
    """Write a sparse file of zeros."""
    with open(image, "wb") as handle:
        handle.truncate(megabytes << 20)


def _size_megabytes(directory: Path, free_megabytes: int) -> int:
    files = 0
    content = 0
    for path in directory.rglob("*"):
        files += 1
        if path.is_file() and not path.is_symlink():
            content += (path.stat().st_size + 4095) & ~4095
    # An inode is 256 bytes, a directory at least a block; the tenth is for block maps, bitmaps and group descriptors.
    return int((content + files * 512) * 1.1 / (1 << 20)) + 16 + free_megabytes


def _mke2fs(directory: Path, image: Path, megabytes: int, *, label: str, offset: int) -> None:
    inodes = sum(1 for _ in directory.rglob("*")) + 4096
    extended = f"lazy_itable_init=1,root_owner=0:0{f',offset={offset}' if offset else ''}"
    run(
        [
            require("mke2fs", "e2fsprogs"), "-q", "-F", "-t", "ext4", "-O", "^has_journal,^metadata_csum,^resize_inode",
            "-m", "0", "-N", str(inodes), "-E", extended, "-L", label, "-d", directory, image, f"{megabytes}M",
        ],
        what=f"making the disk image {image.name}",
    )  # fmt: skip
