#!/usr/bin/env python3
"""Each `spotctl NOUN VERB` that a text names is a command of src/spotctl/tree.c.

Prose may follow the program's name ("spotctl reads"). A word counts as a command if it is one of the nouns, or
if a quote or backtick stands before spotctl. An argument may follow a noun that is a command itself."""
import re
import sys

import tree

TREE = 'src/spotctl/tree.c'
READ = ('.c', '.h', '.sql', '.md', '.scd', '.json', '.yaml', '.sample')
_ROW = re.compile(r'^\t\{ "([a-z]+)", "([a-z]*)", "([^"]*)"', re.M)
_USE = re.compile(r'(?P<quote>[`\']?)\bspotctl[ \t]+(?P<noun>[a-z][a-z-]*)(?:[ \t]+(?P<verb>[a-z][a-z-]*)(?![\w./:-]))?')


def check(root, report):
    files = tree.files(root)
    if TREE not in files:
        return
    commands = {}
    for noun, verb, words in _ROW.findall(tree.read(root, TREE)):
        commands.setdefault(noun, {})[verb] = words
    for path in files:
        if not path.endswith(READ) or path.startswith(('tests/golden/', 'tests/fuzz/', 'migrations/')):
            continue
        text = tree.read(root, path)
        for m in _USE.finditer(text):
            noun, verb = m.group('noun'), m.group('verb')
            verbs = commands.get(noun)
            where = f'{path}:{text.count(chr(10), 0, m.start()) + 1}'
            if verbs is None and m.group('quote'):
                report.fail(where, f"no command 'spotctl {noun}'")
            elif verbs is not None and verb and '' not in verbs and verb not in verbs:
                report.fail(where, f"no command 'spotctl {noun} {verb}'")
            elif verbs is not None and m.group('quote') and verb and verbs.get('', None) == '' and verb not in verbs:
                report.fail(where, f"'spotctl {noun}' takes no '{verb}'")


ROWS = '\t{ "node", "rm", "NODE", 1 },\n\t{ "leaks", "", "", 0 },\n\t{ "leaks", "end", "REF", 1 },\n\t{ "plan", "", "FILE", 1 },\n'
CASES = [
    ('good', {TREE: ROWS, 'a.md': '`spotctl node rm n1` or `spotctl plan job.yaml`; spotctl reads it; `spotctl leaks`, spotctl '
              'leaks shows them, `spotctl leaks end x`, `spotctl plan job`\n'}, [], []),
    ('bad', {TREE: ROWS, 'a.sql': '-- fix: spotctl node terminate NODE\n', 'b.c': '"see \'spotctl nodes\'"\n',
             'c.md': '`spotctl leaks kill x`\n'},
     ["a.sql:1: no command 'spotctl node terminate'", "b.c:1: no command 'spotctl nodes'", "c.md:1: 'spotctl leaks' takes no 'kill'"], []),
]

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES))
