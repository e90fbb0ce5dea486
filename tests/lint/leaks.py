#!/usr/bin/env python3
"""Nothing that looks like a credential, no path of one developer's machine and no mark of a merge, in any file.

The vendors' published examples end in EXAMPLE or EXAMPLEKEY and are allowed. The patterns are put
together from parts, so that this file does not find itself."""
import os
import re
import sys

import tree

PATTERNS = [
    ('an AWS access key id', r'\b(?:AKIA|ASIA)[0-9A-Z]{16}\b'),
    ('an AWS secret key', r'(?i:secret_?(?:access_?)?key)\W{1,6}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])'),
    ('a private key', r'-----BEGIN (?:[A-Z]+ )*PRIVATE' r' KEY-----'),
    ('a GitHub token', r'\bgh[pousr]_[A-Za-z0-9]{36}\b|\bgithub_pat_[A-Za-z0-9_]{40,}'),
    ('a Slack token', r'\bxox[abprs]-[A-Za-z0-9-]{10,}'),
    ('a Google API key', r'\bAIza[0-9A-Za-z_-]{35}\b'),
    ('a Lambda API key', r'\bsecret_[a-z0-9-]+_[0-9a-f]{32}\.[A-Za-z0-9]{32}\b'),
    ('a JSON web token', r'\beyJ[A-Za-z0-9_-]{20,}\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}'),
    ('a password in a URL', r'\b[a-z]+://[^/\s:@"\'<>{}$%]+:(?!\*|p@|pw@|x@|PASSWORD|\.\.\.|<)[^/\s:@"\'<>{}$%]{6,}@[a-z0-9.-]+'),
    ('a mark of a merge', r'(?m)^(?:<<<<' r'<<<|>>>>' r'>>>) \S'),
    ('a path of one machine', r'(?<![\w.$}/-])/(?:' 'work' '|' 'root' r'|home/(?!(?:user|u|spot|broker|runner)/)\w+' r'|Users/\w+)/[\w.-]'),
]
COMPILED = [(what, re.compile(p)) for what, p in PATTERNS]
TEXT_MAX = 8 << 20


def check(root, report):
    for path in tree.files(root):
        if os.path.getsize(os.path.join(root, path)) > TEXT_MAX:
            continue
        text = tree.read(root, path)
        if '\0' in text[:4096]:
            continue
        for what, pattern in COMPILED:
            for m in pattern.finditer(text):
                if re.search(r'EXAMPLE(KEY)?$', m.group()):
                    continue
                line = text.count('\n', 0, m.start()) + 1
                # The finding itself is not printed: logs of a build are public.
                report.fail(f'{path}:{line}', f'looks like {what}')
        if re.search(r'(^|/)(id_rsa|id_ed25519|\.env|credentials|.*\.pem|.*\.p12)$', path):
            report.fail(path, 'a file of this name may not be tracked')


CASES = [
    ('a clean tree', {'a.md': 'AKIA' 'IOSFODNN7EXAMPLE and /var/lib/work/x, $HOME/root/x, deploy/root/x, /home/broker/.aws/x, see https://h/work/x\n'
                              'dsn postgres://user@host/db, https://u:p@h/\n',
                      'b.c': '"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"', 'c.bin': '\0AKIA' 'ABCDEFGHIJKLMNOP'}, [], []),
    ('credentials', {'a': 'x\nAKIA' 'ABCDEFGHIJKLMNOP', 'b': '-----BEGIN RSA PRIVATE' ' KEY-----', 'c': 'gh' 'p_' + 'a' * 36,
                     'd': 'aws_secret_access_key = ' + 'aB3/' * 10, 'e': 'postgres://me:' 'hunter22@db.example.com/x',
                     'f': 'xo' 'xb-1234567890', 'g': 'ey' 'J' + 'a' * 20 + '.ey' 'J' + 'b' * 20 + '.' + 'c' * 20},
     ['a:2: looks like an AWS access key id', 'b:1: looks like a private key', 'c:1', 'd:1', 'e:1', 'f:1', 'g:1'], []),
    ('machine paths', {'a.c': '// see /' 'work/x', 'b.md': 'cd /' 'root/x', 'c': 'x=/' 'home/jane/y'},
     ['a.c:1: looks like a path', 'b.md:1', 'c:1'], []),
    ('an unfinished merge', {'a.c': 'int a;\n<<<<' '<<< HEAD\nint b;\n=====' '==\nint c;\n>>>>' '>>> x\n'},
     ['a.c:2: looks like a mark', 'a.c:6: looks like a mark'], []),
    ('file names', {'x/id_rsa': '', 'k.pem': ''}, ['x/id_rsa', 'k.pem'], []),
]

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES))
