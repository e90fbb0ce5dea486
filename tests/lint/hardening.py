#!/usr/bin/env python3
"""The programs are hardened: read from their ELF files, not from the build's options.

  hardening.py [--fortified] PROGRAM...     --fortified: the build has the checked functions of libc
  hardening.py --self-test COMPILER...      builds a program without any of it, which must fail in each point

Each program is position-independent, has full RELRO (a RELRO segment and BIND_NOW), no executable stack, stack
canaries, and on x86-64 landing pads (ENDBR64). The note for IBT and SHSTK is counted only. The linker writes it only if
the start files of the system have it; Debian 12's lack it. Together the programs must use checked functions of libc."""
import os
import struct
import subprocess
import sys
import tempfile

PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO, PT_GNU_PROPERTY = 1, 2, 0x6474e551, 0x6474e552, 0x6474e553
DT_STRTAB, DT_STRSZ, DT_FLAGS, DT_FLAGS_1 = 5, 10, 30, 0x6ffffffb
ENDBR64, LANDING_PADS = b'\xf3\x0f\x1e\xfa', 2
EM_X86_64, ET_DYN, FEATURE_1_AND = 62, 3, 0xc0000002


class Elf:
    def __init__(self, path):
        with open(path, 'rb') as f:
            self.data = f.read()
        if self.data[:6] != b'\x7fELF\x02\x01':
            raise ValueError(f'{path}: not a 64-bit little-endian ELF file')
        self.type, self.machine = struct.unpack_from('<HH', self.data, 16)
        at, = struct.unpack_from('<Q', self.data, 32)
        size, count = struct.unpack_from('<HH', self.data, 54)
        # (type, flags, offset, virtual address, size in the file)
        self.segments = [struct.unpack_from('<IIQQ8xQ', self.data, at + i * size) for i in range(count)]
        self.dynamic = self.read_dynamic()
        self.names = self.read_names()

    def segment(self, kind):
        return next((s for s in self.segments if s[0] == kind), None)

    def read_dynamic(self):
        s = self.segment(PT_DYNAMIC)
        return dict(struct.iter_unpack('<QQ', self.data[s[2]:s[2] + s[4] // 16 * 16])) if s else {}

    def read_names(self):
        """The names of the symbols that the loader binds."""
        address = self.dynamic.get(DT_STRTAB, 0)
        for kind, _, offset, start, size in self.segments:
            if kind == PT_LOAD and start <= address < start + size:
                at = address - start + offset
                return set(self.data[at:at + self.dynamic.get(DT_STRSZ, 0)].decode('ascii', 'replace').split('\0'))
        return set()

    def landing_pads(self):
        return sum(self.data.count(ENDBR64, s[2], s[2] + s[4]) for s in self.segments if s[0] == PT_LOAD and s[1] & 1)

    def features(self):
        """The bits of the x86 property: 1 IBT, 2 SHSTK."""
        s = self.segment(PT_GNU_PROPERTY)
        at, end = (s[2] + 16, s[2] + s[4]) if s else (0, 0)
        while at + 8 <= end:
            kind, size = struct.unpack_from('<II', self.data, at)
            if kind == FEATURE_1_AND:
                return struct.unpack_from('<I', self.data, at + 8)[0]
            at += 8 + (size + 7) // 8 * 8
        return 0


def missing(elf):
    """The points that the program lacks."""
    lacks = []
    stack = elf.segment(PT_GNU_STACK)
    if elf.type != ET_DYN:
        lacks.append('PIE')
    if not elf.segment(PT_GNU_RELRO):
        lacks.append('RELRO')
    if not (elf.dynamic.get(DT_FLAGS, 0) & 8 or elf.dynamic.get(DT_FLAGS_1, 0) & 1):
        lacks.append('BIND_NOW')
    if stack is None or stack[1] & 1:
        lacks.append('a stack that is not executable')
    if '__stack_chk_fail' not in elf.names:
        lacks.append('stack canaries')
    if elf.machine == EM_X86_64 and elf.landing_pads() < LANDING_PADS:
        lacks.append('landing pads for indirect branches')
    return lacks


def is_checked(name):
    return name.startswith('__') and name.endswith('_chk')


def check(paths, fortified):
    bad, notes, checked = 0, 0, set()
    for path in paths:
        elf = Elf(path)
        notes += elf.features() & 3 == 3
        checked |= {n for n in elf.names if is_checked(n)}
        for what in missing(elf):
            print(f'error: {path} lacks {what}')
            bad += 1
    if fortified and len(checked) < 3:
        print(f'error: the programs use only {len(checked)} checked functions of libc')
        bad += 1
    print(f'{len(paths)} programs, {notes} with the note for IBT and SHSTK, {len(checked)} checked functions, {bad} errors')
    return 1 if bad or not paths else 0


def self_test(compiler):
    with tempfile.TemporaryDirectory() as d:
        source, program = os.path.join(d, 'a.c'), os.path.join(d, 'a')
        with open(source, 'w', encoding='utf-8') as f:
            f.write('int main(void)\n{\n\treturn 0;\n}\n')
        subprocess.run([*compiler, '-no-pie', '-fno-pie', '-fno-stack-protector', '-fcf-protection=none', '-o', program, source,
                        '-Wl,-z,norelro,-z,lazy,-z,execstack'], check=True, stderr=subprocess.DEVNULL)
        lacks = missing(Elf(program))
    # The system's own start files may have landing pads.
    lacks = [what for what in lacks if not what.startswith('landing')]
    print(f'self-test: a bare program lacks {len(lacks)} of 5')
    return 0 if len(lacks) == 5 else 1


def main():
    args = sys.argv[1:]
    if args[:1] == ['--self-test']:
        return self_test(args[1:])
    return check([a for a in args if a != '--fortified'], '--fortified' in args)


if __name__ == '__main__':
    sys.exit(main())
