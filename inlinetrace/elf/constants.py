"""The numbers of the ELF specification that this package looks at (System V gABI, chapters 4 and 5; GNU extensions)."""

from __future__ import annotations

ET_REL, ET_EXEC, ET_DYN, ET_CORE = 1, 2, 3, 4

SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA = 0, 1, 2, 3, 4
SHT_NOTE, SHT_NOBITS, SHT_REL, SHT_DYNSYM, SHT_SYMTAB_SHNDX = 7, 8, 9, 11, 18

LAST_ADDRESS = (1 << 64) - 1
SHF_ALLOC, SHF_EXECINSTR, SHF_GROUP, SHF_TLS, SHF_COMPRESSED = 0x2, 0x4, 0x200, 0x400, 0x800

ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD = 1, 2

SHN_UNDEF, SHN_LORESERVE, SHN_XINDEX = 0, 0xFF00, 0xFFFF
# Reserved section numbers of symbols are moved to the top of 32 bits, where no section of a large object collides.
SHN_ABS, SHN_COMMON = 0xFFFFFFF1, 0xFFFFFFF2

PT_LOAD, PT_NOTE, PN_XNUM = 1, 4, 0xFFFF
PF_X = 1

STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION, STT_FILE, STT_TLS, STT_GNU_IFUNC = 0, 1, 2, 3, 4, 6, 10
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2

NT_GNU_BUILD_ID = 3
