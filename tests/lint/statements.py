#!/usr/bin/env python3
"""An SQL statement of src/store/sql has at most 50 lines, without comments and blank lines.

A longer one becomes a view or a function with a name, in the next migration. Rows are locked FOR NO
KEY UPDATE. FOR UPDATE blocks statements that insert rows which refer to the locked one: two such
statements ended in deadlocks, each a second long."""
import re
import sys

import ratchet
import tree

RATCHET = ratchet.Ratchet('statements', 50, 'lines')
# A query starts at its declaration, or after the `;` of the one before in a file of rules.
_FOR_UPDATE = re.compile(r'\bFOR\s+UPDATE\b')
_NAME = re.compile(r'^--[ \t]*name:[ \t]*(\w+)', re.M)


def statements(text):
    """(name, lines) of each statement; one without a name is called by its line."""
    marks = [(m.start(), m.group(1)) for m in _NAME.finditer(text)]
    if not marks or marks[0][0] > 0:
        marks.insert(0, (0, None))
    for (start, name), (end, _) in zip(marks, marks[1:] + [(len(text), None)]):
        line = text.count('\n', 0, start) + 1
        for part in re.split(r'(?<=;)[ \t]*\n', text[start:end]):
            rows = [r for r in part.split('\n') if r.strip() and not r.lstrip().startswith('--')]
            if rows:
                yield name or f'line {line}', len(rows)
            line += part.count('\n') + 1


def measure(root):
    found = {}
    for path in tree.files(root):
        if path.startswith('src/store/') and path.endswith('.sql'):
            for name, lines in statements(tree.read(root, path)):
                key = f'{path}:{name}'
                found[key] = max(found.get(key, 0), lines)
    return found


def locks_check(root, report):
    for path in tree.files(root):
        if path.startswith('src/store/') and path.endswith('.sql'):
            for at, line in enumerate(tree.read(root, path).split('\n'), 1):
                if _FOR_UPDATE.search(line.split('--')[0]):
                    report.fail(f'{path}:{at}', 'lock rows FOR NO KEY UPDATE')


def check(root, report):
    RATCHET.judge(root, measure(root), report, ': make a view or a function of a part')
    locks_check(root, report)


def _statement(name, lines):
    return f'-- A note.\n-- name: {name}\n-- writes: no\n' + 'SELECT 1,\n\n-- more\n' * (lines - 1) + '2\n\n'


CASES = [
    ('short ones', {'src/store/sql/a.sql': _statement('a', 50) * 3, 'migrations/1.sql': 'x\n' * 99}, [], []),
    ('a long one', {'src/store/sql/a.sql': _statement('a', 51) + _statement('b', 3)}, ['a.sql:a: 51 lines'], []),
    ('without a name', {'src/store/sql/a.sql': 'SELECT 1;\n' * 60 + 'SELECT\n' + '1,\n' * 49 + '1;\n'},
     ['a.sql:line 61: 51 lines'], []),
    ('the ratchet', {'src/store/sql/a.sql': _statement('a', 60) + _statement('b', 50),
                     'tests/lint/ratchet/statements.txt': '60 src/store/sql/a.sql:a\n51 src/store/sql/a.sql:b\n'},
     ['a.sql:b keeps the limit'], []),
    ('a lock', {'src/store/sql/a.sql': 'SELECT 1 FOR NO KEY UPDATE;\n-- FOR UPDATE\nSELECT 1 FOR UPDATE OF j;\n'},
     ['a.sql:3: lock rows FOR NO KEY UPDATE'], []),
]

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES, ratchet.updater((RATCHET, measure))))
