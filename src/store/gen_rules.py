#!/usr/bin/env python3
"""Reads the rules about rows, and writes them as a C table of struct rule (store/store.h).

A rule is a query that returns the rows that break it: an id to sort by, and words for people. If it
also returns rows that keep the rule, it has a boolean "bad". The doctor (spotctl doctor
--consistency), the simulation and the chaos tests ask the same rules.

    -- rule: a gang begins whole
    -- name: gangs                 the doctor's name for it
    -- fix: what to do about it    the doctor's advice
    -- soon: yes                   may be broken for a few passes of the engine
    -- chaos: yes                  the chaos tests ask it at the end of each story
    SELECT j.id AS id, 'j' || j.id AS words FROM job j WHERE j.state_us < :now

":now" is a parameter, an int8 from the caller. A second query of one rule is called "RULE / CASE".

    gen_rules.py FOLDER ARRAY OUT.c
"""
import glob
import os
import re
import sys
from dataclasses import dataclass, field

KEYS = ("rule", "name", "fix", "soon", "chaos")
WRAPPED = """WITH b AS (
%s
)
SELECT count(*), count(*) FILTER (WHERE bad), coalesce((SELECT string_agg(words, '; ' ORDER BY id)
	FROM (SELECT * FROM b WHERE bad ORDER BY id LIMIT 5) x), '') FROM b"""


class Bad(Exception):
    pass


@dataclass
class Rule:
    path: str
    line: int
    head: dict = field(default_factory=dict)
    query: str = ""
    params: list = field(default_factory=list)

    def statement(self):
        """Returns the statement that counts the rows, counts those that break the rule, and has the words of up to five."""
        plain = re.sub(r"'(?:[^']|'')*'|--[^\n]*", lambda m: " " * len(m.group()), self.query)
        out, last = [], 0
        for m in re.finditer(r"(?<!:):([a-z_]+)\b", plain):
            if m.group(1) not in self.params:
                self.params.append(m.group(1))
            out += [self.query[last:m.start()], "$%d::int8" % (self.params.index(m.group(1)) + 1)]
            last = m.end()
        text = "".join(out) + self.query[last:]
        if "soon" in self.head:
            return text
        if not re.search(r"\bbad\b", plain):
            text = "SELECT q.*, true AS bad FROM (\n%s\n) q" % text
        return WRAPPED % text

    def stmt_name(self):
        return "consistency_" + self.head["name"].replace(" ", "_")

    def finish(self):
        self.query = self.query.strip()
        if not self.query or ";" in re.sub(r"'(?:[^']|'')*'", "", self.query):
            raise Bad("%s:%d: a rule has one query, without ';'" % (self.path, self.line))
        for column in ("id", "words"):
            if not re.search(r"\b%s\b" % column, self.query):
                raise Bad("%s:%d: its query has no column '%s'" % (self.path, self.line, column))
        if ("name" in self.head) != ("fix" in self.head):
            raise Bad("%s:%d: a rule of the doctor has both 'name' and 'fix'" % (self.path, self.line))


def rules_read(path):
    """Returns the rules of one file, in order."""
    out, last = [], None
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    for no, line in enumerate(lines, 1):
        m = re.match(r"-- (\w+): (.+)$", line)
        if m and m.group(1) in KEYS:
            if m.group(1) == "rule":
                out.append(Rule(os.path.basename(path), no))
            if not out or m.group(1) in out[-1].head or out[-1].query:
                raise Bad("%s:%d: '%s' does not belong here" % (path, no, m.group(1)))
            last = m.group(1)
            out[-1].head[last] = m.group(2)
        elif re.match(r"--\t", line) and last:
            out[-1].head[last] += " " + line[2:].strip()
        else:
            last = None
            if line.startswith("--"):
                continue
            if line.strip() and not out:
                raise Bad("%s:%d: SQL before the first rule" % (path, no))
            if out and (line.strip() or out[-1].query):
                out[-1].query += line + "\n"
    for r in out:
        r.finish()
    return out


def folder_read(folder):
    """Returns the rules of all files of a folder."""
    out = [r for path in sorted(glob.glob(os.path.join(folder, "*.sql"))) for r in rules_read(path)]
    seen = {}
    for r in out:
        for key in ("rule", "name"):
            text = r.head.get(key)
            if text and seen.setdefault((key, text), r) is not r:
                raise Bad("%s:%d: '%s' is given twice" % (r.path, r.line, text))
    return out


def statement_text(rule):
    """Returns a rule of the doctor as a statement for gen_sql.py."""
    sql = rule.statement()
    head = ["-- name: " + rule.stmt_name()]
    if rule.params:
        head.append("-- params: " + ", ".join("%s int8" % p for p in rule.params))
    return "\n".join(head + ["-- rows: 1 checked int8, broken int8, words text", "-- row: consistency", "-- writes: no", sql])


def c_string(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("?", "\\?")


def c_lines(text):
    return "\n".join("\t" + c_string(line)[:-1] + '\\n"' for line in text.split("\n"))


def table(rules, array, folder):
    """Returns the C source of the table. A rule of the doctor is a statement of store/q.h, too."""
    o = ["/* Made by src/store/gen_rules.py from %s; do not edit. */" % folder, '#include "base/base.h"', '#include "store/q.h"',
         '#include "store/store.h"', ""]
    entries = []
    for i, r in enumerate(rules):
        sql = r.statement()
        if "name" in r.head:
            stmt = "&q_stmt_" + r.stmt_name()
        else:
            stmt = "&stmt_%d" % i
            o += ["static const char sql_%d[] =" % i, c_lines(sql) + ";",
                  'static const struct pg_stmt stmt_%d = { .name = "rule_%d", .sql = sql_%d, .params_n = %d, .cols_n = 3 };' % (i, i, i, len(r.params))]
        name, _, case = r.head["rule"].partition(" / ")
        entries.append("\t{ .key = %s, .rule = %s, .stmt = %s,\n\t    .name = %s, .fix = %s, .params = { %s } }," % (
            c_string(r.head["rule"]), c_string(name), stmt, c_string(r.head["name"]) if "name" in r.head else "NULL",
            c_string(r.head["fix"]) if "fix" in r.head else "NULL", ", ".join([c_string(p) for p in r.params] + ["NULL"])))
    o += ["", "const struct rule %s[] = {" % array, *entries, "\t{ .key = NULL },", "};", ""]
    return "\n".join(o)


def main(argv):
    folder, array, out = argv[1:]
    try:
        text = table(folder_read(folder), array, os.path.basename(os.path.dirname(folder)) + "/" + os.path.basename(folder))
    except Bad as e:
        print("error: %s" % e, file=sys.stderr)
        return 1
    if not os.path.exists(out) or open(out, encoding="utf-8").read() != text:
        with open(out, "w", encoding="utf-8") as f:
            f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
