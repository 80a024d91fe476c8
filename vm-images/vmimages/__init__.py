"""Recipes for the virtual machines that tests and people use: kernels, root file systems, disks and the runner.

Standard library only, so that ``python3 vm-images/fetch.py`` works on a machine with nothing but Debian's packages:
qemu-system-x86, mmdebstrap, e2fsprogs, kmod, python3.11-venv, python3.11-dev, gcc-12, make, dwarves.
Nothing binary is kept in the repository; everything made here lands in the cache (:mod:`vmimages.cache`).
"""
