"""The running kernel as input, on a machine that is a directory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inlinetrace.elf.debugfile import Attempt
from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import MismatchError, NotFoundError, NotPermittedError, UnsupportedError
from inlinetrace.target.image import open_image
from inlinetrace.target.loaded import AddressKind
from inlinetrace.target.running import RunningKernel, open_running_kernel, resolve_running
from tests.target.machine import BUILD_ID, LINKED_AT, OTHER_BUILD_ID, RELEASE, Machine, elf, note

DEBIAN = f"/usr/lib/debug/boot/vmlinux-{RELEASE}"
BY_BUILD_ID = f"/usr/lib/debug/.build-id/{BUILD_ID.hex()[:2]}/{BUILD_ID.hex()[2:]}.debug"
SLIDE = 0x19000000

PLACES = [
    DEBIAN,
    f"/boot/vmlinux-{RELEASE}",
    f"/lib/modules/{RELEASE}/vmlinux-{RELEASE}",
    f"/lib/modules/{RELEASE}/build/vmlinux",
    f"/usr/lib/modules/{RELEASE}/kernel/vmlinux",
    f"/usr/lib/debug/boot/vmlinux-{RELEASE}.debug",
    f"/usr/lib/debug/lib/modules/{RELEASE}/vmlinux",
    BY_BUILD_ID,
]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.kernel(stext=LINKED_AT + SLIDE)
    return machine


@pytest.mark.parametrize("place", [*PLACES, f"/root/.cache/debuginfod_client/{BUILD_ID.hex()}/debuginfo"])
def test_every_place_where_a_distribution_puts_it(machine: Machine, place: str) -> None:
    machine.write(place, elf(BUILD_ID))
    image = open_running_kernel(machine.host)
    assert image.path == str(machine.path(place))


def test_the_places_are_tried_in_this_order(machine: Machine) -> None:
    tried: list[Attempt] = []
    with pytest.raises(NotFoundError):
        open_running_kernel(machine.host, report=tried.append)
    assert [attempt.path for attempt in tried] == [
        *PLACES,
        f"/root/.cache/debuginfod_client/{BUILD_ID.hex()}/debuginfo",
        "debuginfod-find",
    ]
    assert {attempt.outcome for attempt in tried[:-1]} == {"no such file"}
    assert tried[-1].outcome == "DEBUGINFOD_URLS is not set"


def test_another_debug_root(machine: Machine) -> None:
    machine.write(f"/srv/debug/boot/vmlinux-{RELEASE}", elf(BUILD_ID))
    assert open_running_kernel(machine.host, roots=["/srv/debug"]).path.endswith(f"/srv/debug/boot/vmlinux-{RELEASE}")


def test_addresses_are_run_time_ones(machine: Machine) -> None:
    machine.write(DEBIAN, elf(BUILD_ID))
    image = open_running_kernel(machine.host)
    assert image.known_as(LINKED_AT + 0x14) == LINKED_AT + SLIDE + 0x14
    assert image.region(LINKED_AT + 0x14) == (".text", LINKED_AT, LINKED_AT + 64, LINKED_AT + SLIDE)
    assert image.name_address(LINKED_AT + 0x1008) == hex(LINKED_AT + SLIDE + 0x1008)
    assert image.address_kind(".text") is AddressKind.RUN_TIME
    assert image.load_bias == SLIDE
    assert image.notices == []


def test_per_cpu_offsets_are_not_moved(machine: Machine) -> None:
    machine.write(DEBIAN, elf(BUILD_ID))
    image = open_running_kernel(machine.host)
    assert image.runtime_address(0x20) == 0x20
    assert image.runtime_address(0x123456) is None


def test_a_kernel_that_was_not_moved(machine: Machine) -> None:
    machine.kernel(stext=LINKED_AT)
    machine.write(DEBIAN, elf(BUILD_ID))
    image = open_running_kernel(machine.host)
    assert image.known_as(LINKED_AT + 0x14) == LINKED_AT + 0x14
    assert image.address_kind(".text") is AddressKind.RUN_TIME


def test_text_stands_in_for_stext(machine: Machine) -> None:
    machine.kernel(stext=LINKED_AT + SLIDE, symbol="_text")
    machine.write(DEBIAN, elf(BUILD_ID, stext="_text"))
    assert open_running_kernel(machine.host).known_as(LINKED_AT) == LINKED_AT + SLIDE


@pytest.mark.parametrize(
    ("level", "user", "words"),
    [
        ("2", 0, r"kernel\.kptr_restrict is 2: sysctl kernel\.kptr_restrict=1"),
        ("1", 1000, r"kernel\.kptr_restrict is 1: only root"),
        ("0", 1000, r"kernel\.kptr_restrict is 0: only root"),
        ("1", 0, "CAP_SYSLOG"),
    ],
)
def test_hidden_addresses_leave_the_link_time_ones(tmp_path: Path, level: str, user: int, words: str) -> None:
    machine = Machine(tmp_path, user=user)
    machine.kernel(stext=0)
    machine.write("/proc/sys/kernel/kptr_restrict", level + "\n")
    machine.write(DEBIAN, elf(BUILD_ID))
    image = open_running_kernel(machine.host)
    assert image.known_as(LINKED_AT + 0x14) == LINKED_AT + 0x14
    assert image.address_kind(".text") is AddressKind.LINK_TIME
    assert image.load_bias is None
    (notice,) = image.notices
    assert re.search(words, notice)


def test_no_kallsyms_is_hidden_too(machine: Machine) -> None:
    machine.path("/proc/kallsyms").unlink()
    machine.write(DEBIAN, elf(BUILD_ID))
    (notice,) = open_running_kernel(machine.host).notices
    assert "no /proc/kallsyms" in notice


def test_another_build_is_refused_and_both_are_named(machine: Machine) -> None:
    machine.write(DEBIAN, elf(OTHER_BUILD_ID))
    with pytest.raises(MismatchError) as caught:
        open_running_kernel(machine.host)
    assert OTHER_BUILD_ID.hex() in str(caught.value)
    assert BUILD_ID.hex() in str(caught.value)
    assert str(caught.value).startswith(DEBIAN)


def test_another_build_does_not_end_the_search(machine: Machine) -> None:
    machine.write(DEBIAN, elf(OTHER_BUILD_ID))
    machine.write(PLACES[3], elf(None))
    machine.write(PLACES[4], b"\x7fELF")
    machine.write(PLACES[5], elf(BUILD_ID, dwarf=False))
    machine.write(BY_BUILD_ID, elf(BUILD_ID))
    tried: list[Attempt] = []
    assert open_running_kernel(machine.host, report=tried.append).path == str(machine.path(PLACES[5]))
    outcomes = {attempt.path: attempt.outcome for attempt in tried}
    assert outcomes[BY_BUILD_ID] == "found"
    assert "it has no build id" in outcomes[PLACES[3]]
    assert outcomes[PLACES[4]] not in ("found", "no such file")
    assert outcomes[PLACES[5]] == "it has no .debug_info"


def test_instructions_come_from_the_file_that_has_them(machine: Machine) -> None:
    machine.write(f"/boot/vmlinux-{RELEASE}", elf(BUILD_ID, dwarf=False))
    machine.write(f"/usr/lib/debug/boot/vmlinux-{RELEASE}.debug", elf(BUILD_ID, code=False))
    image = open_running_kernel(machine.host)
    assert image.program.path == str(machine.path(f"/boot/vmlinux-{RELEASE}"))
    assert image.debug.path == str(machine.path(f"/usr/lib/debug/boot/vmlinux-{RELEASE}.debug"))


def test_what_may_not_be_read_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> ElfFile:
        if path != str(machine.path(DEBIAN)):
            raise NotFoundError("no such file", path=path)
        raise NotPermittedError("not permitted to read it", path=DEBIAN)

    # Root, who may run this test, is refused nothing.
    monkeypatch.setattr(ElfFile, "open", refuse)
    with pytest.raises(NotPermittedError, match=f"{DEBIAN}: not permitted to read it: root may be"):
        open_running_kernel(machine.host)


@pytest.mark.parametrize("notes", [None, b"", note(b"")])
def test_a_kernel_without_build_id(machine: Machine, notes: bytes | None) -> None:
    machine.path("/sys/kernel/notes").unlink()
    if notes is not None:
        machine.write("/sys/kernel/notes", notes)
    machine.write(DEBIAN, elf(None))
    with pytest.raises(UnsupportedError, match="-k"):
        open_running_kernel(machine.host)


@pytest.mark.parametrize(
    ("release_file", "advice"),
    [
        ("ID=debian\n", f"apt install linux-image-{RELEASE}-dbg,"),
        ("ID=ubuntu\nID_LIKE=debian\n", f"apt install linux-image-{RELEASE}-dbgsym"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', f"linux-image-{RELEASE}-dbgsym"),
        ("ID=fedora\n", "dnf debuginfo-install kernel"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf debuginfo-install kernel"),
        ("ID=arch\n", "DEBUGINFOD_URLS=https://debuginfod.archlinux.org"),
        ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n', "DEBUGINFOD_URLS=https://debuginfod.opensuse.org"),
        ("ID=own\n", "package with the kernel's debug symbols"),
        (None, "package with the kernel's debug symbols"),
    ],
)
def test_what_to_install(machine: Machine, release_file: str | None, advice: str) -> None:
    if release_file is not None:
        machine.write("/etc/os-release", release_file)
    with pytest.raises(NotFoundError) as caught:
        open_running_kernel(machine.host)
    assert advice in str(caught.value)
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)


class TestCache:
    """~/.cache/inlinetrace."""

    OTHER_PLACE = "/srv/vmlinux"

    def test_the_place_is_remembered(self, machine: Machine) -> None:
        machine.write(BY_BUILD_ID, elf(BUILD_ID))
        open_running_kernel(machine.host)
        tried: list[Attempt] = []
        open_running_kernel(machine.host, report=tried.append)
        assert tried == [Attempt(BY_BUILD_ID, "found")]

    def test_xdg_cache_home(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path, XDG_CACHE_HOME="/var/cache/me")
        machine.kernel()
        machine.write(DEBIAN, elf(BUILD_ID))
        open_running_kernel(machine.host)
        assert machine.path(f"/var/cache/me/inlinetrace/{BUILD_ID.hex()}/debug-file.json").exists()
        assert not machine.path("/root/.cache").exists()

    def test_a_home_that_is_not_there_is_not_made(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path, HOME="/nonexistent")
        machine.kernel()
        machine.write(DEBIAN, elf(BUILD_ID))
        open_running_kernel(machine.host)
        assert not machine.path("/nonexistent").exists()

    def test_what_is_remembered_and_gone_is_searched_again(self, machine: Machine) -> None:
        machine.write(BY_BUILD_ID, elf(BUILD_ID))
        open_running_kernel(machine.host)
        machine.path(BY_BUILD_ID).unlink()
        machine.write(DEBIAN, elf(BUILD_ID))
        assert open_running_kernel(machine.host).path == str(machine.path(DEBIAN))
        tried: list[Attempt] = []
        open_running_kernel(machine.host, report=tried.append)
        assert tried == [Attempt(DEBIAN, "found")]

    @pytest.mark.parametrize(
        "content", ["", "{", "[]", '{"path": 1}', '{"path": "relative"}', '{"path": "/a\\u0000b"}']
    )
    def test_a_damaged_cache_is_none(self, machine: Machine, content: str) -> None:
        machine.write(f"/root/.cache/inlinetrace/{BUILD_ID.hex()}/debug-file.json", content)
        machine.write(DEBIAN, elf(BUILD_ID))
        assert open_running_kernel(machine.host).path == str(machine.path(DEBIAN))

    def test_a_file_of_another_build_is_not_taken_from_the_cache(self, machine: Machine) -> None:
        machine.write(self.OTHER_PLACE, elf(OTHER_BUILD_ID))
        machine.write(f"/root/.cache/inlinetrace/{BUILD_ID.hex()}/debug-file.json", '{"path": "/srv/vmlinux"}')
        machine.write(DEBIAN, elf(BUILD_ID))
        assert open_running_kernel(machine.host).path == str(machine.path(DEBIAN))

    def test_a_cache_that_all_may_write_is_not_trusted(self, machine: Machine) -> None:
        machine.write(self.OTHER_PLACE, elf(BUILD_ID))
        cache = machine.write(f"/root/.cache/inlinetrace/{BUILD_ID.hex()}/debug-file.json", '{"path": "/srv/vmlinux"}')
        cache.chmod(0o666)
        machine.write(DEBIAN, elf(BUILD_ID))
        assert open_running_kernel(machine.host).path == str(machine.path(DEBIAN))

    def test_the_cache_of_another_user_is_neither_read_nor_written(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path, user=4242)
        machine.kernel()
        # A user other than root owns nothing here, and root's files are trusted: pretend that they are not root's.
        machine.host.owner = lambda path: 77  # type: ignore[method-assign]
        machine.write(self.OTHER_PLACE, elf(BUILD_ID))
        text = '{"path": "/srv/vmlinux"}'
        cache = machine.write(f"/root/.cache/inlinetrace/{BUILD_ID.hex()}/debug-file.json", text)
        machine.write(DEBIAN, elf(BUILD_ID))
        assert open_running_kernel(machine.host).path == str(machine.path(DEBIAN))
        assert cache.read_text() == text

    def test_without_a_home_there_is_none(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path, HOME="")
        machine.kernel()
        machine.write(DEBIAN, elf(BUILD_ID))
        assert open_running_kernel(machine.host).path == str(machine.path(DEBIAN))

    def test_what_cannot_be_written_is_not_needed(self, machine: Machine) -> None:
        machine.write("/root/.cache/inlinetrace", "a file is in the way")
        machine.write(DEBIAN, elf(BUILD_ID))
        assert open_running_kernel(machine.host).path == str(machine.path(DEBIAN))


class TestDebuginfodCache:
    """What the debuginfod client has downloaded before."""

    def test_its_own_variable(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path, DEBUGINFOD_CACHE_PATH="/var/cache/debuginfod")
        machine.kernel()
        place = machine.write(f"/var/cache/debuginfod/{BUILD_ID.hex()}/debuginfo", elf(BUILD_ID))
        assert open_running_kernel(machine.host).path == str(place)

    def test_the_old_place(self, machine: Machine) -> None:
        place = machine.write(f"/root/.debuginfod_client_cache/{BUILD_ID.hex()}/debuginfo", elf(BUILD_ID))
        assert open_running_kernel(machine.host).path == str(place)

    def test_its_negative_answer_is_none(self, machine: Machine) -> None:
        machine.write(f"/root/.cache/debuginfod_client/{BUILD_ID.hex()}/debuginfo", b"")
        with pytest.raises(NotFoundError):
            open_running_kernel(machine.host)

    def test_a_file_that_all_may_write_is_not_trusted(self, machine: Machine) -> None:
        place = machine.write(f"/root/.cache/debuginfod_client/{BUILD_ID.hex()}/debuginfo", elf(BUILD_ID))
        place.chmod(0o666)
        with pytest.raises(NotFoundError):
            open_running_kernel(machine.host)


class TestAFileThatRunsNow:
    """--loaded: run-time addresses for a file that was named."""

    def test_its_addresses_are_run_time_ones(self, machine: Machine) -> None:
        image = open_image(machine.write("/srv/vmlinux", elf(BUILD_ID)))
        assert image.known_as(LINKED_AT) == LINKED_AT
        resolve_running(image, machine.host)
        assert image.known_as(LINKED_AT) == LINKED_AT + SLIDE

    def test_another_build_is_refused(self, machine: Machine) -> None:
        image = open_image(machine.write("/srv/vmlinux", elf(OTHER_BUILD_ID)))
        with pytest.raises(MismatchError, match=rf"{OTHER_BUILD_ID.hex()}.*{BUILD_ID.hex()}"):
            resolve_running(image, machine.host)


def test_the_build_id_is_the_gnu_note_among_others(machine: Machine) -> None:
    assert RunningKernel(machine.host).build_id == BUILD_ID
    assert RunningKernel(machine.host).release == RELEASE
