#!/usr/bin/env python3
"""A C function has at most 60 lines, and a file at most 600. Two ratchets hold those that were larger.

Our style shows the functions: the brace that opens one stands alone in the first column, and so does
the one that closes it. A file that hides a function from that is found too: every `{` in
the first column must have its `}`."""
import re
import sys

import ratchet
import tree

FUNCTIONS = ratchet.Ratchet('functions', 60, 'lines')
FILES = ratchet.Ratchet('files', 600, 'lines')
CODE = ('.c', '.h', '.cu', '.py', '.sh', '.sql')


def functions(text):
    """(name, first line, number of lines) of each function; name None: no end found."""
    lines = tree.code_only(text).split('\n')
    start = 0
    for i, line in enumerate(lines):
        if line.rstrip() == '{':
            start = i
            head = i
            while head > 0 and lines[head - 1].strip() and not lines[head - 1].startswith(('#', '}')) \
                    and not lines[head - 1].rstrip().endswith(';'):
                head -= 1
            end = next((j for j in range(start + 1, len(lines)) if lines[j].startswith('}')), None)
            name = re.search(r'(\w+)\s*\(', ' '.join(lines[head:start]))
            if end is None:
                yield None, head + 1, 0
                return
            yield (name.group(1) if name else '?'), head + 1, end - head + 1


def measure_files(root):
    return {p: tree.read(root, p).count('\n') for p in tree.files(root) if p.endswith(CODE)}


def each_function(root):
    """Yields (path, name, line, lines); name None: the function has no end."""
    for path in tree.files(root):
        if path.endswith(('.c', '.h', '.cu')):
            for name, line, length in functions(tree.read(root, path)):
                yield path, name, line, length


def measure_functions(root):
    found = {}
    for path, name, _, length in each_function(root):
        key = f'{path}:{name}'
        found[key] = max(found.get(key, 0), length)
    return found


def check(root, report):
    for path, name, line, _ in each_function(root):
        if name is None:
            report.fail(f'{path}:{line}', 'a { in the first column has no }')
    FUNCTIONS.judge(root, measure_functions(root), report, ': split it')
    FILES.judge(root, measure_files(root), report, ': split it')


def _function(name, length):
    return f'static int {name}(int a,\n    int b)\n{{\n' + '\tx(); /* } */\n' * (length - 4) + '}\n'


CASES = [
    ('short ones', {'a.c': '#define X\n' + _function('f', 60) + '\n' + _function('g', 60), 'b.py': 'x\n' * 600}, [], []),
    ('long functions', {'a.c': _function('f', 61) + '\n' + _function('g', 101) + '\n' + _function('h', 60)},
     ['a.c:f: 61 lines', 'a.c:g: 101 lines'], []),
    ('long files', {'a.h': 'x\n' * 601, 'b.py': 'x\n' * 600, 'c.txt': 'x\n' * 5000}, ['a.h: 601 lines'], []),
    ('the ratchets', {'a.h': 'x\n' * 700, 'b.c': _function('f', 70) + _function('g', 60), 'c.h': 'x\n' * 601,
                      'tests/lint/ratchet/files.txt': '700 a.h\n700 c.h\n',
                      'tests/lint/ratchet/functions.txt': '69 b.c:f\n61 b.c:g\n'},
     ['b.c:f: 70 lines, at most 69', 'b.c:g keeps the limit'], ['c.h: 601 lines: lower']),
    ('a brace in a string and one in a comment do not count',
     {'a.c': 'int f(void)\n{\n\tputs("{\\"");\n/*\n}\n*/\n' + '\tx();\n' * 100 + '}\n'}, ['a.c:f: 107 lines'], []),
    ('a function that never ends', {'a.c': 'int f(void)\n{\n\tx();\n'}, ['has no }'], []),
]

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES,
        ratchet.updater((FUNCTIONS, measure_functions), (FILES, measure_files))))
