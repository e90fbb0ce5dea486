"""Which files a lint looks at, and how it reports. Standard library only."""
import os
import re
import subprocess
import sys
import tempfile

SKIP_DIRS = {'.git', '__pycache__', 'node_modules'}


def files(root):
    """Paths relative to root: what git tracks, or everything where there is no git."""
    try:
        out = subprocess.run(['git', '-C', root, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                             capture_output=True, check=True)
        found = [p for p in out.stdout.decode().split('\0') if p]
    except (OSError, subprocess.CalledProcessError):
        found = []
        for base, dirs, names in os.walk(root):
            dirs[:] = [d for d in dirs if d not in SKIP_DIRS and not d.startswith('build')]
            found += [os.path.relpath(os.path.join(base, n), root) for n in names]
    return sorted(p for p in found if os.path.isfile(os.path.join(root, p)))


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8', errors='replace') as f:
        return f.read()


_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_only(text):
    """C text with comments and literals blanked out; line numbers stay."""
    return _TOKEN.sub(lambda m: re.sub(r'[^\n]', ' ', m.group()), text)


class Report:
    """Collects findings; failures decide the exit status."""

    def __init__(self):
        self.failures, self.warnings, self.skipped = [], [], []

    def fail(self, where, what):
        self.failures.append(f'{where}: {what}')

    def warn(self, where, what):
        self.warnings.append(f'{where}: {what}')

    def skip(self, what):
        """A part that cannot be checked here: the exit status is 77 unless something fails."""
        self.skipped.append(what)

    def finish(self):
        for w in self.warnings:
            print('warning:', w)
        for f in self.failures:
            print('error:', f)
        for s in self.skipped:
            print('SKIPPED:', s)
        print(f'{len(self.failures)} errors, {len(self.warnings)} warnings')
        return 1 if self.failures else 77 if self.skipped else 0


def self_test(check, cases):
    """cases: (name, {path: text}, [expected failure], [expected warning]); each expectation is a
    part of a message. An empty list means that there must be none."""
    bad = 0
    for name, content, failures, warnings in cases:
        with tempfile.TemporaryDirectory() as root:
            for path, text in content.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full) or root, exist_ok=True)
                with open(full, 'w', encoding='utf-8') as f:
                    f.write(text)
            report = Report()
            check(root, report)
        for wanted, got, kind in ((failures, report.failures, 'errors'), (warnings, report.warnings, 'warnings')):
            same = len(wanted) == len(got) and all(any(w in g for g in got) for w in wanted)
            if not same:
                bad += 1
                print(f'self-test "{name}": wanted {kind} {wanted}, got {got}')
    print(f'self-test: {len(cases)} cases, {bad} bad')
    return 1 if bad else 0


def main(check, cases, update=None):
    """update: what --update does, for a lint with a ratchet (see ratchet.py)."""
    args = sys.argv[1:]
    if args == ['--self-test']:
        return self_test(check, cases)
    if update and args[:1] == ['--update'] and args[1:] in ([], ['--force']):
        update(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), args[1:] == ['--force'])
        return 0
    if len(args) != 1 or args[0].startswith('-'):
        print(f'usage: {sys.argv[0]} ROOT | --self-test' + (' | --update [--force]' if update else ''), file=sys.stderr)
        return 2
    report = Report()
    check(args[0], report)
    return report.finish()
