# The recipes that people and CI run. `sh .ci/just RECIPE` works on a fresh machine, `just RECIPE` after that.

set shell := ["bash", "-euo", "pipefail", "-c"]

venv := justfile_directory() / ".venv"
python := venv / "bin/python"
export PATH := venv / "bin" + ":/usr/sbin:" + env("PATH")

# What building needs, and what the tests need on top; names only, apt knows the versions.
build_packages := "gcc libc6-dev python3-dev"
test_packages := "binutils gdb libbpf1 python3-bpfcc llvm clang-14 clang-19 clang-22 lld-19 llvm-19 dwarves bpftool dwz elfutils xz-utils zstd " + \
    "gcc-aarch64-linux-gnu gcc-s390x-linux-gnu gcc-riscv64-linux-gnu gcc-powerpc64le-linux-gnu gcc-arm-linux-gnueabihf " + \
    "libc6-dev-arm64-cross libc6-dev-s390x-cross libc6-dev-riscv64-cross libc6-dev-ppc64el-cross libc6-dev-armhf-cross"
guest_packages := "qemu-system-x86 mmdebstrap e2fsprogs kmod make gcc-12 python3-venv python3-dev"

[private]
default:
    @just --list --unsorted

# install what the product needs and build it
setup: (apt build_packages) build

# compile a small program with inlined functions, list them, trace them live (as root, where the kernel has uprobes)
demo: setup
    @mkdir -p .cache
    gcc -O2 -g -o .cache/demo examples/demo.c
    inlinetrace list area clamp -x .cache/demo -v
    @if [ "$(id -u)" = 0 ] && [ -e /sys/kernel/tracing/uprobe_events ]; then \
        echo "inlinetrace probe area clamp --args -x .cache/demo -- 3"; \
        inlinetrace probe area clamp --args -x .cache/demo -- 3; \
    else \
        echo "no live trace: it needs root and tracefs with uprobes"; \
    fi

# ruff, mypy --strict
check: build
    ruff check .
    ruff format --check .
    mypy

# everything: checks, unit tests, compiled programs, host uprobes, guests (ARGS go to pytest)
test *ARGS: (apt build_packages + " " + test_packages + " " + guest_packages) build check kernels tracefs
    @python -m pytest {{ ARGS }}

# the quick part: unit tests only
unit *ARGS: build
    @python -m pytest -m "not compiled and not uprobes and not guest and not kernel" {{ ARGS }}

# the guest tests alone, on the kernels that apt has now
vmtest *ARGS: (apt build_packages + " " + test_packages + " " + guest_packages) build kernels
    @python -m pytest -m guest {{ ARGS }}

# every place of a kernel that can be probed, under load: an hour under emulation; the table goes to .cache/soak
vm-soak KERNEL="6.1" *ARGS: (apt build_packages + " " + test_packages + " " + guest_packages) build kernels
    @INLINETRACE_SWEEP=all INLINETRACE_VM_RESULTS="${INLINETRACE_VM_RESULTS:-.cache/soak}" nice \
        python -m pytest -rP "tests/guest/test_every_site.py::test_sites_come_and_go_under_load[{{ KERNEL }}]" {{ ARGS }}

# how often values are wrong, by compiler, level and rule: the large run (--live traces through uprobes too)
oracle *ARGS="--values 500000": (apt build_packages + " " + test_packages) build
    @python -m tests.oracle {{ ARGS }}

# ratios against the peers, measured in the same run
bench *ARGS: (apt build_packages + " " + test_packages) build kernels
    @python -m tests.bench {{ ARGS }}
    @if [ "$(id -u)" = 0 ] && [ -e /sys/kernel/tracing/uprobe_events ]; then python -m tests.bench.live; fi

# a shell in a guest of Debian's 6.1 or 6.12 kernel, with inlinetrace installed and the debug files mounted
vm-shell KERNEL="6.1" *ARGS: (apt build_packages + " " + guest_packages) build kernels
    @python3 vm-images/shell.py {{ KERNEL }} {{ ARGS }}

# fetch the distribution kernels with DWARF that tests and benchmarks read, into the shared cache
kernels:
    @python3 vm-images/fetch.py --all-modules --headers

# remove what the recipes made; --all removes the venv too (the kernel cache stays)
clean *ARGS:
    rm -rf build dist .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
    find inlinetrace tests -name __pycache__ -prune -exec rm -rf {} +
    find inlinetrace -name '*.so' -delete
    find inlinetrace -name '*.pyx' | sed 's/pyx$/c/' | xargs rm -f
    {{ if ARGS == "--all" { "rm -rf .venv" } else { "rm -f .venv/.built" } }}

# where uprobes are defined; a fresh machine may not have it mounted
[private]
tracefs:
    @grep -q " /sys/kernel/tracing tracefs " /proc/mounts || mount -t tracefs tracefs /sys/kernel/tracing

# install those Debian packages that are missing
[private]
apt packages:
    #!/usr/bin/env bash
    set -euo pipefail
    missing=()
    for package in {{ packages }}; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && exit 0
    if [ "$(id -u)" != 0 ]; then
        echo "these packages are missing, and only root can install them: ${missing[*]}" >&2
        exit 1
    fi
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "${missing[@]}"

# install the Python dependencies and compile the extensions, if anything changed
[private]
build:
    #!/usr/bin/env bash
    set -euo pipefail
    cd {{ justfile_directory() }}
    [ -x {{ python }} ] || python3 -m venv .venv
    if ! cmp -s pyproject.toml .venv/.built; then
        {{ python }} -m pip install -q --disable-pip-version-check "setuptools>=77" "Cython>=3.1"
        {{ python }} -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[dev]'
        cp pyproject.toml .venv/.built
    else
        {{ python }} -W ignore -c "from setuptools import setup; setup()" -q build_ext --inplace
    fi
