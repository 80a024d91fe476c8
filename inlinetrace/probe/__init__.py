"""Live traces of inlined functions: a plan of what to attach, backends that attach it, hits with decoded arguments."""
