"""Make BTF from DWARF: the types (NAME.BTF) and where inlined functions are (NAME.BTF.inline).

  inlinetrace generate vmlinux -o out              both, as out/vmlinux.BTF and out/vmlinux.BTF.inline
  inlinetrace generate vmlinux --base-only         the types alone, as pahole -J makes them
  inlinetrace generate vmlinux --inline-only -B /sys/kernel/btf/vmlinux    location info for the kernel that runs
  inlinetrace generate -m xfs -B out/vmlinux.BTF   a module, split from the kernel's types
  inlinetrace generate -m all -o out               every module that is installed
  inlinetrace generate vmlinux --embed vmlinux.new a copy of the file with both as sections

Parameters that may show another value than the one passed, and those that the format cannot say, are written as "not
available"; how many, and why, goes to stderr.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.cli.terminal import say, visible
from inlinetrace.errors import InlineTraceError, NotFoundError, UsageError

if TYPE_CHECKING:
    from contextlib import ExitStack

    from inlinetrace.btf.reader import Btf
    from inlinetrace.generate.base import Base
    from inlinetrace.generate.features import Features
    from inlinetrace.generate.pipeline import Generated, Report, Settings
    from inlinetrace.target.host import Host
    from inlinetrace.target.image import Image

HELP = "make BTF types and location info from DWARF"

ALL_MODULES = "all"
_RUNNING_BTF = "/sys/kernel/btf/vmlinux"
_MEGABYTE = 1e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``generate``."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="kernel images, modules, programs or objects with DWARF"
    )
    group = parser.add_argument_group("input")
    group.add_argument(
        "-m", "--module", metavar="NAME", action="append", default=[],
        help="a module by its name, loaded or installed; all: every installed one; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "-B", "--base-btf", metavar="BASE", action="append", default=[],
        help="what the result is split from; once per level, outermost first (for -m: the running kernel's BTF)",
    )  # fmt: skip
    group.add_argument(
        "--debug-root", metavar="DIR", action="append",
        help="where separate debug files are installed (default: /usr/lib/debug); may be repeated",
    )  # fmt: skip
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", metavar="DIR", help="where the files go (default: the current directory)")
    output.add_argument("--embed", metavar="OUT", help="write a copy of FILE with the sections .BTF and .BTF.inline")
    only = output.add_mutually_exclusive_group()
    only.add_argument("--base-only", action="store_true", help="the types alone")
    only.add_argument(
        "--inline-only", action="store_true",
        help="the location info alone, for the types of BASE, or of the file's own section .BTF",
    )  # fmt: skip
    output.add_argument("--no-cache", action="store_true", help="do not keep the result for list")
    output.add_argument("-q", "--quiet", action="store_true", help="say nothing on stderr but errors")
    _add_format_arguments(parser.add_argument_group("format"))
    parser.add_argument(
        "-j", "--jobs", type=_jobs, metavar="N", help="threads (default: one per processor); the bytes are the same"
    )


def _add_format_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--dialect", choices=("rfc", "v2", "new"), default="new", help="posting of the location kinds (default: new)"
    )
    group.add_argument(
        "--locsec-name", choices=("section", "inline"),
        help="name LOCSECs .text or inline.text (default: section for v2, inline for new)",
    )  # fmt: skip
    group.add_argument(
        "--offset-base", choices=("section", "image"),
        help="what offsets count from (default: the section; rfc: the image)",
    )  # fmt: skip
    group.add_argument(
        "--order", choices=("function", "offset"),
        help="what the sites of a LOCSEC are sorted by (default: function; rfc: offset)",
    )  # fmt: skip
    group.add_argument(
        "--site-address", choices=("entry", "low"), default="entry",
        help="a site's address: its entry, or the lowest one as pahole takes it (default: entry)",
    )  # fmt: skip
    group.add_argument("--doubtful", action="store_true", help="keep locations that may show another value")
    _add_pahole_arguments(group)


def _add_pahole_arguments(group: argparse._ArgumentGroup) -> None:
    """Options that kernel builds hand over to pahole, under pahole's names too."""
    group.add_argument(
        "--btf-features", "--btf_features", metavar="LIST", action="append", default=[],
        help="features of the types, named as pahole names them, besides all those of 'default'; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--btf-features-strict", "--btf_features_strict", metavar="LIST", action="append", default=[],
        help="the same, but names that are not known are an error",
    )  # fmt: skip
    group.add_argument(
        "--lang-exclude", "--lang_exclude", metavar="LIST",
        help="languages whose units are left out (default: rust,c++)",
    )  # fmt: skip


