"""The truth harness: are the values shown at an inline site the values that were passed?

DWARF describes variables, a tracer shows arguments. This package measures how often the two differ. It generates
random C programs (:mod:`.generate`), prints each of them twice (:mod:`.emit`): the *traced* unit, compiled with the
compiler under test and free of any logging, and its *model*, unoptimised, which records every call with its
arguments. The program runs under ptrace (:mod:`.run`, :mod:`.ptrace`), stops at every site and evaluates the
locations that the product (:mod:`.product`) and the plain ``start <= pc < end`` rule (:mod:`.plain`) give there.
:mod:`.compare` holds both against the model, :mod:`.report` prints the rates.

``python -m tests.oracle --help`` runs it.
"""
