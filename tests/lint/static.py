#!/usr/bin/env python3
"""cppcheck finds nothing in the product: src, providers and include.

SUPPRESSED has the false ones, each with its reason. cppcheck 2.10 does not know __VA_OPT__ and sees no header of
the system. So it gets readable copies of log.h and sys/queue.h."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tree

ROOTS = ('src/', 'providers/')
# (rule, path or prefix of it, reason)
SUPPRESSED = [
    ('readdirCalled', '', 'glibc: readdir is safe for a DIR of one thread, readdir_r is deprecated'),
    ('getpwuidCalled', '', 'the programs ask before they start a thread'),
    ('getpwnamCalled', '', 'the programs ask before they start a thread'),
    ('unknownEvaluationOrder', 'src/core/trace/trace_sim.c', '.n is a member, not the variable n'),
    ('arrayIndexThenCheck', 'providers/lambda/', 'n is the length that strspn found; the check is of the target'),
    ('uninitvar', 'providers/', 'arrays of functions with an initializer; the parser loses it'),
    ('uninitvar', 'src/io/pg/pg_opts.c', 'at[] is read up to at_n, which counts the writes'),
    ('legacyUninitvar', 'src/agent/ckpt/checkpoint.c', 'read fills the text, or n stays negative'),
    ('legacyUninitvar', 'src/engine/job/upload_urls.c', '.s is a member in the STR macro, not the variable s'),
    ('nullPointerRedundantCheck', 'src/core/fleet/fleet_json.c', 'an assertion says that a row has an offer or a node'),
    ('resourceLeak', 'src/agent/main.c', 'the lock is held until the process ends'),
    ('resourceLeak', 'src/io/call/plugin.c', 'a plugin stays loaded for the life of the process'),
]
OPTIONS = ['--enable=warning,portability,performance', '--std=c11', '--library=posix', '--inline-suppr', '--quiet',
           '-j2', '-D_GNU_SOURCE', '--template={file}:{line}: {id}: {message}']
_FINDING = re.compile(r'^(.*?):(\d+): (\w+): (.*)$', re.M)


def suppression(path, rule):
    return next((s for s in SUPPRESSED if s[0] == rule and path.startswith(s[1])), None)


def shadow_headers(root, folder):
    """Copies of two headers in a form that cppcheck 2.10 reads."""
    for name, sources in (('base/log.h', [os.path.join(root, 'src/base/log.h')]),
                          ('sys/queue.h', ['/usr/include/sys/queue.h', '/usr/include/x86_64-linux-gnu/sys/queue.h'])):
        source = next((s for s in sources if os.path.isfile(s)), None)
        if source:
            target = os.path.join(folder, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(source, encoding='utf-8') as f, open(target, 'w', encoding='utf-8') as out:
                out.write(f.read().replace('__VA_ARGS__ __VA_OPT__(, ){ 0 }', '__VA_ARGS__'))


def findings(root):
    """Yields (path, line, rule, message), each once."""
    with tempfile.TemporaryDirectory() as shadow:
        shadow_headers(root, shadow)
        paths = [p for p in tree.files(root) if p.startswith(ROOTS) and p.endswith('.c')]
        out = subprocess.run(['cppcheck', *OPTIONS, f'-I{shadow}', '-Iinclude', '-Isrc', '-Iproviders', '--file-list=-'],
                             cwd=root, input='\n'.join(paths), capture_output=True, text=True)
    yield from sorted(set(_FINDING.findall(out.stderr)))
    if out.returncode != 0:
        yield 'cppcheck', '0', 'failed', out.stderr[-400:] or out.stdout[-400:]


def check(root, report):
    if not shutil.which('cppcheck'):
        if os.environ.get('CI') == 'true':
            report.fail('cppcheck', 'not installed: deploy/packages test installs it')
        else:
            report.skip('cppcheck IS NOT INSTALLED: NOTHING WAS ANALYSED (deploy/packages test installs it)')
        return
    used = set()
    for path, line, rule, message in findings(root):
        s = suppression(path, rule)
        used.add(s)
        if s is None:
            report.fail(f'{path}:{line}', f'{rule}: {message}')
    if os.path.isfile(os.path.join(root, 'src/base/log.h')):
        for s in SUPPRESSED:
            if s not in used:
                report.warn(f'{s[0]} {s[1]}', 'is suppressed and not found any more')


GOOD = 'int f(const int *p)\n{\n\treturn p != 0 ? *p : 0;\n}\n'
BAD = 'int g(const int *p)\n{\n\tint a = *p;\n\n\treturn p != 0 ? a : 0;\n}\n'
CASES = [
    ('nothing', {'src/a/a.c': GOOD, 'tests/a.c': BAD}, [], []),
    ('a dereference before the check', {'src/a/a.c': GOOD + BAD, 'providers/b.c': BAD},
     ['src/a/a.c:7: nullPointerRedundantCheck', 'providers/b.c:3: nullPointerRedundantCheck'], []),
    ('a file that it cannot read', {'src/a/a.c': 'int f(void)\n{\n\treturn 1;\n'}, ['src/a/a.c:2: syntaxError'], []),
    ('what is suppressed, and only there', {
        'src/a/a.c': 'struct d;\nvoid *readdir(struct d *d);\nvoid *f(struct d *d)\n{\n\treturn readdir(d);\n}\n'}, [], []),
] if shutil.which('cppcheck') else []

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES))