def _jobs(text: str) -> int:
    try:
        jobs = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not 1 <= jobs <= 1024:
        raise argparse.ArgumentTypeError("from 1 to 1024 threads")
    return jobs


class _Task(NamedTuple):
    """One input: what its files are called, and how to open it (with a module's name if it is one)."""

    name: str
    path: str | None
    module: str | None


def run(args: argparse.Namespace) -> int:
    """Run ``generate``; 0 if everything was made."""
    import gc

    from inlinetrace._memory import keep_memory

    keep_memory()
    # Nothing here makes cycles; looking for them takes a tenth of the time.
    gc.disable()
    settings = settings_of(args)
    if not args.files and not args.module:
        raise UsageError("name files, or modules with -m")
    from inlinetrace.target.host import Host

    host = Host()
    every = ALL_MODULES in args.module
    tasks = _tasks(args, host)
    if args.embed and len(tasks) != 1:
        raise UsageError("--embed goes with one FILE")
    base = _base(args, many=len(tasks) > 1)
    failed = skipped = code = 0
    gc.freeze()
    for task in tasks:
        try:
            _run_one(task, args, settings, base, host)
        except UsageError:
            raise
        except InlineTraceError as error:
            if len(tasks) == 1 and not every:
                raise
            # One that cannot be made does not lose the others.
            if every and isinstance(error, NotFoundError):
                skipped += 1
                if args.quiet or skipped < len(tasks):
                    continue
            else:
                failed += 1
                code = code or error.exit_code
            say(str(error))
        if len(tasks) > 1:
            gc.collect()
    # The interpreter looks for cycles once more when it ends.
    gc.freeze()
    if every:
        made = len(tasks) - failed - skipped
        if not args.quiet:
            print(f"{made} of {len(tasks)} modules made, {skipped} without DWARF, {failed} failed", file=sys.stderr)
        if not made:
            raise NotFoundError("no module with DWARF is installed")
    return code


def settings_of(args: argparse.Namespace) -> Settings:
    """What the options ask for. Raises UsageError."""
    from inlinetrace.btf.kinds import Dialect
    from inlinetrace.generate.locations import SiteAddress
    from inlinetrace.generate.locsec import LocsecName, LocsecSettings, Order
    from inlinetrace.generate.pipeline import Settings, Wanted
    from inlinetrace.sites.from_btf import OffsetBase

    return Settings(
        Wanted.BASE if args.base_only else Wanted.INLINE if args.inline_only else Wanted.BOTH,
        _features(args),
        SiteAddress(args.site_address),
        args.doubtful,
        LocsecSettings(
            Dialect(args.dialect),
            LocsecName(args.locsec_name) if args.locsec_name else None,
            OffsetBase(args.offset_base) if args.offset_base else None,
            Order(args.order) if args.order else None,
        ),
        _languages(args),
    )


def _features(args: argparse.Namespace) -> Features:
    from inlinetrace.generate.features import Features

    if args.btf_features_strict:
        Features.parse(*args.btf_features_strict, strict=True)
    lists = [*args.btf_features, *args.btf_features_strict]
    return Features.parse(*lists) if lists else Features()


def _languages(args: argparse.Namespace) -> tuple[str, ...]:
    from inlinetrace.generate.types import EXCLUDED_LANGUAGES, LANGUAGES

    if args.lang_exclude is None:
        return EXCLUDED_LANGUAGES
    names = tuple(name.strip().lower() for name in args.lang_exclude.split(",") if name.strip())
    unknown = [name for name in names if name not in LANGUAGES]
    if unknown:
        raise UsageError(f"no such language: {', '.join(unknown)}; there are {', '.join(LANGUAGES)}")
    return names


