"""Extracts the English of a file: comments, documents and the strings that a user reads.

A piece is (line, text): one comment, one paragraph, one table cell or one message. Code samples, quoted
code and addresses are replaced by one word, so that they count as one."""
import inspect
import io
import json
import os
import re
import tokenize

COMMENT_FILES = ('.c', '.h', '.cu', '.sql', '.py')
DOC_FILES = ('.md', '.scd')
HASH_FILES = ('.sh', '.yaml', '.yml', '.mut', 'meson.build')
STRING_ROOTS = ('src/', 'providers/')

_C_TOKEN = re.compile(r'/\*.*?\*/|(?://[^\n]*(?:\n[ \t]*(?=//))?)+|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
_C_STRINGS = re.compile(r'"((?:\\.|[^"\\\n])*)"(?:\s*"((?:\\.|[^"\\\n])*)")*')
_ONE_STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
_LIST_ITEM = re.compile(r'^\s*(?:[-*+]|\d+[.)])\s+')


def _line(text, at):
    return text.count('\n', 0, at) + 1


def _comment_text(raw):
    """A comment without its marks; a blank line stays as the end of a paragraph."""
    lines = []
    for line in re.sub(r'^/\*+|\*+/$', '', raw).split('\n'):
        lines.append(re.sub(r'^\s*(?:\*|//+|--+|#+)?\s?', '', line).rstrip())
    return '\n'.join(lines)


def _paragraphs(line, text):
    """Splits at blank lines and before each item of a list."""
    pieces, start = [], line
    block = []
    for i, row in enumerate(text.split('\n') + ['']):
        item = _LIST_ITEM.match(row)
        if (not row.strip() or item) and block:
            pieces.append((start, ' '.join(block)))
            block = []
        if row.strip():
            if not block:
                start = line + i
            block.append(_LIST_ITEM.sub('', row).strip())
    return pieces


def c_comments(text):
    pieces = []
    for m in _C_TOKEN.finditer(text):
        if m.group()[0] == '/':
            pieces += _paragraphs(_line(text, m.start()), _comment_text(m.group()))
    return pieces


_STATEMENT = re.compile(r'\b(SELECT|UPDATE|INSERT|DELETE|BEGIN|NOTIFY)\b')


def c_strings(text):
    """Messages: adjacent literals joined, four words at least, no SQL and no format of a wire."""
    blank = re.sub(r'/\*.*?\*/|^[ \t]*#[ \t]*include[^\n]*', lambda m: re.sub(r'[^\n]', ' ', m.group()), text,
                   flags=re.S | re.M)
    pieces = []
    for m in _C_STRINGS.finditer(blank):
        words = ''.join(_ONE_STRING.findall(m.group())).replace('\\n', '\n').replace('\\"', '"').replace('\\t', ' ')
        if len(re.findall(r"(?<![\w<{\"/-])[A-Za-z][a-z']+(?=[ ,.:;?!)]|$)", words)) >= 4 \
                and not _STATEMENT.search(words) and not re.search(r'[{<]["?/\w]', words):
            pieces += _paragraphs(_line(text, m.start()), words)
    return pieces


_SQL_HEADER = re.compile(r'^[ \t]*--[ \t](?:name|params|rows|rows_in|row|json|writes|setup|copy):[^\n]*(?:\n--[ \t]{2,}[^\n]*)*', re.M)


def sql_comments(text):
    """Comments without the declarations of the statement: name, parameters, rows, setup and copy."""
    text = _SQL_HEADER.sub(lambda m: re.sub(r'[^\n]+', '--', m.group()), text)
    pieces = []
    for m in re.finditer(r'(?:^[ \t]*--[^\n]*\n)+|--[^\n]*', text, re.M):
        pieces += _paragraphs(_line(text, m.start()), _comment_text(m.group().rstrip('\n')))
    return pieces


def sql_strings(text):
    """Messages: literals of four words at least that are no SQL themselves."""
    blank = re.sub(r'--[^\n]*', lambda m: ' ' * len(m.group()), text)
    pieces = []
    for m in re.finditer(r"'((?:[^']|'')*)'", blank):
        words = m.group(1).replace("''", "'")
        if len(re.findall(r"(?<![\w<{\"/-])[A-Za-z][a-z']+(?=[ ,.:;?!)]|$)", words)) >= 4 and not _STATEMENT.search(words):
            pieces += _paragraphs(_line(text, m.start()), words)
    return pieces


_HASH = re.compile(r'(?P<own>^[ \t]*#(?!!)(?P<text>[^\n]*))|[ \t]#[ \t]+(?P<behind>[^\n]*)', re.M)


def hash_comments(text):
    """Comments that begin with #: lines of their own, joined, and those behind code. Indented lines of a
    comment are samples. A # inside quotes is none."""
    pieces, block, start, last = [], [], 0, -9
    for m in _HASH.finditer(text):
        line, before = _line(text, m.start()), text[text.rfind('\n', 0, m.start()) + 1:m.start()]
        if m.group('own') is None:
            if not (before.count('"') % 2 or before.count("'") % 2):
                pieces += _paragraphs(line, m.group('behind'))
            continue
        if line != last + 1 and block:
            pieces += _paragraphs(start, '\n'.join(block))
            block = []
        start = start if block else line
        words = m.group('text')
        block.append('' if re.match(r'\s{2,}', words) and not _LIST_ITEM.match(words) else words.strip())
        last = line
    return pieces + (_paragraphs(start, '\n'.join(block)) if block else [])


def is_shell(path, text):
    return path.endswith('.sh') or re.match(r'#![^\n]*\b(?:ba|da)?sh\b', text) is not None


def is_read(path):
    """May the file hold English? A name without a suffix may be a script."""
    return path.endswith(COMMENT_FILES + DOC_FILES + HASH_FILES + ('schemas.json',)) \
        or '.' not in os.path.basename(path).lstrip('.')


def _docstring(raw):
    """A docstring without its samples, which are indented."""
    rows = inspect.cleandoc(raw.strip('rbuf"\'')).split('\n')
    return '\n'.join('' if r.startswith('  ') and not _LIST_ITEM.match(r) else r for r in rows)


def py_comments(text):
    """Comments, consecutive ones joined, and docstrings."""
    pieces, block, start, last = [], [], 0, -9
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return []
    before = tokenize.INDENT
    for t in tokens:
        if t.type == tokenize.COMMENT and not t.string.startswith('#!'):
            if t.start[0] != last + 1 and block:
                pieces += _paragraphs(start, '\n'.join(block))
                block = []
            start = start if block else t.start[0]
            block.append(t.string.lstrip('# '))
            last = t.start[0]
        elif t.type == tokenize.STRING and before in (tokenize.INDENT, tokenize.NEWLINE, tokenize.DEDENT) \
                and t.string.lstrip('rbuf').startswith(('"""', "'''")):
            pieces += _paragraphs(t.start[0], _docstring(t.string))
        if t.type not in (tokenize.COMMENT, tokenize.NL):
            before = t.type
    return pieces + (_paragraphs(start, '\n'.join(block)) if block else [])


def _doc_rows(text):
    """(line, row) of a document without its code: fenced, or indented outside of a list."""
    fenced = in_list = False
    before = ''
    for i, row in enumerate(text.split('\n'), 1):
        if row.lstrip().startswith('```'):
            fenced = not fenced
            row = ''
        elif fenced:
            row = ''
        elif _LIST_ITEM.match(row):
            in_list = True
        elif row.strip() and not row.startswith((' ', '\t')):
            in_list = in_list and bool(before.strip())
        elif row.startswith(('    ', '\t')) and (not in_list or row.startswith('        ')):
            row = ''
        yield i, row
        before = row


def documents(text):
    pieces, block, start = [], [], 1
    text = re.sub(r'<!--.*?-->', lambda m: re.sub(r'[^\n]', ' ', m.group()), text, flags=re.S)
    for i, row in list(_doc_rows(text)) + [(0, '')]:
        heading = row.startswith('#')
        table = row.lstrip().startswith('|')
        if (not row.strip() or heading or table or _LIST_ITEM.match(row)) and block:
            pieces.append((start, ' '.join(block)))
            block = []
        if table:
            pieces += [(i, c.strip()) for c in row.strip().strip('|').split('|') if c.strip(' -:')]
        elif row.strip() and not heading:
            start = start if block else i
            block.append(_LIST_ITEM.sub('', row).strip())
    return pieces


def descriptions(text):
    """The descriptions of a JSON schema."""
    found = []

    def walk(value):
        if isinstance(value, dict):
            for key, item in value.items():
                if key in ('description', 'summary') and isinstance(item, str):
                    found.append((1, item))
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)
    try:
        walk(json.loads(text))
    except ValueError:
        pass
    return found


