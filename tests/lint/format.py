#!/usr/bin/env python3
"""clang-format 16 changes nothing in any C file, and no line of .c, .h or .sql has more than 100 columns.

The formatter cannot break a comment or a string, so the columns are counted here: a tab goes to the next
multiple of 8. A line may be longer for an address, for one string that stands alone, and in a file of EXEMPT.
Without clang-format 16 the check of columns still runs; then the exit status is 77 (skipped), or 1 under CI=true."""
import os
import re
import shutil
import subprocess
import sys

import ratchet
import tree

COLUMNS, TAB = 100, 8
# Data, and migrations, which never change once they are released.
EXEMPT = ('tests/golden/', 'migrations/')
RATCHET = ratchet.Ratchet('columns', 0, f'lines over {COLUMNS} columns')
_ADDRESS = re.compile(r'https?://\S{20,}')
_ONE_STRING = re.compile(r'\s*(?:\{\s*)?L?"(?:\\.|[^"\\])*"[\s,;)}]*$')


def formatter():
    """The name of clang-format 16, None if it is not installed."""
    for name in ('clang-format-16', 'clang-format'):
        if shutil.which(name):
            out = subprocess.run([name, '--version'], capture_output=True, text=True).stdout
            if re.search(r'version 16\.', out):
                return name
    return None


def width(line):
    return len(line.expandtabs(TAB))


def long_lines(text):
    return [(i, width(line)) for i, line in enumerate(text.split('\n'), 1)
            if width(line) > COLUMNS and not _ADDRESS.search(line) and not _ONE_STRING.match(line)]


def looked_at(root):
    return [p for p in tree.files(root) if p.endswith(('.c', '.h', '.sql')) and not p.startswith(EXEMPT)]


def measure(root):
    return {p: len(long_lines(tree.read(root, p))) for p in looked_at(root)}


def check_columns(root, paths, report):
    rows = RATCHET.read(root)
    for path in paths:
        found = long_lines(tree.read(root, path))
        if len(found) > rows.get(path, 0):
            for i, columns in found[:5]:
                report.fail(f'{path}:{i}', f'{columns} columns, more than {COLUMNS}')
    RATCHET.judge(root, measure(root), report)


def check_format(root, paths, name, report):
    for i in range(0, len(paths), 200):
        out = subprocess.run([name, '--style=file', '--dry-run', '-Werror', *paths[i:i + 200]], cwd=root,
                             capture_output=True, text=True)
        found = {m.group(1): m.group(2) for m in re.finditer(r'^(\S+?):(\d+):\d+: error', out.stderr, re.M)}
        for path, line in sorted(found.items()):
            report.fail(f'{path}:{line}', f'not as {name} wants it: {name} -i {path}')
        if out.returncode != 0 and not found:
            report.fail(name, out.stderr.strip()[:400] or f'exit status {out.returncode}')


def check(root, report):
    paths = looked_at(root)
    check_columns(root, paths, report)
    name = formatter()
    if name:
        check_format(root, [p for p in paths if p.endswith(('.c', '.h'))], name, report)
    elif os.environ.get('CI') == 'true':
        report.fail('clang-format-16', 'not installed: deploy/packages test installs it')
    else:
        report.skip('clang-format-16 IS NOT INSTALLED: THE FORMAT WAS NOT CHECKED (deploy/packages test installs it)')


STYLE = 'BasedOnStyle: LLVM\nColumnLimit: 100\nReflowComments: false\nBreakStringLiterals: false\n'
CASES = [
    ('good', {'.clang-format': STYLE, 'a.c': 'int f(void);\n/* https://example.org/' + 'x' * 100 + ' */\n',
              'a.sql': '\t' * 11 + 'x' * 12 + '\n', 'c.txt': 'x' * 200,
              'b.h': 'char *s =\n    "' + 'x' * 100 + '";\n'}, [], []),
    ('long lines', {'.clang-format': STYLE, 'a.h': '/* ' + 'x ' * 50 + '*/\n', 'a.sql': '\t' * 12 + 'x' * 5 + '\n'},
     ['a.h:1: 105 columns', 'a.h: 1 lines over', 'a.sql:1: 101 columns', 'a.sql: 1 lines over'], []),
    ('the ratchet', {'.clang-format': STYLE, 'a.sql': ('x' * 101 + '\n') * 2, 'b.sql': '',
                     'c.sql': ('x' * 101 + '\n'), 'tests/lint/ratchet/columns.txt': '2 a.sql\n1 b.sql\n3 c.sql\n'},
     ['b.sql keeps the limit of 0 now: remove its line'], ['c.sql: 1 lines over']),
]
if formatter():
    CASES.append(('wrong format', {'.clang-format': STYLE, 'a.c': 'int f( void );\n', 'b/b.c': 'int f(void);\n'},
                  ['a.c:1: not as'], []))

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES, ratchet.updater((RATCHET, measure))))