def _tasks(args: argparse.Namespace, host: Host) -> list[_Task]:
    from inlinetrace.target.modules import MODULE_SUFFIXES, installed_modules, is_module_file, module_name

    tasks = []
    for path in args.files:
        is_module = os.path.basename(path).endswith(MODULE_SUFFIXES)
        tasks.append(_Task(os.path.basename(path), path, module_name(path) if is_module else None))
    for name in args.module:
        if name == ALL_MODULES:
            tasks += [_Task(module, None, module) for module in installed_modules(host, host.release)]
        elif is_module_file(name):
            tasks.append(_Task(os.path.basename(name), name, module_name(name)))
        else:
            tasks.append(_Task(name.replace("-", "_"), None, name))
    seen: set[str] = set()
    for task in tasks:
        if task.name in seen:
            raise UsageError(f"two inputs are called {task.name}: their files would be the same")
        seen.add(task.name)
    return tasks


class _Base(NamedTuple):
    """What the results are split from, and the files that it was read from, outermost first."""

    types: Base | None
    paths: list[str]

    @property
    def btf(self) -> Btf | None:
        """The object itself."""
        return None if self.types is None else self.types.btf


def _base(args: argparse.Namespace, *, many: bool) -> _Base:
    """The innermost of the bases, read once; for modules by name the running kernel's if none is named."""
    from inlinetrace.btf.load import load
    from inlinetrace.generate.base import Base

    paths = args.base_btf or ([_RUNNING_BTF] if args.module and not args.files else [])
    types = Base(load(paths[-1], paths[:-1]), many=many) if paths else None
    return _Base(types, [os.path.abspath(path) for path in paths])


def _open(task: _Task, args: argparse.Namespace, host: Host) -> Image:
    from inlinetrace.elf.debugfile import DEFAULT_ROOTS

    roots = tuple(args.debug_root or DEFAULT_ROOTS)
    if task.path is not None:
        from inlinetrace.target.image import open_image

        return open_image(task.path, roots=roots, module=task.module)
    from inlinetrace.target.running import open_running_module

    return open_running_module(host, task.module or task.name, roots=roots)


def _run_one(task: _Task, args: argparse.Namespace, settings: Settings, base: _Base, host: Host) -> None:
    from inlinetrace.cli.inputs import Progress
    from inlinetrace.generate.pipeline import Wanted, generate

    progress = Progress() if sys.stderr.isatty() and not args.quiet else None
    try:
        image = _open(task, args, host)
        if settings.wanted is Wanted.INLINE:
            base = _own_base(image, base)
            _check_build(image, base, host)
        made = generate(
            image,
            settings,
            base=base.types,
            jobs=args.jobs,
            progress=None if progress is None else lambda step: progress(f"{task.name}: {step}"),
        )
        _write(task, args, image, made)
    finally:
        if progress is not None:
            progress.end()
    if not args.quiet:
        for line in _lines(task.name, made):
            print(visible(line), file=sys.stderr)
    if not args.no_cache and settings.plain:
        _keep(host, image, made, base)


def _check_build(image: Image, base: _Base, host: Host) -> None:
    """Refuse types of another build, which names would not tell from those of this one. Raises MismatchError."""
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.errors import MismatchError

    own = image.debug.build_id
    path = base.paths[-1] if base.paths else ""
    other = None
    if path == _RUNNING_BTF:
        from inlinetrace.target.running import RunningKernel

        other = RunningKernel(host).build_id
    elif _is_elf(path):
        other = ElfFile.open(path).build_id
    if own is not None and other is not None and own != other:
        raise MismatchError(
            f"the build id is {own.hex()}, that of the types in {path} is {other.hex()}", path=image.path
        )


