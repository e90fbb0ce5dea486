#!/usr/bin/env python3
"""clang-tidy 16 finds nothing in src/base and src/core: bugprone, cert and the analyzer, as tidy.yaml has them.

  tidy.py ROOT BUILD [FILE...]     BUILD has compile_commands.json; FILE: only these
  tidy.py --self-test

A finding that is false is suppressed where it is, by NOLINTNEXTLINE with the check's name and a reason. It costs about
a second and a half of a processor for each file, so it is a suite of its own."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tree

ROOTS = ('src/base/', 'src/core/')
NAME = 'clang-tidy-16'
CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'tidy.yaml')
_FINDING = re.compile(r'^(\S+?):(\d+):\d+: (?:warning|error): (.*)$', re.M)


def tidy_one(root, path, options):
    out = subprocess.run([NAME, '--quiet', f'--config-file={CONFIG}', *options], cwd=root, capture_output=True, text=True)
    found = [(os.path.relpath(os.path.join(root, p), root) if os.path.isabs(p) else p.removeprefix('../'), line, words)
             for p, line, words in _FINDING.findall(out.stdout)]
    if out.returncode != 0 and not found:
        found.append((path, '0', out.stderr.strip()[-300:] or f'exit status {out.returncode}'))
    return found


def check(root, build, only, report):
    paths = [p for p in tree.files(root) if p.startswith(ROOTS) and p.endswith('.c') and (not only or p in only)]
    jobs = [(root, p, ['-p', build, p]) for p in paths]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        found = {f for some in pool.map(lambda j: tidy_one(*j), jobs) for f in some}
    for path, line, words in sorted(found):
        report.fail(f'{path}:{line}', words)
    if not paths:
        report.fail(root, 'no file of ' + ', '.join(ROOTS))
    print(f'{len(paths)} files')


GOOD = 'int f(int a);\nint f(int a)\n{\n\treturn a + 1;\n}\n'
BAD = 'int g(const int *p);\nint g(const int *p)\n{\n\tint a;\n\n\treturn p ? a : 1;\n}\n'


def self_test():
    """A file without findings, one with a use of what was never set, and one in which that is suppressed."""
    bad = 0
    for name, text, wanted in (('good', GOOD, 0), ('uninitialized', BAD, 1), ('no C', 'int f(', 1),
                               ('suppressed', BAD.replace('\treturn', '\t/* NOLINTNEXTLINE */\n\treturn'), 0)):
        with tempfile.TemporaryDirectory() as d:
            with open(os.path.join(d, 'a.c'), 'w', encoding='utf-8') as f:
                f.write(text)
            found = tidy_one(d, 'a.c', ['a.c', '--'])
        if bool(found) != bool(wanted):
            print(f'self-test "{name}": {found}')
            bad += 1
    print(f'self-test: 4 cases, {bad} bad')
    return 1 if bad else 0


def main():
    if not shutil.which(NAME):
        print(f'SKIPPED: {NAME} IS NOT INSTALLED, NOTHING WAS ANALYSED (deploy/packages test installs it)')
        return 1 if os.environ.get('CI') == 'true' else 77
    if sys.argv[1:] == ['--self-test']:
        return self_test()
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    report = tree.Report()
    check(sys.argv[1], sys.argv[2], sys.argv[3:], report)
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
