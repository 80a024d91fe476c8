"""Runs the whole chain on hostile files: whatever the bytes, a listing or an error of this package, soon."""

from __future__ import annotations

import contextlib
import io
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from inlinetrace.cli.render import Renderer
from inlinetrace.errors import InlineTraceError
from inlinetrace.target import open_image

SECONDS = 2.0


def chain(path: Path, *, limit: int = 100_000) -> tuple[int, InlineTraceError | None]:
    """Open, scan, build and render every site; how many lines came and the error that ended them, if any."""
    lines = 0
    text = io.StringIO()
    try:
        image = open_image(path, roots=())
        renderer = Renderer(image.debug.machine)
        for site in image.reader.build(image.reader.by_address(image.select().rows)):
            text.writelines(renderer.lines(site, True))
            text.write(renderer.json(site))
            lines += 1
            if lines >= limit:
                break
        list(image.reader.function_names())
        image.reader.count_inside(image.select(["*"]))
    except InlineTraceError as error:
        str(error)
        return lines, error
    return lines, None


@contextlib.contextmanager
def bounded(seconds: float = SECONDS, megabytes: int = 512) -> Iterator[None]:
    """Fail if the block takes more processor time or memory."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.process_time()
    yield
    used = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert used < seconds, f"took {used:.1f} s"
    grown = (after.ru_maxrss - before.ru_maxrss) >> 10
    assert grown < megabytes, f"took {grown} MB"