def _is_elf(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _own_base(image: Image, base: _Base) -> _Base:
    """What location info alone is split from: BASE, or the file's own ``.BTF``, for a module on top of BASE."""
    from inlinetrace.btf.load import MAIN
    from inlinetrace.btf.reader import Btf
    from inlinetrace.generate.base import Base

    if len(base.paths) > 1 or (base.btf is not None and not image.program.relocatable):
        # every level is named, or nothing but the whole of BASE is meant
        return base
    for elf in (image.program, image.debug):
        section = elf.section(MAIN)
        if section is not None and not section.nobits and section.size:
            data = elf.raw_data(section)
            if base.btf is not None and base.btf.data == data:
                return base
            own = Btf(data, base.btf, path=elf.path, section=MAIN)
            return _Base(Base(own), [*base.paths, os.path.abspath(elf.path)])
    if base.btf is None:
        raise UsageError(f"{image.path} has no section .BTF that location info could refer to: name the types with -B")
    return base


def _write(task: _Task, args: argparse.Namespace, image: Image, made: Generated) -> None:
    from contextlib import ExitStack

    with ExitStack() as together:
        if args.embed:
            _embed(together, args.embed, image, made)
        if args.output is not None or not args.embed:
            _write_objects(task, args.output or ".", made)


def _write_objects(task: _Task, folder: str, made: Generated) -> None:
    from inlinetrace.generate.output import write_error, write_together

    try:
        os.makedirs(folder, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InlineTraceError("is not a directory", path=folder) from error
    except OSError as error:
        raise write_error(error, folder) from error
    contents = {".BTF": made.base, ".BTF.inline": made.inline}
    write_together(
        {os.path.join(folder, task.name + ending): data for ending, data in contents.items() if data is not None}
    )


def _embed(together: ExitStack, path: str, image: Image, made: Generated) -> None:
    """Write the copy with the sections; it appears when ``together`` ends without an error."""
    from inlinetrace.elf.embed import write_with_sections
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.generate.output import Output

    elf = ElfFile.open(image.path)
    if os.path.exists(path) and os.path.samefile(path, image.path):
        raise UsageError(f"{path} is the input itself: --embed writes a copy")
    if os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode):
        raise UsageError(f"{path} is a pipe: --embed does not write from front to back, and needs a file")
    mode = os.stat(image.path).st_mode & 0o777
    sections = {name: data for name, data in ((".BTF", made.base), (".BTF.inline", made.inline)) if data is not None}
    write_with_sections(elf, sections, together.enter_context(Output(path, mode=mode)).file)


def _keep(host: Host, image: Image, made: Generated, base: _Base) -> None:
    """Keep the result for ``list``, which finds it by the build id."""
    from inlinetrace.target.cache import Cache

    build_id = image.debug.build_id or image.program.build_id
    if made.inline is not None and build_id is not None:
        Cache(host, build_id).remember_location_info(made.inline, made.base, base.paths, base.btf)


def _lines(name: str, made: Generated) -> Iterator[str]:
    """What was made, in a few lines."""
    if made.base is not None:
        yield f"{name}: {len(made.base) / _MEGABYTE:.1f} MB of types"
    if made.inline is None or made.report is None:
        return
    report = made.report
    share = f" ({100 * report.located / report.parameters:.0f} %)" if report.parameters else ""
    each = f", {len(made.inline) / report.sites:.1f} bytes a site" if report.sites else ""
    yield (
        f"{name}: {report.sites} sites of {report.functions} functions, {report.located} of {report.parameters} "
        f"parameters located{share}; {len(made.inline) / _MEGABYTE:.1f} MB{each}"
    )
    yield from _missing(name, report)


def _missing(name: str, report: Report) -> Iterator[str]:
    missing = [f"{count} {reason}" for reason, count in report.reasons.most_common()]
    if missing:
        yield f"{name}: not available: {', '.join(missing)}"
    doubts = [f"{count} {doubt}" for doubt, count in report.doubts.most_common()]
    if doubts:
        kept = report.parameters - report.located - report.reasons.total() == 0
        yield f"{name}: doubtful, {'kept' if kept else 'not written'}: {', '.join(doubts)}"
    written = report.written
    left_out = [
        (report.transparent, "that are parts of a function joined to it again"),
        (report.without_address, "without an address"),
        (report.of_other_languages, "in units of other languages than C"),
        (written.without_section, "outside of the code sections"),
        (written.without_function, "of functions that have no FUNC"),
        (written.out_of_range, "too far away for an offset"),
    ]
    for count, why in left_out:
        if count:
            yield f"{name}: left out: {count} sites {why}"
