#!/usr/bin/env python3
"""The text of a migration never changes, not even its comments: its SHA-256 is in each migrated database.

migrations/SHA256SUMS lists the migrations, as sha256sum prints them. `--update` adds lines for new ones. A new
migration that was not released yet may still change: remove its line first."""
import hashlib
import os
import re
import sys

import tree

SUMS = 'migrations/SHA256SUMS'
_MIGRATION = re.compile(r'migrations/(\d{4}_\w+\.sql)')


def listed(root):
    """{file: sum} of the list."""
    if not os.path.isfile(os.path.join(root, SUMS)):
        return {}
    lines = (line.split() for line in tree.read(root, SUMS).splitlines())
    return {words[1]: words[0] for words in lines if len(words) == 2}


def present(root):
    found = {}
    for path in tree.files(root):
        m = _MIGRATION.fullmatch(path)
        if m:
            found[m.group(1)] = hashlib.sha256(tree.read(root, path).encode()).hexdigest()
    return found


def check(root, report):
    sums, files = listed(root), present(root)
    for name in sorted(files.keys() | sums.keys()):
        path = 'migrations/' + name
        if name not in files:
            report.fail(path, f'{SUMS} lists it: databases that ran it need it')
        elif name not in sums:
            report.fail(path, f'not in {SUMS}: add it with tests/lint/migrations.py --update')
        elif files[name] != sums[name]:
            report.fail(path, 'its text changed: restore it, and put the change into a new migration')


def update(root, force):
    sums = {**present(root), **({} if force else listed(root))}
    with open(os.path.join(root, SUMS), 'w', encoding='utf-8') as f:
        f.writelines(f'{sums[name]}  {name}\n' for name in sorted(sums))


_SUM = hashlib.sha256(b'SELECT 1;\n').hexdigest()
CASES = [
    ('as listed', {'migrations/0001_a.sql': 'SELECT 1;\n', SUMS: _SUM + '  0001_a.sql\n', 'migrations/README.md': 'x'}, [], []),
    ('changed', {'migrations/0001_a.sql': 'SELECT 2;\n', SUMS: _SUM + '  0001_a.sql\n'}, ['its text changed'], []),
    ('new', {'migrations/0001_a.sql': 'SELECT 1;\n'}, ['not in'], []),
    ('gone', {SUMS: _SUM + '  0001_a.sql\n'}, ['lists it'], []),
]

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES, update))
