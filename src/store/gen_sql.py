#!/usr/bin/env python3
"""Turns src/store/sql/*.sql and migrations/*.sql into store/q.h and store/q.c.

    gen_sql.py SQL_DIR MIGRATIONS_DIR OUT_H OUT_C

Every statement starts with a header of comments. A header line continues in comment lines that
begin with "--" and two or more blanks:

    -- name: job_transition
    -- params: id int8, was job_state, note text?, ids int8[], pool[]      (left out if none)
    -- rows_in: pool (region text, vcpus int4)  (the columns that `pool[]` stands for)
    -- rows_in: pool pools (region text, ...)   (the same, as struct q_pools that others may share)
    -- rows: 0..1 epoch int8, why text?         (0..1 | 1 | many | none, then the result columns)
    -- row: job                                 (optional: share struct q_job_row with others)
    -- writes: yes                              (yes | no: decides UNKNOWN against UNAVAILABLE)
    -- json: epoch, why                         (the row as a JSON object: one item a column, below)
    -- rows: many as api_jobs                   (columns and shape of an earlier statement in the file)
    -- lane: long                               (optional, long | agent: its connections, io/pg/pg.h)
    -- row_at: yes                              (optional, of many rows: they can be read one by one)
    -- wakes: none                              (optional: no reconciler looks at what it writes; or the tables of which one looks)
    -- setup: CREATE TEMP TABLE ...             (only for copy_merge_*: runs before the COPY)
    -- copy: COPY t (a, b) FROM STDIN BINARY  (only for copy_merge_*)
    SELECT ... $1 ... $2 ...

Types: int8 int4 float8 bool text bytea jsonb, "?" for a NULL that is allowed, and as parameters the
arrays int8[] int4[] float8[] bool[] text[]. The enums of ENUMS are text in SQL and an enum in C.
`pool[]` in params makes struct q_NAME_pool and takes an array of them. Each of its columns is an
array parameter of its own, with the next numbers, as unnest() expects.

`json` makes struct shape q_shape_NAME (store/store.h). Its items, one for each column in order:

    name    by the column's type             name@   a time (int8 microseconds): name_at
    name#j  an id (int8, int4): "j12"        name@age  the same, and age_s
    name%   thousandths, as a decimal        name$   money: name_micros and name_usd
    name*   a text that is JSON              -       not shown
    name{a, b}  an object of these columns; null if the first of them is NULL

A bad header fails the build with file and line. Only the standard library is used. Files are
rewritten only when their content changes, so a run on every build costs no recompilation.
"""
import glob
import os
import re
import sys

import gen_rules
import gen_shape
from gen_migrations import Bad, bad, c_text, gen_migrations, read_migrations
from gen_touch import TOUCH_ALL, TOUCH_NAMES, TOUCHES, touches, touches_of

# type: (Oid, array Oid); pg_catalog.pg_type, fixed for ever by the server's bootstrap data
TYPES = {
    "int8": (20, 1016), "int4": (23, 1007), "float8": (701, 1022), "bool": (16, 1000),
    "text": (25, 1009), "bytea": (17, None), "jsonb": (3802, None),
}
CTYPE = {"int8": "int64_t ", "int4": "int32_t ", "float8": "double ", "bool": "bool ",
         "text": "const char *", "jsonb": "const char *", "bytea": "struct str "}
ATYPE = {"int8": "const int64_t *", "int4": "const int32_t *", "float8": "const double *",
         "bool": "const bool *", "text": "const char *const *"}
BIND = {"int8": "i64", "int4": "i32", "float8": "f64", "bool": "bool", "text": "text",
        "jsonb": "jsonb", "bytea": "bytes"}
