"""Ratchets: numbers above a rule's limit that were there when the rule came, and that may only fall.

tests/lint/ratchet/NAME.txt has one line for each, `number key`. A key without a line must keep the limit. A
number above its line fails, and one below it warns. A line fails once its key keeps the limit: remove it then.
`LINT.py --update` lowers the lines and removes those that are met. It never raises a number; `--update --force`
does, for a new rule or after a move."""
import os

import tree

FOLDER = 'tests/lint/ratchet'


class Ratchet:
    def __init__(self, name, limit, unit):
        self.path, self.limit, self.unit = f'{FOLDER}/{name}.txt', limit, unit

    def read(self, root):
        rows = {}
        if os.path.isfile(os.path.join(root, self.path)):
            for line in tree.read(root, self.path).splitlines():
                # A merge may keep two lines of one key: the higher counts until --update.
                number, _, key = line.partition(' ')
                if number.isdigit():
                    rows[key.strip()] = max(int(number), rows.get(key.strip(), 0))
        return rows

    def judge(self, root, measured, report, hint=''):
        """measured: {key: number}, numbers at or below the limit too."""
        rows = self.read(root)
        for key, number in sorted(measured.items()):
            allowed = max(rows.get(key, self.limit), self.limit)
            if number > allowed:
                report.fail(key, f'{number} {self.unit}, at most {allowed}{hint}')
            elif key in rows and self.limit < number < rows[key]:
                report.warn(key, f'{number} {self.unit}: lower its line in {self.path} (--update)')
        for key in sorted(rows):
            if measured.get(key, 0) <= self.limit:
                report.fail(self.path, f'{key} keeps the limit of {self.limit} now: remove its line (--update)')

    def update(self, root, measured, force):
        rows, now = self.read(root), {}
        for key, number in measured.items():
            if number > self.limit and (force or key in rows):
                now[key] = number if force else min(number, rows[key])
        text = f'# {self.unit} above {self.limit}; each number may only fall (tests/lint/ratchet.py)\n'
        text += ''.join(f'{n} {k}\n' for k, n in sorted(now.items()))
        path = os.path.join(root, self.path)
        if now:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w', encoding='utf-8') as f:
                f.write(text)
        elif os.path.isfile(path):
            os.remove(path)


def updater(*pairs):
    """For tree.main: pairs of (ratchet, function that measures a tree)."""
    def update(root, force):
        for ratchet, measure in pairs:
            ratchet.update(root, measure(root), force)
    return update
