#!/usr/bin/env python3
"""English by folder: mean sentence length, sentences over 25 words, and forbidden openings.

  english.py ROOT                       checks against the table in english.txt
  english.py --show FOLDER              prints the long sentences and forbidden openings of a folder
  english.py --update [FOLDER...]       lowers the numbers of the table to today's (all folders, or those below FOLDER)
  english.py --update --force           writes today's numbers whatever they are
  english.py --self-test

The table is a ratchet: a number may only fall. A folder that meets the target has no row, and a new folder
must meet it. The target is a mean of at most 16 words, no sentence over 25 words, and no forbidden
opening. The forbidden ones are What, Who, Whose, Whoever, That which, and Where as a relative."""
import collections
import os
import re
import sys

import prose
import tree

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'english.txt')
TARGET_MEAN, LONG, SHORT = 16.0, 25, 3
OPENING = re.compile(r'\W*(what|who|whose|whoever|that which|where)\b', re.I)
# Other people's texts, and data.
EXEMPT = ('tests/golden/', 'tests/fuzz/corpus/', 'tests/cloudsim/data/', 'src/core/rank/data/')

HEADER = '''# Written by english.py --update. A number may only fall; a row goes when its folder meets the target.
# folder kind mean-words sentences-over-25-words forbidden-openings
'''


def is_forbidden(words):
    """A question may begin with Where."""
    m = OPENING.match(' '.join(words[:3]))
    return bool(m) and not (m.group(1).lower() == 'where' and words[-1].rstrip('"\')*_').endswith('?'))


class Count:
    def __init__(self):
        self.sentences = self.words = self.long = self.openings = 0

    def add(self, words):
        if len(words) >= SHORT:
            self.sentences += 1
            self.words += len(words)
            self.long += len(words) > LONG
        self.openings += len(words) > 1 and is_forbidden(words)

    def numbers(self):
        return (round(self.words / max(self.sentences, 1), 1), self.long, self.openings)


def each_sentence(root):
    """Yields (path, kind, line, words)."""
    for path in tree.files(root):
        if path.startswith(EXEMPT):
            continue
        if prose.is_read(path):
            for kind, pieces in prose.pieces(path, tree.read(root, path)):
                for line, text in pieces:
                    for words in prose.sentences(text):
                        yield path, kind, line, words


def measure(root):
    counts = collections.defaultdict(Count)
    for path, kind, _, words in each_sentence(root):
        counts[(os.path.dirname(path) or '.', kind)].add(words)
    return {key: c.numbers() for key, c in counts.items()}


def meets_target(numbers):
    return numbers[0] <= TARGET_MEAN and numbers[1] == 0 and numbers[2] == 0


def read_table(text):
    rows = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 5 and words[0] != '#':
            numbers = (float(words[2]), int(words[3]), int(words[4]))
            # A merge may keep two lines of one key: the higher numbers count until --update.
            rows[(words[0], words[1])] = tuple(map(max, numbers, rows.get((words[0], words[1]), numbers)))
    return rows


def table_text(rows):
    lines = [f'{f} {k} {n[0]:.1f} {n[1]} {n[2]}\n' for (f, k), n in sorted(rows.items()) if not meets_target(n)]
    return HEADER + ''.join(lines)


def compare(table, now, report):
    names = (('mean sentence length', 'words'), (f'sentences over {LONG} words', ''), ('forbidden openings', ''))
    for key, numbers in sorted(now.items()):
        limits = table.get(key, (TARGET_MEAN, 0, 0))
        for limit, number, (name, unit) in zip(limits, numbers, names):
            allowed = max(limit, TARGET_MEAN) if unit else limit
            if number > allowed:
                report.fail(f'{key[0]} ({key[1]})', f'{name} {number}, at most {allowed}: '
                            f'tests/lint/english.py --show {key[0]}')
    for key in sorted(table):
        if key not in now or meets_target(now[key]):
            report.warn(f'{key[0]} ({key[1]})', 'meets the target: english.py --update removes its row')


def check(root, report):
    path = os.path.join(root, 'tests/lint/english.txt')
    text = tree.read(root, 'tests/lint/english.txt') if os.path.isfile(path) else ''
    compare(read_table(text), measure(root), report)


def is_below(folder, tops):
    return not tops or any(folder == t or folder.startswith(t + '/') for t in tops)


def show(root, tops):
    for path, kind, line, words in each_sentence(root):
        if is_below(os.path.dirname(path), tops):
            text = ' '.join(words)
            if len(words) > LONG:
                print(f'{path}:{line}: {len(words)} words ({kind}): {text}')
            elif len(words) > 1 and is_forbidden(words):
                print(f'{path}:{line}: opening ({kind}): {text}')