BY_VALUE = ("int8", "int4", "float8", "bool")
# SQL type: (C enum, its name function, its parse function or None), all text in SQL
ENUMS = {
    "job_state": ("enum job_state", "job_state_name", "job_state_parse"),
    "job_event": ("enum job_event", "job_event_name", None),
    "node_state": ("enum node_state", "node_state_name", "node_state_parse"),
    "node_event": ("enum node_event", "node_event_name", "node_event_parse"),
    "gang_state": ("enum gang_state", "gang_state_name", "gang_state_parse"),
    "fleet_state": ("enum fleet_state", "fleet_state_name", "fleet_state_parse"),
    "attempt_phase": ("enum attempt_phase", "attempt_phase_name", "attempt_phase_parse"),
    "checkpoint_state": ("enum checkpoint_state", "checkpoint_state_name", "checkpoint_state_parse"),
    "supply_state": ("enum supply_state", "supply_state_name", "supply_state_parse"),
    "market": ("enum spot_market", "spot_market_name", "spot_market_parse"),
}
for enum, (c_type, _, _) in ENUMS.items():
    TYPES[enum] = TYPES["text"]
    CTYPE[enum] = c_type + " "
    ATYPE[enum] = "const %s *" % c_type
KEYWORDS = set("""auto break case char const continue default do double else enum extern float for
goto if inline int long register restrict return short signed sizeof static struct switch typedef
union unsigned void volatile while bool true false""".split())
COUNTS = ("0..1", "1", "many", "none")


class Field:
    def __init__(self, text, path, line, is_param):
        m = re.fullmatch(r"([a-z][a-z0-9_]*)\s+([a-z0-9_]+)(\[\])?(\?)?", text)
        if not m:
            bad(path, line, "'%s' is not `name type`, `name type?` or `name type[]`" % text)
        self.name, self.type = m.group(1), m.group(2)
        self.array, self.null = m.group(3) is not None, m.group(4) is not None
        if self.type not in TYPES:
            bad(path, line, "%s: unknown type '%s'; known are %s"
                % (self.name, self.type, " ".join(sorted(TYPES))))
        if self.array and not is_param:
            bad(path, line, "%s: arrays are for parameters only" % self.name)
        if not is_param and self.type in ENUMS and ENUMS[self.type][2] is None:
            bad(path, line, "%s: a %s is for parameters only" % (self.name, self.type))
        if self.array and TYPES[self.type][1] is None:
            bad(path, line, "%s: no arrays of %s" % (self.name, self.type))
        self.cname = self.name + "_" if self.name in KEYWORDS else self.name
        self.oid = TYPES[self.type][1 if self.array else 0]

    def key(self):
        return (self.name, self.type, self.null)

    def members(self):
        if self.array:
            return ["%s%s;" % (ATYPE[self.type], self.cname), "size_t %s_n;" % self.name]
        out = ["%s%s;" % (CTYPE[self.type], self.cname)]
        if self.null and self.type in BY_VALUE:
            out.insert(0, "bool has_%s;" % self.name)
        return out


class Group:
    """An array of structs: a parameter for the caller, one array a column for the server."""

    def __init__(self, name, path, line):
        self.name, self.cname, self.path, self.line = name, name, path, line
        self.cols = self.shared = None

    def struct(self, stmt):
        return "q_" + (self.shared or "%s_%s" % (stmt, self.name))

    def members(self, stmt):
        return ["const struct %s *%s;" % (self.struct(stmt), self.cname),
                "size_t %s_n;" % self.name]


