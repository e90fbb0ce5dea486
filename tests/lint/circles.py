#!/usr/bin/env python3
"""No more than 6 .c files of a room call one another in a circle, and the folders of src/engine call only downward.

  circles.py ROOT                 checks
  circles.py --show FOLDER        prints its circles with the calls that make them, and the calls between its folders

A file has an edge to another if it uses an external function of it: in a call, or as a value. The function must
have one home in the room. universal-ctags finds the definitions. Calls through tables are not seen. A circle is a
strongly connected group of files. The folders of src/engine may form no circle at all."""
import collections
import os
import re
import shutil
import subprocess
import sys

import ratchet
import tree

ROOMS = ('src/', 'providers/', 'tests/')
FOLDER_ROOMS = ('src/engine',)
FILES = ratchet.Ratchet('circles', 6, 'files call one another in a circle')
FOLDERS = ratchet.Ratchet('folder-circles', 1, 'folders call one another in a circle')
_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
_USE = re.compile(r'\b([a-z_][a-z0-9_]*)\b(?=\s*[(,;)}\]])')


def has_ctags():
    if not shutil.which('ctags'):
        return False
    return 'Universal' in subprocess.run(['ctags', '--version'], capture_output=True, text=True).stdout


def room_of(path):
    """The top room of a file: src/engine, providers/aws, tests/sim; None if it has none."""
    parts = path.split('/')
    return '/'.join(parts[:2]) if path.startswith(ROOMS) and len(parts) > 2 else None


def definitions(root, paths):
    """(external: name to files, static: file to names) by ctags."""
    external, static = collections.defaultdict(set), collections.defaultdict(set)
    out = subprocess.run(['ctags', '-x', '--languages=C', '--kinds-C=f', '--_xformat=%N\t%F\t%{file}', '-L', '-'],
                         input='\n'.join(paths), capture_output=True, text=True, cwd=root, check=True).stdout
    for row in out.splitlines():
        name, path, is_static = (row.split('\t') + ['', ''])[:3]
        if is_static.strip('- '):
            static[path].add(name)
        else:
            external[name].add(path)
    return external, static


def calls(root, paths):
    """{file: {file that it uses: names}} within one room."""
    external, static = definitions(root, paths)
    edges = {p: collections.defaultdict(set) for p in paths}
    for path in paths:
        code = _TOKEN.sub(' ', tree.read(root, path))
        for name in set(_USE.findall(code)) - static[path]:
            homes = external.get(name, ())
            if len(homes) == 1 and path not in homes:
                edges[path][next(iter(homes))].add(name)
    return edges


def reachable(edges, start):
    seen, work = set(), [start]
    while work:
        for w in edges.get(work.pop(), ()):
            if w not in seen:
                seen.add(w)
                work.append(w)
    return seen


def circles(edges):
    """Groups of more than one that all reach one another, the largest first."""
    reach = {v: reachable(edges, v) for v in edges}
    groups, done = [], set()
    for v in sorted(edges):
        if v not in done and v in reach[v]:
            group = sorted(w for w in reach[v] if v in reach.get(w, ()))
            done.update(group)
            groups.append(group)
    return sorted((g for g in groups if len(g) > 1), key=len, reverse=True)


def folder_edges(edges, room):
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for a, targets in edges.items():
        for b, names in targets.items():
            x, y = (os.path.relpath(os.path.dirname(p), room) for p in (a, b))
            if x != y:
                found[x][y] |= {f'{os.path.basename(a)}:{n}' for n in names}
    return found


def rooms(root):
    found = collections.defaultdict(list)
    for path in tree.files(root):
        if path.endswith('.c') and room_of(path):
            found[room_of(path)].append(path)
    return found


def measure(root):
    """{room: files of its largest circle}, {room: folders of its largest circle}."""
    files, folders = {}, {}
    for room, paths in rooms(root).items():
        edges = calls(root, paths)
        files[room] = max((len(g) for g in circles(edges)), default=0)
        if room in FOLDER_ROOMS:
            folders[room] = max((len(g) for g in circles(folder_edges(edges, room))), default=0)
    return files, folders


