"""BTF: the kernel's compact type information, with the location info of inlined functions.

Reading starts with ``load.load`` (files, ELF sections, sysfs) or ``reader.Btf`` (bytes); types are the classes of
``_types``. ``validate`` checks an object; ``c_source`` and ``layout`` print C and struct layouts, ``_text`` the words
of bpftool; ``builder.Builder`` writes. Nothing is imported here, because finding one type has to be quick.
"""