class Stmt:
    def __init__(self, path, line):
        self.path, self.line = path, line
        self.name = self.count = self.row = self.writes = self.setup = self.copy = None
        self.shape = self.like = None
        self.lane, self.wakes, self.row_at = "quick", None, False
        self.params, self.cols, self.sql = [], [], []
        self.groups = {}
        self.seen = set()

    def flat(self):
        """The parameters as the server counts them: $1, $2, ..."""
        out = []
        for p in self.params:
            out += p.cols or [] if isinstance(p, Group) else [p]
        return out

    def oids(self):
        out = []
        for p in self.params:
            out += [TYPES[c.type][1] for c in p.cols] if isinstance(p, Group) else [p.oid]
        return out

    def param(self, text, line):
        m = re.fullmatch(r"([a-z][a-z0-9_]*)\[\]", text)
        if not m:
            return Field(text, self.path, line, True)
        self.groups[m.group(1)] = Group(m.group(1), self.path, line)
        return self.groups[m.group(1)]

    def fields(self, text, line, is_param):
        parts = [p.strip() for p in text.split(",")] if text.strip() else []
        out = [self.param(p, line) if is_param else Field(p, self.path, line, False)
               for p in parts]
        names = [f.name for f in out]
        for n in names:
            if names.count(n) > 1:
                bad(self.path, line, "'%s' appears twice" % n)
        return out

    def rows_in(self, text, line):
        m = re.fullmatch(r"([a-z][a-z0-9_]*)(?:\s+([a-z][a-z0-9_]*))?\s*\((.*)\)", text, re.S)
        if not m:
            bad(self.path, line, "'%s' is not `name (column type, ...)`" % text)
        group = self.groups.get(m.group(1))
        if group is None:
            bad(self.path, line, "rows_in %s: params has no `%s[]` before it" % (m.group(1), m.group(1)))
        if group.cols is not None:
            bad(self.path, line, "second rows_in for %s" % group.name)
        group.shared = m.group(2)
        group.cols = self.fields(m.group(3), line, False)
        for c in group.cols:
            if TYPES[c.type][1] is None:
                bad(self.path, line, "%s: no arrays of %s" % (c.name, c.type))
        if not group.cols:
            bad(self.path, line, "rows_in %s: no columns" % group.name)

    def header(self, key, text, line):
        if key in self.seen and key != "rows_in":
            bad(self.path, line, "second '%s:' in the header of %s" % (key, self.name))
        self.seen.add(key)
        if key == "name":
            if not re.fullmatch(r"[a-z][a-z0-9_]{0,61}", text):
                bad(self.path, line, "name '%s' must be lower case, digits and _" % text)
            self.name = text
        elif key == "params":
            self.params = self.fields(text, line, True)
        elif key == "rows_in":
            self.rows_in(text, line)
        elif key == "rows":
            m = re.fullmatch(r"(\S+)(?:\s+(.*))?", text, re.S)
            if not m or m.group(1) not in COUNTS:
                bad(self.path, line, "rows must begin with one of %s" % " ".join(COUNTS))
            self.count = m.group(1)
            if (m.group(2) or "").startswith("as "):
                self.like = m.group(2)[3:].strip()
                return
            self.cols = self.fields(m.group(2) or "", line, False)
            if (self.count == "none") != (not self.cols):
                bad(self.path, line, "`none` has no columns, the other counts need some")
        elif key == "row":
            if not re.fullmatch(r"[a-z][a-z0-9_]*", text):
                bad(self.path, line, "row '%s' must be a plain name" % text)
            self.row = text
        elif key == "writes":
            if text not in ("yes", "no"):
                bad(self.path, line, "writes must be yes or no")
            self.writes = text == "yes"
        elif key == "json":
            self.shape = text
        elif key == "row_at":
            if text != "yes":
                bad(self.path, line, "row_at must be yes")
            self.row_at = True
        elif key == "lane":
            if text not in ("long", "agent"):
                bad(self.path, line, "lane must be long or agent")
            self.lane = text
        elif key == "wakes":
            self.wakes = [] if text == "none" else text.split(", ")
            if not set(self.wakes) <= set(TOUCHES):
                bad(self.path, line, "wakes is none, or tables of gen_touch.py; else it follows from the tables")
        elif key in ("setup", "copy"):
            if not self.name.startswith("copy_merge_"):
                bad(self.path, line, "%s is for statements called copy_merge_*" % key)
            setattr(self, key, text.rstrip("; "))
        else:
            bad(self.path, line, "unknown header '%s'" % key)

    def copy_rows(self, others, line):
        if not others:
            bad(self.path, line, "%s: no statement '%s' before it in the file" % (self.name, self.like))
        other = others[0]
        self.row, self.cols, self.shape, self.like = other.row or other.name, other.cols, other.shape, None

    def finish(self):
        for need, got in (("rows", self.count), ("writes", self.writes)):
            if got is None:
                bad(self.path, self.line, "%s: header `-- %s:` is missing" % (self.name, need))
        if self.name.startswith("copy_merge_") and (self.params or not self.copy):
            bad(self.path, self.line, "%s: needs `-- copy:` and no params" % self.name)
        for g in self.groups.values():
            if g.cols is None:
                bad(self.path, g.line, "%s: `-- rows_in: %s (...)` is missing" % (self.name, g.name))
        if isinstance(self.shape, str):
            try:
                self.shape = gen_shape.steps_read(self.shape, self.cols)
            except gen_shape.Bad as e:
                bad(self.path, self.line, "%s: json: %s" % (self.name, e))
        if self.row and not self.cols:
            bad(self.path, self.line, "%s: `row` without columns" % self.name)
        text = "\n".join(self.sql).strip()
        plain = strip_quoted(text)
        if plain.rstrip().endswith(";"):
            plain = plain.rstrip()[:-1]
            text = text[:len(plain)].rstrip()
        if not plain.strip():
            bad(self.path, self.line, "%s: no SQL" % self.name)
        if ";" in plain:
            bad(self.path, self.line, "%s: more than one statement" % self.name)
        flat = self.flat()
        used = {int(n) for n in re.findall(r"\$(\d+)", plain)}
        for n in sorted(used):
            if n < 1 or n > len(flat):
                bad(self.path, self.line, "%s: $%d is not declared in params" % (self.name, n))
        for n, p in enumerate(flat, 1):
            if n not in used:
                bad(self.path, self.line, "%s: $%d (%s) is never used" % (self.name, n, p.name))
        self.touches = (touches(plain) if self.wakes is None else touches_of(self.wakes)) if self.writes else 0
        self.text = text.replace("pg_notify('spot_engine', '')",
                                 "pg_notify('spot_engine', 'w%x')" % self.touches)