def update(root, tops, force):
    rows, now = read_table(tree.read(root, 'tests/lint/english.txt') if os.path.exists(TABLE) else ''), measure(root)
    for key in set(rows) | set(now):
        if not is_below(key[0], tops):
            continue
        numbers = now.get(key)
        if numbers is None:
            rows.pop(key, None)
        elif force:
            rows[key] = numbers
        elif key in rows:
            rows[key] = tuple(min(a, b) for a, b in zip(rows[key], numbers))
            # The mean of a folder that got a row for its openings alone may move below the target.
            rows[key] = (max(rows[key][0], min(numbers[0], TARGET_MEAN)),) + rows[key][1:]
    with open(TABLE, 'w', encoding='utf-8') as f:
        f.write(table_text(rows))


LONG_SENTENCE = 'The engine ' + 'really ' * 23 + 'waits.'
CASES = [
    ('good prose', {'src/a/x.c': '/* The engine retries the call. Where does it stop? After three. */\nchar *m = "cannot open the file";\n',
                    'src/a/README.md': '# What\n\nThe room holds the queue.\n\n    Who knows this code? It is '
                    + 'indented ' * 40 + '\n'}, [], []),
    ('openings', {'src/a/x.c': '/* What was asked is done. Where a pool is gone, it waits. */\n',
                  'b/q.sql': '-- Whoever leads\n-- may act here.\nSELECT 1; -- That which ends is gone\n',
                  'c/m.py': '"""Who leads, acts."""\n# Whose turn it is\n'},
     ['src/a (comments): forbidden openings 2', 'b (comments): forbidden openings 2', 'c (comments): forbidden openings 2'], []),
    ('declarations of a statement are no prose', {
        'a/q.sql': '-- The statement ends a node.\n-- name: node_end\n-- params: ' + 'id int8, ' * 30 + '\n--   '
                   + 'x int4, ' * 30 + '\n-- setup: ' + 'SET x; ' * 20 + '\n-- copy: COPY t (' + 'a, ' * 30
                   + ')\n-- writes: no\nSELECT 1\n'}, [], []),
    ('strings of the product', {'src/a/x.c': 'const char *m = "what was asked "\n    "is not known"; q("SELECT who is on the list");\n',
                                'tests/a/x.c': 'const char *m = "what was asked is not known";\n'},
     ['src/a (strings): forbidden openings 1'], []),
    ('scripts, build files, data and mutations', {
        'a/run': '#!/usr/bin/env bash\n# What the machine runs.\n#   Who knows this sample of a command\necho "# what is this" # Who reads, learns\n',
        'b/meson.build': "# Whoever builds\n# needs this.\nx = 'a # what is here'\n",
        'c/x.yaml': 'a: 1  # what became of it\n', 'd/x.mut': '# Who leads, acts.\nbug: It is late.\n',
        'e/data': '# What is no script is not read.\n', 'f/y.sh': '# Where it ends is open.\n'},
     ['a (comments): forbidden openings 2', 'b (comments): forbidden openings 1', 'c (comments): forbidden openings 1',
      'd (comments): forbidden openings 1', 'f (comments): forbidden openings 1'], []),
    ('messages of statements', {
        'src/a/q.sql': "SELECT CASE WHEN x THEN 'what was asked isn''t known' ELSE 'who leads' END, -- it's fine\n"
                       "format('SELECT who is on the list')\n",
        'migrations/q.sql': "SELECT 'what was asked is not known'\n"},
     ['src/a (strings): forbidden openings 1'], []),
    ('a long sentence', {'a/README.md': 'Short one is here. ' * 20 + LONG_SENTENCE}, ['a (docs): sentences over 25 words 1'], []),
    ('a mean that is too high', {'a/x.h': '/* ' + ('The engine ' + 'really ' * 15 + 'waits. ') * 3 + '*/\n'},
     ['a (comments): mean sentence length 18'], []),
    ('the ratchet allows what was there, and no more', {
        'tests/lint/english.txt': 'a comments 10.0 0 1\nb comments 3.0 1 1\nc docs 20.0 1 1\n',
        'a/x.c': '/* Who leads, acts. */\n/* Who follows, waits. */\n', 'b/x.c': '/* Who leads, acts. */\n'},
     ['a (comments): forbidden openings 2'], ['c (docs): meets the target']),
]


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if sys.argv[1:2] == ['--show']:
        return show(root, [p.rstrip('/') for p in sys.argv[2:]])
    if sys.argv[1:2] == ['--update']:
        tops = [p.rstrip('/') for p in sys.argv[2:] if p != '--force']
        return update(root, tops, '--force' in sys.argv)
    return tree.main(check, CASES)


if __name__ == '__main__':
    sys.exit(main())
