#!/usr/bin/env python3
"""A room has a README of at most 600 words, and its private headers are its own.

A room is a folder with sources. A private header is named `*_priv.h`: only files of its folder, and of folders
below it, include it."""
import os
import re
import sys

import tree

WORDS = 600
# The architecture with the glossary, the simulation, and the table of floors, which a command writes, have limits of
# their own.
LIMITS = {'src/README.md': 1800, 'tests/sim/README.md': 1500, 'tests/bench/README.md': 3900, 'README.md': 1200}
SOURCES = ('.c', '.h', '.py', '.sql', '.sh', '.mut')
# Generated or recorded data, one file a case or a step.
EXEMPT = re.compile(r'tests/golden/|tests/fuzz/corpus|tests/cloudsim/data|tests/lint/ratchet')
_PRIVATE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+_priv\.h)"', re.M)


def check_readmes(files, root, report):
    names = set(files)
    rooms = {os.path.dirname(p) for p in files if p.endswith(SOURCES) and '/' in p}
    for room in sorted(rooms):
        if room + '/README.md' not in names and not EXEMPT.match(room + '/'):
            report.fail(room, 'no README.md: say what it is, how to use it, where a change goes')
    for path in files:
        if os.path.basename(path) == 'README.md':
            words, limit = len(tree.read(root, path).split()), LIMITS.get(path, WORDS)
            if words > limit:
                report.fail(path, f'{words} words, at most {limit}')


def check_private(files, root, report):
    private = {}
    for path in files:
        if path.endswith('_priv.h'):
            private.setdefault(os.path.basename(path), []).append(path)
    for path in files:
        # Tests may look into a room.
        if not path.endswith(('.c', '.h')) or path.startswith('tests/'):
            continue
        for name in _PRIVATE.findall(tree.read(root, path)):
            homes = [p for p in private.get(os.path.basename(name), []) if p.endswith('/' + name) or '/' not in name]
            if homes and not any(path.startswith(os.path.dirname(p) + '/') for p in homes):
                report.fail(path, f'includes {name}, the private header of another room')


def check(root, report):
    files = tree.files(root)
    check_readmes(files, root, report)
    check_private(files, root, report)


CASES = [
    ('a room', {'src/a/a.c': '', 'src/a/README.md': 'x ' * 600, 'README.md': ''}, [], []),
    ('no README', {'src/a/a.c': ''}, ['no README.md'], []),
    ('a long README', {'src/a/a.c': '', 'src/a/README.md': 'x ' * 601}, ['601 words'], []),
    ('its own header', {'src/a/README.md': '', 'src/a/b/README.md': '', 'src/a/a_priv.h': '',
                        'src/a/b/b.c': '#include "a/a_priv.h"\n'}, [], []),
    ('the header of another', {'src/a/README.md': '', 'src/b/README.md': '', 'src/a/a_priv.h': '',
                               'src/b/b.c': '#include "a/a_priv.h"\n'}, ['private header of another'], []),
]

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES))
