#!/usr/bin/env python3
"""Functions over 60 lines warn, over 100 fail; files over 600 warn, over 1000 fail.

Functions are found by our own style: the brace that opens one stands alone in the first column, and
so does the one that closes it. A file that hides a function from that is found too: every `{` in
the first column must have its `}`."""
import re
import sys

import tree

FUNCTION_WARN, FUNCTION_FAIL = 60, 100
FILE_WARN, FILE_FAIL = 600, 1000
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


def check(root, report):
    for path in tree.files(root):
        if not path.endswith(CODE):
            continue
        text = tree.read(root, path)
        n = text.count('\n')
        if n > FILE_FAIL:
            report.fail(path, f'{n} lines, more than {FILE_FAIL}: split it')
        elif n > FILE_WARN:
            report.warn(path, f'{n} lines, more than {FILE_WARN}')
        if not path.endswith(('.c', '.h', '.cu')):
            continue
        for name, line, length in functions(text):
            where = f'{path}:{line}'
            if name is None:
                report.fail(where, 'a { in the first column has no }')
            elif length > FUNCTION_FAIL:
                report.fail(where, f'{name} has {length} lines, more than {FUNCTION_FAIL}: split it')
            elif length > FUNCTION_WARN:
                report.warn(where, f'{name} has {length} lines, more than {FUNCTION_WARN}')


def _function(name, length):
    return f'static int {name}(int a,\n    int b)\n{{\n' + '\tx(); /* } */\n' * (length - 4) + '}\n'


CASES = [
    ('short ones', {'a.c': '#define X\n' + _function('f', 60) + '\n' + _function('g', 60), 'b.py': 'x\n' * 600}, [], []),
    ('long functions', {'a.c': _function('f', 61) + '\n' + _function('g', 101) + '\n' + _function('h', 100)},
     ['a.c:63: g has 101 lines'], ['a.c:1: f has 61 lines', 'h has 100 lines']),
    ('long files', {'a.h': 'x\n' * 1001, 'b.py': 'x\n' * 601, 'c.txt': 'x\n' * 5000},
     ['a.h: 1001 lines'], ['b.py: 601 lines']),
    ('a brace in a string and one in a comment do not count',
     {'a.c': 'int f(void)\n{\n\tputs("{\\"");\n/*\n}\n*/\n' + '\tx();\n' * 100 + '}\n'}, ['f has 107 lines'], []),
    ('a function that never ends', {'a.c': 'int f(void)\n{\n\tx();\n'}, ['has no }'], []),
]

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES))
