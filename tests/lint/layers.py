#!/usr/bin/env python3
"""Includes follow the table in src/README.md between the `layers` markers.

A row is `| module | may include |`. A cell lists modules (`base`), parts of a module by file prefix
and outside libraries (`<curl>`). The part `io/pg` is every header below src/io/pg/. A module may always include
itself. `*` allows everything. Outside libraries that no row could name are not restricted (libc, jansson)."""
import os
import re
import sys

import tree

LIBRARIES = {
    'ev': r'ev\.h', 'curl': r'curl/.*', 'libpq': r'libpq.*|pg_.*|postgres.*', 'llhttp': r'llhttp\.h',
    'tls': r'openssl/(ssl|tls1).*', 'crypto': r'openssl/.*', 'expat': r'expat.*', 'yaml': r'yaml\.h',
}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)


def table(root, report):
    path = 'src/README.md'
    if not os.path.isfile(os.path.join(root, path)):
        report.fail(path, 'missing: the layer table lives there')
        return None
    m = re.search(r'<!-- layers -->(.*?)<!-- /layers -->', tree.read(root, path), re.S)
    if not m:
        report.fail(path, 'no table between <!-- layers --> and <!-- /layers -->')
        return None
    rows = {}
    for line in m.group(1).splitlines():
        cells = [c.strip() for c in line.strip().strip('|').split('|')]
        if len(cells) < 2 or cells[0] in ('module', '') or set(cells[0]) <= set('-: '):
            continue
        allowed = [t.strip('` ') for t in cells[1].split(',')]
        rows[cells[0].strip('` ')] = [t for t in allowed if t and t != 'nothing']
    if not rows:
        report.fail(path, 'the layer table has no rows')
        return None
    return rows


def module_of(path):
    """The module a file belongs to, None if it is not under the rules."""
    part = path.split('/')
    if part[0] == 'include':
        return 'include'
    if part[0] == 'src' and len(part) > 2:
        return part[1]
    if part[0] == 'providers':
        return 'providers/' + part[1] if len(part) > 2 else 'providers'
    if part[:2] == ['tests', 'cloudsim']:
        return 'tests/cloudsim'
    return None


def rule_name(module, rows):
    if module in rows:
        return module
    return 'providers/*' if module.startswith('providers/') else module


def resolve(root, path, name):
    """The file an include of ours means, relative to root; None if there is none."""
    for base in (os.path.dirname(path), 'src', 'include', 'providers', 'tests', ''):
        full = os.path.normpath(os.path.join(base, name))
        if os.path.isfile(os.path.join(root, full)):
            return full
    return None


def allows(token, target_module, target):
    if token in ('*', target_module):
        return True
    if token == 'providers/*':
        return target_module.startswith('providers')
    return '/' in token and not token.startswith(('tests/', 'providers')) and \
        target.startswith('src/' + token)


def check_ours(root, path, name, line, module, allowed, report):
    target = resolve(root, path, name)
    if target is None:
        # Generated headers are named by their module: "store/q.h".
        target = 'src/' + name
    target_module = module_of(target)
    if target_module is None:
        report.fail(f'{path}:{line}', f'"{name}" is outside of the product ({target})')
    elif target_module != module and not any(allows(t, target_module, target) for t in allowed):
        report.fail(f'{path}:{line}', f'{module} may not include {target_module} ("{name}")')


def check_library(path, name, line, module, allowed, report):
    for lib, pattern in LIBRARIES.items():
        if re.fullmatch(pattern, name):
            names = {lib} | ({'tls'} if lib == 'crypto' else set())
            if '*' not in allowed and not any(f'<{n}>' in allowed for n in names):
                report.fail(f'{path}:{line}', f'{module} may not use <{name}>')
            return


