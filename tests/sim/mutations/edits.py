"""Mutations: bugs that are planted on purpose, and the code that finds their place in the sources.

A mutation names a C function, a C table, an SQL statement, or a view or function of the schema, and tokens in it. Files may move, and a formatter may break lines
elsewhere: white space, comments and where a string literal is split do not count.
"""
import difflib
import pathlib
import re
from dataclasses import dataclass, field

C_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\")|(?P<other>'(?:[^'\\]|\\.)+'|\w+|->|\+\+|--|&&|\|\||<<|>>|[-+*/%&|^<>=!]=|.)", re.S | re.M)
SQL_TOKEN = re.compile(r"(?P<skip>\s+|--[^\n]*|/\*.*?\*/)|(?P<string>\Z.)|(?P<other>'(?:[^']|'')*'|\$?\w+|->>|->|::|\|\||[<>!]=|<>|.)", re.S)


class Wrong(Exception):
    """The table of mutations or the tree is not as it must be; the text says where and how."""


@dataclass
class Token:
    text: str
    start: int
    end: int


def tokens_of(text, sql):
    """Returns the tokens of a text; literals that stand side by side are one."""
    out, last_string = [], False
    for m in (SQL_TOKEN if sql else C_TOKEN).finditer(text):
        if m.lastgroup == "skip":
            continue
        is_string = m.lastgroup == "string"
        if is_string and last_string:
            out[-1] = Token(out[-1].text[:-1] + m.group()[1:], out[-1].start, m.end())
        else:
            out.append(Token(m.group(), m.start(), m.end()))
        last_string = is_string
    return out


@dataclass
class Unit:
    """A definition: where its tokens stand in its file."""
    kind: str
    name: str
    path: pathlib.Path
    tokens: list

    def where(self):
        return "%s %s (%s)" % (self.kind, self.name, self.path)


def matching_close(tokens, at):
    """Returns the index of the bracket that closes the one at `at`."""
    pairs, depth = {"(": ")", "[": "]", "{": "}"}, 0
    opening = tokens[at].text
    for i in range(at, len(tokens)):
        depth += (tokens[i].text == opening) - (tokens[i].text == pairs[opening])
        if depth == 0:
            return i
    return len(tokens) - 1


def c_units(path, text):
    """Yields the functions and the initialised tables that a C file defines at its top level."""
    tokens, i, begin = tokens_of(text, False), 0, 0
    while i < len(tokens):
        t = tokens[i].text
        if t == ";":
            begin = i + 1
        elif t == "{":
            head, close = tokens[begin:i], matching_close(tokens, i)
            words = [x.text for x in head]
            if words and words[-1] == "=":
                names = [w for w in words[:words.index("[") if "[" in words else -1] if re.match(r"[A-Za-z_]", w)]
                yield Unit("table", names[-1], path, tokens[begin:close + 1])
            elif words and words[-1] == ")":
                opens = next(k for k in range(len(words)) if words[k] == "(" and k > 0)
                yield Unit("function", words[opens - 1], path, tokens[begin:close + 1])
            i = close
            if not words or words[-1] == ")":
                begin = i + 1
        i += 1


def sql_units(path, text):
    """Yields the named statements of an SQL file."""
    heads = list(re.finditer(r"^-- ?name:\s*(\w+)\s*$", text, re.M))
    for m, following in zip(heads, heads[1:] + [None]):
        tokens = tokens_of(text[:following.start() if following else len(text)], True)
        yield Unit("statement", m.group(1), path, [t for t in tokens if t.start > m.end()])


def schema_units(path, text):
    """Yields the views and functions that a migration creates."""
    heads = list(re.finditer(r"^CREATE (?:OR REPLACE )?(?:FUNCTION|VIEW) (\w+)", text, re.M))
    for m, following in zip(heads, heads[1:] + [None]):
        tokens = tokens_of(text[:following.start() if following else len(text)], True)
        yield Unit("schema", m.group(1), path, [t for t in tokens if t.start > m.end()])


def tree_units(root):
    """Returns all units of the product below root."""
    out = []
    for folder in ("src", "providers"):
        for path in sorted((root / folder).rglob("*.[cs]*")):
            if path.suffix in (".c", ".sql"):
                reader = sql_units if path.suffix == ".sql" else c_units
                out += reader(path.relative_to(root), path.read_text(encoding="utf-8"))
    newest = {}  # a later migration replaces a view or function
    for path in sorted((root / "migrations").glob("*.sql")):
        newest.update((u.name, u) for u in schema_units(path.relative_to(root), path.read_text(encoding="utf-8")))
    return out + list(newest.values())


