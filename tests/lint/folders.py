#!/usr/bin/env python3
"""A folder has at most 30 files; over 20 warns. Sub-folders do not count, nor do README.md and meson.build.

EXEMPT names the folders that hold data, one file a case or a step, or a list that grows by design."""
import collections
import os
import sys

import ratchet
import tree

WARN, FAIL = 20, 30
EXEMPT = ('migrations', 'tests/golden', 'tests/fuzz/corpus', 'tests/cloudsim/data', 'src/core/rank/data',
          'tests/lint/ratchet')
NOT_COUNTED = ('README.md', 'meson.build')
RATCHET = ratchet.Ratchet('folders', FAIL, 'files')


def measure(root):
    found = collections.Counter()
    for path in tree.files(root):
        folder, name = os.path.split(path)
        if name not in NOT_COUNTED and not any(folder == e or folder.startswith(e + '/') for e in EXEMPT):
            found[folder or '.'] += 1
    return found


def check(root, report):
    found = measure(root)
    for folder, number in sorted(found.items()):
        if WARN < number <= FAIL:
            report.warn(folder, f'{number} files, more than {WARN}: think of a sub-folder')
    RATCHET.judge(root, found, report, ': give a part of it a folder of its own')


def _files(folder, number):
    return {f'{folder}/{i}.c': '' for i in range(number)}


CASES = [
    ('small folders', {**_files('a', 20), 'a/README.md': '', 'a/meson.build': '', **_files('a/b', 20)}, [], []),
    ('21 warns, 31 fails', {**_files('a', 21), **_files('b', 31)}, ['b: 31 files'], ['a: 21 files']),
    ('data', {**_files('migrations', 40), **_files('tests/fuzz/corpus/json', 40)}, [], []),
    ('the ratchet', {**_files('a', 35), **_files('b', 32), 'tests/lint/ratchet/folders.txt': '35 a\n31 b\n31 c\n'},
     ['b: 32 files, at most 31', 'c keeps the limit'], []),
]

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES, ratchet.updater((RATCHET, measure))))