def check(root, report):
    if not has_ctags():
        if os.environ.get('CI') == 'true':
            report.fail('universal-ctags', 'not installed: deploy/packages test installs it')
        else:
            report.skip('universal-ctags IS NOT INSTALLED: NO CALL CIRCLE WAS LOOKED FOR (deploy/packages test installs it)')
        return
    files, folders = measure(root)
    hint = ': tests/lint/circles.py --show '
    for ratchet_, found in ((FILES, files), (FOLDERS, folders)):
        ratchet_.judge(root, found, report, hint + 'FOLDER says which calls make it')


def show(root, room):
    edges = calls(root, [p for p in tree.files(root) if p.endswith('.c') and p.startswith(room + '/')])
    for group in circles(edges):
        print(len(group), ' '.join(os.path.relpath(p, room) for p in group))
        for a in group:
            for b in sorted(set(edges[a]) & set(group)):
                print('     ', os.path.relpath(a, room), '->', os.path.relpath(b, room), ' '.join(sorted(edges[a][b])[:5]))
    between = folder_edges(edges, room)
    for a in sorted(between):
        for b, names in sorted(between[a].items()):
            print(f'folder {a} -> {b}: {len(names)}:', ' '.join(sorted(names)[:5]))
    for group in circles(between):
        print('folders in a circle:', ' '.join(group))


def _ring(room, number, name='f'):
    """Files of which each calls the next, and the last the first."""
    return {f'{room}/{name}{i}.c': f'static void helper(void)\n{{\n}}\nint {name}_{i}(void)\n{{\n\thelper();\n'
            f'\treturn {name}_{(i + 1) % number}(); /* g_1() */\n}}\n' for i in range(number)}


UP = {'src/engine/kernel/k.c': 'int k_run(void)\n{\n\treturn p_run() + s_run("x", k_run);\n}\n',
      'src/engine/place/p.c': 'int p_run(void)\n{\n\treturn k_run();\n}\n',
      'src/engine/engine.c': 'int s_run(void)\n{\n\treturn 1;\n}\n'}
CASES = [
    ('six are allowed, also twice', {**_ring('src/a', 6), **_ring('src/a', 6, 'g'),
                                     'src/b/f.c': 'int x(void)\n{\n\treturn f_1();\n}\n'}, [], []),
    ('seven are not', {**_ring('src/a', 7), **_ring('providers/x', 8), **_ring('src/a/sub', 3, 'g')},
     ['src/a: 7 files', 'providers/x: 8 files'], []),
    ('a name in a table counts', {**_ring('src/a', 6), 'src/a/f0.c': 'int f_0(void)\n{\n\treturn t(f_1, "f_2()");\n}\n',
                                  'src/a/f5.c': 'int f_5(void)\n{\n\treturn h();\n}\n',
                                  'src/a/h.c': 'int h(void)\n{\n\treturn t(f_0);\n}\n'}, ['src/a: 7 files'], []),
    ('the engine calls downward only', UP, ['src/engine: 2 folders'], []),
    ('the ratchet', {**_ring('src/a', 8), **_ring('src/b', 3, 'g'), 'tests/lint/ratchet/circles.txt': '9 src/a\n7 src/b\n'},
     ['src/b keeps the limit of 6'], ['src/a: 8 files']),
]


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if sys.argv[1:2] == ['--show'] and len(sys.argv) == 3:
        return show(root, sys.argv[2].rstrip('/'))
    if sys.argv[1:] == ['--self-test'] and not has_ctags():
        print('SKIPPED: no universal-ctags')
        return 77
    return tree.main(check, CASES, ratchet.updater((FILES, lambda r: measure(r)[0]), (FOLDERS, lambda r: measure(r)[1])))


if __name__ == '__main__':
    sys.exit(main())