@dataclass
class Edit:
    kind: str
    name: str
    stem: str  # part of the file's path, where a name is defined twice; "" = any
    old: str
    new: str = ""

    def places(self, unit):
        """Returns the (start, end) of each place in the unit's file where the old tokens stand."""
        want = [t.text for t in tokens_of(self.old, unit.kind in SQL_KINDS)]
        have = [t.text for t in unit.tokens]
        n = len(want)
        return [(unit.tokens[i].start, unit.tokens[i + n - 1].end) for i in range(len(have) - n + 1) if have[i:i + n] == want]


@dataclass
class Mutation:
    name: str
    place: str  # the file and line of its entry
    bug: str = ""
    rule: str = ""
    seed: int = 0
    edits: list = field(default_factory=list)


HEADS = ("bug", "rule", "seed")
SQL_KINDS = ("statement", "schema")


def edit_read(place, text):
    m = re.fullmatch(r"(function|table|statement|schema) (\w+)(?: of (\S+))?", text)
    if not m:
        raise Wrong("%s: 'in' takes function, table, statement or schema, a name, and 'of PATH-PART' if need be" % place)
    return Edit(m.group(1), m.group(2), m.group(3) or "", None)


def field_set(m, place, key, value):
    if key in HEADS:
        setattr(m, key, int(value) if key == "seed" else value)
    elif key == "in":
        m.edits.append(edit_read(place, value))
    elif key == "replace" and m.edits:
        if m.edits[-1].old is not None:
            m.edits.append(Edit(m.edits[-1].kind, m.edits[-1].name, m.edits[-1].stem, None))
        m.edits[-1].old = value
    elif key == "with" and m.edits and m.edits[-1].old is not None:
        m.edits[-1].new = value
    else:
        raise Wrong("%s: '%s:' does not belong here" % (place, key))


def mutations_read(folder):
    """Returns the mutations of all *.mut files of a folder, in order."""
    out = []
    for path in sorted(folder.glob("*.mut")):
        entries = []  # (line, key, value)
        for no, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            key, colon, value = line.partition(":")
            if line.startswith("\t"):
                entries[-1][2] += " " + line.strip()
            elif colon and re.fullmatch(r"\w+", key):
                entries.append([no, key, value.strip()])
            elif line.strip() and not line.startswith("#"):
                raise Wrong("%s:%d: neither 'key: value' nor a continuation" % (path.name, no))
        for no, key, value in entries:
            place = "%s:%d" % (path.name, no)
            if key == "mutation":
                out.append(Mutation(value, place))
            elif not out or out[-1].place.partition(":")[0] != path.name:
                raise Wrong("%s: before the first 'mutation:'" % place)
            else:
                field_set(out[-1], place, key, value.strip())
    mutations_judge(out)
    return out


def mutations_judge(mutations):
    seen = set()
    for m in mutations:
        if m.name in seen:
            raise Wrong("%s: %s is there twice" % (m.place, m.name))
        seen.add(m.name)
        if not (m.bug and m.rule and m.seed and m.edits and all(e.old for e in m.edits)):
            raise Wrong("%s: %s lacks its bug, rule, seed or edit" % (m.place, m.name))


def candidates_text(units, edit):
    """Says where the definition or the tokens of an edit that does not apply may have gone."""
    named = difflib.get_close_matches(edit.name, sorted({u.name for u in units if u.kind == edit.kind}), 3, 0.7)
    moved = [u.where() for u in units if (u.kind in SQL_KINDS) == (edit.kind in SQL_KINDS) and u.name != edit.name and edit.places(u)]
    return "".join(["\n  similar names: " + ", ".join(named) if named else "",
                    "\n  its tokens stand in: " + ", ".join(moved[:5]) if moved else ""])


def edit_find(units, edit):
    """Returns (unit, start, end) of the one place of an edit."""
    found = [u for u in units if (u.kind, u.name) == (edit.kind, edit.name) and edit.stem in str(u.path)]
    if len(found) > 1:
        found = [u for u in found if edit.places(u)] or found
    if len(found) != 1:
        raise Wrong("%s %s is defined %d times%s" % (edit.kind, edit.name, len(found), candidates_text(units, edit)))
    places = edit.places(found[0])
    if len(places) != 1:
        raise Wrong("the tokens stand %d times in %s: %s%s" % (len(places), found[0].where(), edit.old, candidates_text(units, edit)))
    return found[0], *places[0]


def mutation_apply(root, units, mutation):
    """Returns {path: mutated text} of the files that a mutation changes. Writes nothing."""
    spans = {}
    for e in mutation.edits:
        try:
            unit, start, end = edit_find(units, e)
        except Wrong as x:
            raise Wrong("%s (%s): %s" % (mutation.name, mutation.place, x)) from x
        spans.setdefault(unit.path, []).append((start, end, e.new))
    out = {}
    for path, changes in spans.items():
        text = (root / path).read_text(encoding="utf-8")
        for start, end, new in sorted(changes, reverse=True):
            text = text[:start] + new + text[end:]
        out[path] = text
    return out