def strip_quoted(text):
    """The SQL with comments, strings and quoted names blanked, to examine its punctuation."""
    rx = r"--[^\n]*|/\*.*?\*/|\$([a-z_]*)\$.*?\$\1\$|'(?:[^']|'')*'|\"[^\"]*\""
    return re.sub(rx, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def read_sql(path):
    with open(path, encoding="utf-8") as f:
        return read_text(path, f.read())


def read_text(path, text):
    stmts, cur, in_header, last = [], None, False, None

    def flush():
        nonlocal last
        if last:
            cur.header(last[0], " ".join(last[1].split()), last[2])
            if cur.like:
                cur.copy_rows([s for s in stmts if s.name == cur.like], last[2])
        last = None

    for no, line in enumerate(text.split("\n"), 1):
        m = re.match(r"-- ?([a-z_]+):\s*(.*)$", line)
        if m and m.group(1) == "name":
            if cur:
                flush()
                cur.finish()
                stmts.append(cur)
            cur, in_header = Stmt(path, no), True
            last = ("name", m.group(2), no)
            flush()
        elif cur is None:
            if line.strip() and not line.startswith("--"):
                bad(path, no, "SQL before the first `-- name:`")
        elif in_header and m:
            flush()
            last = (m.group(1), m.group(2), no)
        elif in_header and re.match(r"--\s\s+\S", line) and last:
            last = (last[0], last[1] + " " + line[2:].strip(), last[2])
        else:
            if in_header:
                flush()
            if in_header and not line.strip():
                continue
            in_header = False
            cur.sql.append(line.rstrip())
    if cur:
        flush()
        cur.finish()
        stmts.append(cur)
    return stmts


def sql_text(text):
    """Comment lines of the SQL are for readers, not for the server's log."""
    return "\n".join(l for l in text.split("\n") if l.strip() and not l.lstrip().startswith("--"))


def row_struct(s):
    return "q_%s_row" % (s.row or s.name)


def gen_h(stmts, rows, groups):
    o = ["/* Made by src/store/gen_sql.py from src/store/sql and migrations; do not edit. */",
         "#ifndef STORE_Q_H", "#define STORE_Q_H", "", '#include "core/life/life.h"',
         '#include "core/life/life.h"', '#include "core/policy/policy.h"', '#include "io/pg/pg.h"',
         '#include "spot/types.h"', '#include "store/store.h"', '#include "store/store.h"', "", "struct arena;",
         "extern const struct pg_stmt q_all[];", "extern const size_t q_all_n;",
         "extern const struct migration migrations_all[];", "extern const size_t migrations_all_n;",
         "", "/* Kinds of rows, for pg_stmt.touches and the payload 'w<hex>' of spot_engine. */", "enum {"]
    o += ["\tTOUCH_%s = 1 << %d," % (t, i) for i, t in enumerate(TOUCH_NAMES)]
    o += ["\tTOUCH_ALL = %#x" % TOUCH_ALL, "};"]
    for name, cols in rows:
        o.append("\nstruct %s {" % name)
        for c in cols:
            o += ["\t" + m for m in c.members()]
        o.append("};")
    for name, cols in groups:
        o.append("\nstruct %s {" % name)
        for c in cols:
            o += ["\t" + m for m in c.members()]
        o.append("};")
    for s in stmts:
        where = "%s:%d" % (os.path.basename(s.path), s.line)
        o.append("\n/* %s; rows %s; %s */" % (where, s.count, "writes" if s.writes else "reads"))
        o.append("extern const struct pg_stmt q_stmt_%s;" % s.name)
        if s.shape:
            o.append("extern const struct shape q_shape_%s;" % s.name)
        o.append("struct q_%s {" % s.name)
        if not s.params:
            o.append("\tint none; /* takes no parameters; the pointer may be NULL */")
        for p in s.params:
            o += ["\t" + m for m in (p.members(s.name) if isinstance(p, Group) else p.members())]
        o.append("};")
        o.append("void q_%s(struct pg *pg, struct pg_req *req, const struct q_%s *p," % (s.name, s.name))
        o.append("    void (*done)(struct op *));")
        if s.cols:
            rs = row_struct(s)
            o.append("size_t q_%s_rows(const struct pg_req *req, struct arena *a," % s.name)
            o.append("    struct %s **ret);" % rs)
            o.append("size_t q_%s_rows_of(const struct pg_result *r, struct arena *a," % s.name)
            o.append("    struct %s **ret);" % rs)
            if (s.shape or s.row_at) and s.count == "many":
                o.append("void q_%s_row_at(const struct pg_result *r, size_t i, struct arena *a," % s.name)
                o.append("    struct %s *row);" % rs)
    o += ["", "#endif", ""]
    return "\n".join(o)


def gen_group(g):
    o = []
    for c in g.cols:
        at = "p->%s, p->%s_n, %s" % (g.cname, g.name, c.cname)
        if c.type in ENUMS:
            o.append("\tbind_enum_column(&b, BIND_COLUMN(%s), name_%s);" % (at, c.type))
        elif c.null and c.type in BY_VALUE:
            o.append("\tbind_%s_column(&b, BIND_NULL_COLUMN(%s, has_%s));" % (
                BIND[c.type], at, c.name))
        else:
            o.append("\tbind_%s_column(&b, BIND_COLUMN(%s));" % (BIND[c.type], at))
    return "\n".join(o)


def gen_param(p):
    if isinstance(p, Group):
        return gen_group(p)
    f = "p->%s" % p.cname
    null = "true" if p.null else "false"
    if p.array and p.type in ENUMS:
        return "\tbind_enum_column(&b, BIND_ARRAY(%s, p->%s_n), name_%s);" % (f, p.name, p.type)
    if p.array:
        return "\tbind_%s_array(&b, %s, p->%s_n, %s);" % (BIND[p.type], f, p.name, null)
    if p.type in ENUMS:
        return "\tbind_text(&b, %s != 0 ? %s(%s) : NULL, %s);" % (f, ENUMS[p.type][1], f, null)
    if p.type in BY_VALUE:
        if p.null:
            return "\tif (p->has_%s)\n\t\tbind_%s(&b, %s);\n\telse\n\t\tbind_null(&b);" % (
                p.name, BIND[p.type], f)
        return "\tbind_%s(&b, %s);" % (BIND[p.type], f)
    return "\tbind_%s(&b, %s, %s);" % (BIND[p.type], f, null)


def gen_enums():
    o = []
    for name, (c_type, namer, parser) in ENUMS.items():
        o.append("\n__attribute__((unused)) static const char *name_%s(int v)\n{\n\treturn v != 0 ? %s((%s)v) : NULL;\n}" % (
            name, namer, c_type))
        if parser:
            o.append("\n__attribute__((unused)) static int parse_%s(const char *text)\n{\n\treturn (int)%s(text);\n}" % (
                name, parser))
    return "\n".join(o)


def gen_row_reader(name, cols):
    o = ["\nstatic void row_%s(const struct pg_result *r, size_t i, struct arena *a UNUSED," % name,
         "    struct %s *row, const char *stmt)" % name, "{"]
    for i, c in enumerate(cols):
        if c.type in ENUMS:
            o.append("\trow->%s = (%s)row_enum(r, i, %d, %s, parse_%s, stmt, \"%s\");" % (
                c.cname, ENUMS[c.type][0], i, "true" if c.null else "false", c.type, c.name))
        elif c.null and c.type in BY_VALUE:
            o.append("\trow->has_%s = !pg_null(r, i, %d);" % (c.name, i))
            o.append("\trow->%s = row->has_%s ? row_%s(r, i, %d, stmt, \"%s\") : 0;" % (
                c.cname, c.name, BIND[c.type], i, c.name))
        elif c.type in BY_VALUE:
            o.append("\trow->%s = row_%s(r, i, %d, stmt, \"%s\");" % (
                c.cname, BIND[c.type], i, c.name))
        else:
            o.append("\trow->%s = row_%s(r, i, %d, a, %s, stmt, \"%s\");" % (
                c.cname, BIND[c.type], i, "true" if c.null else "false", c.name))
    o += ["}", "",
          "static size_t read_%s(const struct pg_result *r, struct arena *a," % name,
          "    struct %s **ret, const char *stmt, size_t max)" % name, "{",
          "\tsize_t n = row_count(r, %d, stmt, max);" % len(cols),
          "\tstruct %s *rows = arena_array(a, n, sizeof(*rows));" % name, "",
          "\tfor (size_t i = 0; i < n; i++) {", "\t\trow_%s(r, i, a, &rows[i], stmt);" % name,
          "\t}", "\t*ret = rows;", "\treturn n;", "}"]
    return "\n".join(o)


def stmt_init(s):
    n = s.name
    more = "".join(", .%s = %s_%s" % (k, k, n) for k in ("setup", "copy") if getattr(s, k))
    if s.lane != "quick":
        more += ", .lane = PG_" + s.lane.upper()
    return ("{ .name = \"%s\", .sql = sql_%s, .params_n = %d, .param_types = %s,\n\t.writes = %s, .touches = %#x, "
            ".cols_n = %d, .col_types = %s, .col_names = %s%s }" % (
                n, n, len(s.flat()), "params_" + n if s.params else "NULL",
                "true" if s.writes else "false", s.touches, len(s.cols),
                "types_" + n if s.cols else "NULL", "names_" + n if s.cols else "NULL", more))


def gen_stmt(s):
    n = s.name
    o = ["\nstatic const char sql_%s[] =\n%s;" % (n, c_text(sql_text(s.text)))]
    for key in ("setup", "copy"):
        if getattr(s, key):
            o.append("static const char %s_%s[] =\n%s;" % (key, n, c_text(getattr(s, key))))
    if s.params:
        o.append("static const unsigned params_%s[] = { %s };" % (
            n, ", ".join(str(oid) for oid in s.oids())))
    if s.cols:
        o.append("static const unsigned types_%s[] = { %s };" % (
            n, ", ".join(str(c.oid) for c in s.cols)))
        o.append("static const char *const names_%s[] = { %s };" % (
            n, ", ".join('"%s"' % c.name for c in s.cols)))
    o.append("const struct pg_stmt q_stmt_%s = %s;" % (n, stmt_init(s)))
    if s.shape:
        o.append(gen_shape.c_text(n, s.shape))
    o += ["", "void q_%s(struct pg *pg, struct pg_req *req, const struct q_%s *p," % (n, n),
          "    void (*done)(struct op *))", "{"]
    if s.params:
        o += ["\tstruct bind b;", "", "\tbind_init(&b, \"%s\");" % n]
        o += [gen_param(p) for p in s.params]
        o += ["\tpg_exec(pg, req, &q_stmt_%s, b.params, done);" % n, "\tbind_fini(&b);"]
    else:
        o += ["\t(void)p;", "\tpg_exec(pg, req, &q_stmt_%s, NULL, done);" % n]
    o.append("}")
    if s.cols:
        rs = row_struct(s)
        most = "SIZE_MAX" if s.count == "many" else "1"
        o += ["", "size_t q_%s_rows_of(const struct pg_result *r, struct arena *a," % n,
              "    struct %s **ret)" % rs, "{",
              "\treturn read_%s(r, a, ret, \"%s\", %s);" % (rs, n, most), "}",
              "", "size_t q_%s_rows(const struct pg_req *req, struct arena *a," % n,
              "    struct %s **ret)" % rs, "{",
              "\treturn q_%s_rows_of(req->result, a, ret);" % n, "}"]
        if (s.shape or s.row_at) and s.count == "many":
            o += ["", "void q_%s_row_at(const struct pg_result *r, size_t i, struct arena *a," % n,
                  "    struct %s *row)" % rs, "{", "\trow_%s(r, i, a, row, \"%s\");" % (rs, n), "}"]
    return "\n".join(o)


def gen_c(stmts, rows, migrations):
    o = ["/* Made by src/store/gen_sql.py from src/store/sql and migrations; do not edit. */",
         '#include "base/base.h"', '#include "base/base.h"', '#include "store/bind.h"',
         '#include "store/q.h"']
    o.append(gen_enums())
    o += [gen_row_reader(n, c) for n, c in rows]
    o += [gen_stmt(s) for s in stmts]
    o.append("\nconst struct pg_stmt q_all[] = {")
    o += ["\t%s," % stmt_init(s) for s in stmts]
    o.append("\t{ .name = NULL },\n};\nconst size_t q_all_n = %d;" % len(stmts))
    o.append(gen_migrations(migrations))
    return "\n".join(o) + "\n"


def row_types(stmts):
    return distinct([(row_struct(s), s.cols, s) for s in stmts if s.cols])


def group_types(stmts):
    return distinct([(g.struct(s.name), g.cols, s) for s in stmts for g in s.groups.values()])


def distinct(structs):
    """Distinct structs in order of appearance. A shared one must be the same everywhere."""
    seen, order = {}, []
    for name, cols, s in structs:
        key = [c.key() for c in cols]
        if name in seen:
            if seen[name][0] != key:
                bad(s.path, s.line, "%s: its columns differ from those at %s:%d that share struct %s"
                    % (s.name, seen[name][1].path, seen[name][1].line, name))
            continue
        seen[name] = (key, s)
        order.append((name, cols))
    return order


def write_if_changed(path, text):
    try:
        with open(path, encoding="utf-8") as f:
            if f.read() == text:
                return
    except FileNotFoundError:
        pass
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def main(argv):
    sql_dir, migrations_dir, out_h, out_c = argv[1:5]
    try:
        stmts = []
        for path in sorted(glob.glob(os.path.join(sql_dir, "**", "*.sql"), recursive=True)):
            stmts += read_sql(path)
        # The doctor's rules are statements, too.
        for rule in gen_rules.folder_read(argv[5]) if len(argv) > 5 else []:
            stmts += read_text(os.path.join(argv[5], rule.path), gen_rules.statement_text(rule))
        names = {}
        for s in stmts:
            if s.name in names:
                o = names[s.name]
                bad(s.path, s.line, "%s is already defined at %s:%d" % (s.name, o.path, o.line))
            names[s.name] = s
        rows, groups = row_types(stmts), group_types(stmts)
        migrations = read_migrations(migrations_dir)
    except (Bad, gen_rules.Bad) as e:
        print("error: %s" % e, file=sys.stderr)
        return 1
    write_if_changed(out_h, gen_h(stmts, rows, groups))
    write_if_changed(out_c, gen_c(stmts, rows, migrations))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
