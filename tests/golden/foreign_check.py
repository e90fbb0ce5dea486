#!/usr/bin/env python3
"""The vendors may say the same in other words: members in another order, members that nobody knows yet, letters as escapes,
XML with CDATA, attributes and empty elements. The golden cases are run with their replies written like that, and every
result and every request must stay as it is.

usage: foreign_check.py TEST_GOLDEN GOLDEN_DIR"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Members below which are keys of anybody's: results come in their order, and a new one would be one thing more.
MAPS = {'items', 'labels', 'tags', 'metadatas', 'dimensions', 'Linux', 'instance_types', 'spot_advisor', 'OnDemand', 'priceDimensions',
        'pricePerUnit'}


def is_map(key):
    return key in MAPS or key.startswith(('us-', 'eu-'))


def backwards(doc, key=''):
    if isinstance(doc, dict):
        pairs = [(k, backwards(v, k)) for k, v in doc.items()]
        return dict(pairs if is_map(key) else reversed(pairs))
    return [backwards(x) for x in doc] if isinstance(doc, list) else doc


def unknown(doc, key=''):
    if isinstance(doc, dict):
        out = {k: unknown(v, k) for k, v in doc.items()}
        if not is_map(key):
            out = {'aaFuture': {'name': 'decoy', 'status': [None, 1.5, 'no']}, **out, 'zzFuture': [{'id': 'decoy'}], 'zzNull': None}
        return out
    return [unknown(x) for x in doc] if isinstance(doc, list) else doc


def escaped(doc):
    if isinstance(doc, dict):
        return '{ ' + ' ,\n\t'.join('%s : %s' % (escaped(k), escaped(v)) for k, v in doc.items()) + ' }'
    if isinstance(doc, list):
        return '[ ' + ' , '.join(map(escaped, doc)) + ' ]'
    if isinstance(doc, str):
        return '"%s"' % ''.join('\\u%04x' % ord(c) for c in doc)
    return json.dumps(doc)


def as_json(change):
    def f(body):
        try:
            doc = json.loads(body)
        except ValueError:
            return body
        return change(doc)
    return f


def as_xml(pattern, new):
    return lambda body: re.sub(pattern, new, body) if body.startswith('<?xml') else body


CHANGES = {
    'members in another order': as_json(lambda d: json.dumps(backwards(d))),
    'unknown members': as_json(lambda d: json.dumps(unknown(d))),
    'letters as escapes': as_json(escaped),
    'unknown elements': as_xml(r'<(item|\w+(?:Set|Response|Result|Info))>', r'<\1><zzFuture><name>decoy</name></zzFuture><!-- x -->'),
    'character data': as_xml(r'>([^<>\s&][^<>&]*)</', r'><![CDATA[\1]]></'),
    'empty elements and attributes': lambda b: as_xml(r'<(\w+)></\1>', r'<\1 a="1"/>')(as_xml(r'<(\w+)>', r'<\1 zz="1">')(b)),
}


def changed(text, change):
    """A golden file with its replies changed; the text of a file that was read stays."""
    out, read, n = [], False, 0
    for part in re.split(r'(?m)^(?=--- )', text):
        if part.startswith('--- reply ') and not read:
            head, _, rest = part.partition('\n')
            cut = 1 if rest.startswith('\n') else rest.find('\n\n') + 2
            body = change(rest[cut:])
            n += body != rest[cut:]
            part = '%s\n%s%s\n' % (head, rest[:cut], body.rstrip('\n'))
        read = part.startswith('--- read ')
        out.append(part)
    return ''.join(out), n


def main(program, folder):
    bad = total = 0
    for name, change in CHANGES.items():
        with tempfile.TemporaryDirectory() as tmp:
            there = shutil.copytree(folder, os.path.join(tmp, 'golden'))
            replies = 0
            for p in pathlib.Path(there).glob('*.txt'):
                text, n = changed(p.read_text(), change)
                p.write_text(text)
                replies += n
            if replies == 0:
                continue
            r = subprocess.run([program], env=dict(os.environ, GOLDEN_DIR=there), capture_output=True, text=True)
            total += replies
            print('%s: %d replies, %s' % (name, replies, 'the same results' if r.returncode == 0 else 'OTHER RESULTS'))
            if r.returncode != 0:
                bad += 1
                print(r.stdout + r.stderr)
    return 1 if bad or total == 0 else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:3]))
