#!/usr/bin/env python3
"""A folder of src or providers has one public header: files of other folders include no other header of it.

A folder of several modules has a header that includes those of the modules; base/text/text.h is one. A header that
is generated at build time is not in the tree and does not count. Tests may include private headers."""
import collections
import os
import re
import sys

import tree

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
ROOMS = ('src/', 'providers/')


def users(root):
    """{folder: {header of it: a file of another folder that includes it}}"""
    paths = [p for p in tree.files(root) if p.endswith(('.c', '.h')) and p.startswith(ROOMS)]
    known = set(paths)
    found = collections.defaultdict(dict)
    for path in paths:
        for name in _INCLUDE.findall(tree.read(root, path)):
            for header in ('src/' + name, name, os.path.join(os.path.dirname(path), name)):
                folder = os.path.dirname(header)
                if header in known and folder != os.path.dirname(path):
                    found[folder].setdefault(header, path)
    return found


def check(root, report):
    for folder, headers in sorted(users(root).items()):
        if len(headers) > 1:
            names = ', '.join(f'{os.path.basename(h)} (for {by})' for h, by in sorted(headers.items()))
            report.fail(folder, f'other folders include {len(headers)} of its headers, {names}: give it one public header')


CASES = [
    ('one public header', {'src/a/a.h': '', 'src/a/b.h': '', 'src/a/a.c': '#include "a/b.h"\n',
                           'src/c/c.c': '#include "a/a.h"\n'}, [], []),
    ('two', {'src/a/a.h': '', 'src/a/b.h': '', 'src/c/c.c': '#include "a/a.h"\n', 'src/d/d.c': '#include "a/b.h"\n'},
     ['src/a: other folders include 2 of its headers, a.h (for src/c/c.c), b.h (for src/d/d.c)'], []),
    ('of a provider', {'providers/p/p.h': '', 'providers/p/q.h': '', 'src/c/c.c': '#include "providers/p/p.h"\n#include "providers/p/q.h"\n'},
     ['providers/p: other folders include 2'], []),
    ('tests may', {'src/a/a.h': '', 'src/a/b.h': '', 'src/c/c.c': '#include "a/a.h"\n', 'tests/t.c': '#include "a/b.h"\n'}, [], []),
]

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES))