def pieces(path, text):
    """Yields (kind, pieces) of a file; kind is comments, docs or strings."""
    if path.endswith(DOC_FILES):
        yield 'docs', documents(text)
    elif path.endswith(('.c', '.h', '.cu')):
        yield 'comments', c_comments(text)
        if path.endswith('.c') and path.startswith(STRING_ROOTS):
            yield 'strings', c_strings(text)
    elif path.endswith('.sql'):
        yield 'comments', sql_comments(text)
        if path.startswith(STRING_ROOTS):
            yield 'strings', sql_strings(text)
    elif path.endswith('.py'):
        yield 'comments', py_comments(text)
    elif path.endswith('schemas.json'):
        yield 'strings', descriptions(text)
    elif path.endswith(HASH_FILES) or is_shell(path, text):
        yield 'comments', hash_comments(text)


_SENTENCE_END = re.compile(r'(?<=[.!?])["\')\]*_]*\s+(?=["\'(\[*_`]*[A-Z0-9`])')
_NO_END = re.compile(r'\b(e\.g|i\.e|etc|vs|cf|Fig|No|approx)\.\s', re.I)


def sentences(text):
    """The sentences of one piece, each as a list of words."""
    text = re.sub(r'!?\[([^\]]*)\]\([^)]*\)', r'\1', text)
    text = re.sub(r'``?[^`]+``?', 'Code', text)
    text = re.sub(r'https?://\S+', 'address', text)
    text = _NO_END.sub(lambda m: m.group(1).replace('.', '') + ' ', text)
    for sentence in _SENTENCE_END.split(text):
        words = [w for w in sentence.split() if re.search(r'[A-Za-z0-9%]', w)]
        if words:
            yield words