def check(root, report):
    rows = table(root, report)
    if rows is None:
        return
    for path in tree.files(root):
        module = module_of(path)
        if module is None or not path.endswith(('.c', '.h', '.cu')):
            continue
        rule = rule_name(module, rows)
        if rule not in rows:
            report.fail(path, f'module {module} has no row in the layer table of src/README.md')
            continue
        # Comments may quote an include; literals hold the names, so only comments go.
        text = re.sub(r'/\*.*?\*/', lambda m: re.sub(r'[^\n]', ' ', m.group()), tree.read(root, path), flags=re.S)
        for m in INCLUDE.finditer(text):
            line = text.count('\n', 0, m.start()) + 1
            if m.group(1) == '"':
                check_ours(root, path, m.group(2), line, module, rows[rule], report)
            else:
                check_library(path, m.group(2), line, module, rows[rule], report)


TABLE = '''x
<!-- layers -->
| module | may include |
| --- | --- |
| include | nothing |
| base | include, <crypto> |
| io | base, include, <ev>, <tls> |
| store | base, include, io/pg, `io/op` |
| api | base, io/httpd |
| spotd | * |
| providers/* | base, include |
| providers | providers/*, include |
<!-- /layers -->
'''
CASES = [
    ('a clean tree', {
        'src/README.md': TABLE, 'include/spot/a.h': '#include <stdint.h>\n', 'src/base/b.h': '#include "spot/a.h"\n',
        'src/base/b.c': '#include "base/b.h"\n#include <openssl/evp.h>\n#include <jansson.h>\n',
        'src/io/pg/pg.h': '', 'src/io/l.c': '#include "io/pg/pg.h"\n#include <ev.h>\n#include <openssl/err.h>\n',
        'src/store/s.c': '#include "io/pg/pg.h"\n#include "store/generated.h"\n/*\n#include "io/loop/loop.h"\n*/\n',
        'providers/aws/a.h': '', 'providers/aws/a.c': '#include "a.h"\n#include "aws/a.h"\n#include "base/b.h"\n',
        'providers/registry.c': '#include "aws/a.h"\n', 'src/spotd/main.c': '#include "io/pg/pg.h"\n#include <curl/curl.h>\n',
        'tests/unit/t.c': '#include "io/pg/pg.h"\n'}, [], []),
    ('upward and sideways includes', {
        'src/README.md': TABLE, 'src/io/loop/loop.h': '', 'src/io/httpd/httpd.h': '', 'src/store/s.h': '',
        'src/base/b.c': '\n#include "io/loop/loop.h"\n', 'src/store/s.c': '#include "io/loop/loop.h"\n',
        'src/api/a.c': '#include "io/httpd/httpd.h"\n#include "store/s.h"\n', 'include/spot/a.h': '#include "base/b.h"\n',
        'providers/aws/a.h': '', 'providers/lambda/l.c': '#include "aws/a.h"\n', 'src/api/up.c': '#include "../store/s.h"\n'},
     ['src/base/b.c:2: base may not include io', 'src/store/s.c:1: store may not include io',
      'src/api/a.c:2: api may not include store', 'include may not include base',
      'providers/lambda may not include providers/aws', 'src/api/up.c:1: api may not include store'], []),
    ('a library where it does not belong', {
        'src/README.md': TABLE, 'src/base/b.c': '#include <curl/curl.h>\n#  include <openssl/ssl.h>\n',
        'src/store/s.c': '#include <libpq-fe.h>\n', 'providers/aws/a.c': '#include <ev.h>\n'},
     ['base may not use <curl/curl.h>', 'base may not use <openssl/ssl.h>', 'store may not use <libpq-fe.h>',
      'providers/aws may not use <ev.h>'], []),
    ('tests are no part of the product', {'src/README.md': TABLE, 'tests/unit/unit.h': '',
                                          'src/base/b.c': '#include "unit/unit.h"\n'}, ['is outside of the product'], []),
    ('a new module without a row', {'src/README.md': TABLE, 'src/extra/x.c': '\n'}, ['module extra has no row'], []),
    ('no table', {'src/README.md': 'text', 'src/base/b.c': ''}, ['no table between'], []),
    ('no README', {'src/base/b.c': ''}, ['missing'], []),
    ('an empty table', {'src/README.md': '<!-- layers -->\n| module | may include |\n<!-- /layers -->'}, ['has no rows'], []),
]

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES))
