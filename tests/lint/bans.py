#!/usr/bin/env python3
"""Calls that must not be there. base.h poisons most of them, but only where it is included: here
every file is read. Some are banned in some places only: waiting by the clock, and any I/O or clock
in the pure layers."""
import re
import sys

import tree

EVERYWHERE = {
    'sprintf': 'snprintf', 'vsprintf': 'vsnprintf', 'strcpy': 'str_copy', 'strcat': 'struct sbuf',
    'strncpy': 'str_copy', 'strncat': 'struct sbuf', 'strtok': 'strsep or a view', 'gmtime': 'format_time',
    'localtime': 'format_time', 'ctime': 'format_time', 'asctime': 'format_time', 'rand': 'struct rng',
    'srand': 'struct rng', 'random': 'struct rng', 'srandom': 'struct rng', 'atoi': 'parse_i64',
    'atol': 'parse_i64', 'atoll': 'parse_i64', 'atof': 'parse_f64', 'system': 'proc_spawn',
    'popen': 'proc_spawn', 'tmpnam': 'mkstemp', 'mktemp': 'mkstemp', 'gets': 'fgets', 'alloca': 'an arena',
    'setjmp': 'error codes', 'longjmp': 'error codes',
}
WAITING = {'sleep': 'wait for the event', 'usleep': 'wait for the event', 'nanosleep': 'wait for the event'}
PURE = dict.fromkeys((
    'time', 'clock', 'clock_gettime', 'gettimeofday', 'getrandom', 'getenv', 'secure_getenv', 'setenv', 'open',
    'openat', 'fopen', 'creat', 'socket', 'connect', 'read', 'write', 'printf', 'puts', 'putchar', 'perror', 'fork',
    'execv', 'execve', 'unlink', 'stat', 'log_event', 'log_debug', 'log_info', 'log_warn', 'log_error'),
    'give it as a value')

# A path prefix, and what is banned below it beside EVERYWHERE.
PLACES = [('src/', WAITING), ('providers/', WAITING), ('tests/', WAITING), ('src/core/', PURE), ('providers/', PURE)]
MUST_START = ('src/', 'providers/')


def words_for(path):
    words = dict(EVERYWHERE)
    for prefix, more in PLACES:
        if path.startswith(prefix):
            words.update(more)
    return words


def check_calls(path, text, report):
    code = tree.code_only(text)
    words = words_for(path)
    if 'BASE_ALLOW_BANNED' in code:
        words = {w: r for w, r in words.items() if w not in EVERYWHERE}
    # Not a member (p->open(...)), not a part of a longer name, not a declaration of our own.
    for m in re.finditer(r'(?<![\w.>])(' + '|'.join(map(re.escape, words)) + r')\s*\(', code):
        if re.search(r'\(\s*\*\s*$', code[:m.start()]):
            continue
        line = code.count('\n', 0, m.start()) + 1
        report.fail(f'{path}:{line}', f'{m.group(1)}() is banned here: {words[m.group(1)]}')


def check_first_include(path, text, report):
    first = re.search(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)', text, re.M)
    if first and first.group(1) != 'base/base.h':
        report.fail(path, f'the first include must be "base/base.h", not {first.group(1)}')


def check(root, report):
    for path in tree.files(root):
        if not path.endswith(('.c', '.h')):
            continue
        text = tree.read(root, path)
        check_calls(path, text, report)
        if path.endswith('.c') and path.startswith(MUST_START):
            check_first_include(path, text, report)


CASES = [
    ('a clean file', {'src/io/a.c': '#include "base/base.h"\n/* sprintf(x) */ p->open(1); my_time(2); "rand()"; x.read();\n'
                                    'open(x); time_t t; #define S system\n',
                      'src/core/a.c': '#include "base/base.h"\n' 'int (*write)(int); strftime(x);\n',
                      'tests/t.c': '#include <x.h>\nopen(x);\n'}, [], []),
    ('banned everywhere, also without base.h', {'tests/t.c': 'x = atoi(y);\n\nsprintf (a, b);\n', 'other/x.h': 'rand()'},
     ['tests/t.c:1: atoi()', 'tests/t.c:3: sprintf()', 'rand()'], []),
    ('waiting by the clock', {'src/engine/e.c': 'sleep(1);', 'tests/t.c': 'usleep(1);', 'providers/a/a.c': 'nanosleep(1);',
                              'deploy/x.c': 'sleep(1);'}, ['sleep()', 'usleep()', 'nanosleep()'], []),
    ('the pure layers', {'src/core/a.c': 't = time(NULL);', 'providers/aws/a.c': 'getenv("X"); log_info("x");',
                         'src/io/b.c': 'getenv("X"); time(NULL);'}, ['time()', 'getenv()', 'log_info()'], []),
    ('another first include', {'src/io/a.c': '#include <stdio.h>\n#include "base/base.h"\n'}, ['first include'], []),
    ('a declared exception', {'src/base/w.c': '#define BASE_ALLOW_BANNED\n#include "base/base.h"\nstrcpy(a, b); sleep(1);'},
     ['sleep()'], []),
]

if __name__ == '__main__':
    sys.exit(tree.main(check, CASES))
