#!/usr/bin/env python3
"""The SQL binding generator: bad headers fail with file and line. Good ones give the promised C."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

GEN = sys.argv.pop(1)
GOOD = """-- A file's own comment.
-- name: job_move
-- params: id int8, was text, class text?, refs text[],
--         due int8?
-- rows: 0..1 epoch int8, why text?, at int8?
-- writes: yes
-- What it is for.
UPDATE job SET x = '; -- $9' /* ; */ WHERE a = $1 AND b = $2 AND c = $3 AND d = ANY($4) AND e = $5
RETURNING 1, 'tab\there "q" \\ ??=', 2; -- the end; really
"""


class GenTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        for d in ("sql", "migrations"):
            os.mkdir(self.path(d))
        self.addCleanup(self.dir.cleanup)

    def path(self, *names):
        return os.path.join(self.dir.name, *names)

    def put(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def run_gen(self):
        return subprocess.run([sys.executable, GEN, self.path("sql"), self.path("migrations"),
                               self.path("q.h"), self.path("q.c")], capture_output=True, text=True)

    def out(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def good(self, sql=GOOD):
        self.put("sql/a.sql", sql)
        r = self.run_gen()
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        return self.out("q.h"), self.out("q.c")

    def bad(self, sql, *words):
        self.put("sql/a.sql", sql)
        r = self.run_gen()
        self.assertEqual(r.returncode, 1)
        for w in words:
            self.assertIn(w, r.stderr)
        self.assertFalse(os.path.exists(self.path("q.h")))

    def test_parameters_and_columns_become_struct_members(self):
        h, c = self.good()
        self.assertIn("struct q_job_move {\n\tint64_t id;\n\tconst char *was;\n\tconst char *class;\n"
                      "\tconst char *const *refs;\n\tsize_t refs_n;\n\tbool has_due;\n\tint64_t due;\n};", h)
        self.assertIn("struct q_job_move_row {\n\tint64_t epoch;\n\tconst char *why;\n\tbool has_at;\n"
                      "\tint64_t at;\n};", h)
        self.assertIn("size_t q_job_move_rows(", h)
        self.assertIn("params_job_move[] = { 20, 25, 25, 1009, 20 };", c)
        self.assertIn('bind_text(&b, p->class, true);', c)

    def test_sql_is_embedded_as_it_is_and_ends_before_its_semicolon(self):
        _, c = self.good()
        self.assertIn("x = '; -- $9' /* ; */", c)
        self.assertIn("\\\"q\\\" \\\\ \\?\\?=', 2\\n\";", c)
        self.assertNotIn("really", c)

    def test_unchanged_output_is_not_written_again(self):
        self.good()
        before = os.stat(self.path("q.h")).st_mtime_ns
        self.assertEqual(self.run_gen().returncode, 0)
        self.assertEqual(os.stat(self.path("q.h")).st_mtime_ns, before)

    def test_keywords_of_c_get_an_underscore(self):
        h, _ = self.good("-- name: x\n-- params: default int8\n-- rows: 1 case text\n-- writes: no\nSELECT $1")
        self.assertIn("int64_t default_;", h)
        self.assertIn("const char *case_;", h)

    def test_an_enum_is_text_in_sql_and_an_enum_in_c(self):
        h, c = self.good("-- name: x\n-- params: was job_state, ev job_event?, in node_state[]\n"
                         "-- rows: 1 state node_state, market market?\n-- writes: no\nSELECT $1, $2, $3")
        self.assertIn("struct q_x {\n\tenum job_state was;\n\tenum job_event ev;\n"
                      "\tconst enum node_state *in;\n\tsize_t in_n;\n};", h)
        self.assertIn("struct q_x_row {\n\tenum node_state state;\n\tenum spot_market market;\n};", h)
        self.assertIn("params_x[] = { 25, 25, 1009 };", c)
        self.assertIn("types_x[] = { 25, 25 };", c)
        self.assertIn("bind_text(&b, p->was != 0 ? job_state_name(p->was) : NULL, false);", c)
        self.assertIn("(enum spot_market)row_enum(r, i, 1, true, parse_market, stmt", c)

    def test_an_array_of_structs_is_one_array_a_column(self):
        h, c = self.good("-- name: x\n-- params: a int8, pool[], b int8\n"
                         "-- rows_in: pool (region text, n int4?, m market)\n-- rows: none\n-- writes: yes\n"
                         "SELECT $1, $2, $3, $4, $5")
        self.assertIn("struct q_x_pool {\n\tconst char *region;\n\tbool has_n;\n\tint32_t n;\n"
                      "\tenum spot_market m;\n};", h)
        self.assertIn("\tint64_t a;\n\tconst struct q_x_pool *pool;\n\tsize_t pool_n;\n\tint64_t b;\n", h)
        self.assertIn("params_x[] = { 20, 1009, 1007, 1009, 20 };", c)
        self.assertIn(".params_n = 5,", c)
        self.assertIn("bind_i32_column(&b, BIND_NULL_COLUMN(p->pool, p->pool_n, n, has_n));", c)

    def test_bad_groups_and_enums_are_refused(self):
        end = "-- rows: none\n-- writes: no\nSELECT $1"
        self.bad("-- name: x\n-- params: pool[]\n" + end, "a.sql:2", "rows_in: pool (...)` is missing")
        self.bad("-- name: x\n-- rows_in: pool (a int8)\n" + end, "a.sql:2", "params has no `pool[]`")
        self.bad("-- name: x\n-- params: pool[]\n-- rows_in: pool a int8\n" + end, "a.sql:3", "is not `name (column type")
        self.bad("-- name: x\n-- params: pool[]\n-- rows_in: pool (a bytea)\n" + end, "a.sql:3", "no arrays of bytea")
        self.bad("-- name: x\n-- params: pool[]\n-- rows_in: pool (a int8, b int8)\n" + end, "$2 (b) is never used")
        self.bad("-- name: x\n-- rows: 1 e job_event\n-- writes: no\nSELECT 1", "a.sql:2", "for parameters only")

    def test_statements_may_share_a_row_struct(self):
        one = "-- name: %s\n-- rows: many a int8, b text\n-- row: ab\n-- writes: no\nSELECT 1\n"
        h, _ = self.good(one % "x" + one % "y")
        self.assertEqual(h.count("struct q_ab_row {"), 1)

    def test_statements_may_share_a_struct_of_input_rows(self):
        one = "-- name: %s\n-- params: a[]\n-- rows_in: a ab (n %s)\n-- rows: none\n-- writes: no\nSELECT $1\n"
        h, _ = self.good(one % ("x", "int8") + one % ("y", "int8"))
        self.assertEqual(h.count("struct q_ab {"), 1)
        self.assertEqual(h.count("\tconst struct q_ab *a;"), 2)
        os.remove(self.path("q.h"))
        self.bad(one % ("x", "int8") + one % ("y", "text"), "a.sql:7", "differ", "struct q_ab")

    def test_shared_rows_that_differ_are_refused(self):
        self.bad("-- name: x\n-- rows: 1 a int8\n-- row: ab\n-- writes: no\nSELECT 1\n"
                 "-- name: y\n-- rows: 1 a text\n-- row: ab\n-- writes: no\nSELECT 1\n", "a.sql:6", "differ")

    def test_a_statement_is_quick_unless_its_header_names_another_lane(self):
        one = "-- name: %s\n-- rows: none\n-- writes: no\n%sSELECT 1\n"
        _, c = self.good(one % ("x", "") + one % ("y", "-- lane: long\n") + one % ("z", "-- lane: agent\n"))
        self.assertEqual([line.count(".lane") for line in c.split("\n") if ".cols_n" in line][:3], [0, 1, 1])
        self.assertLess(c.index(".lane = PG_LONG"), c.index(".lane = PG_AGENT"))

    def test_bad_headers_are_refused_with_file_and_line(self):
        ok = "-- name: x\n-- rows: none\n-- writes: no\n"
        for sql, words in (
                ("-- name: X\n-- rows: none\n-- writes: no\nSELECT 1", ["a.sql:1", "lower case"]),
                ("-- name: x\n-- writes: no\nSELECT 1", ["a.sql:1", "rows"]),
                ("-- name: x\n-- rows: none\nSELECT 1", ["a.sql:1", "writes"]),
                ("-- name: x\n-- rows: 2 a int8\n-- writes: no\nSELECT 1", ["a.sql:2", "0..1"]),
                ("-- name: x\n-- rows: none a int8\n-- writes: no\nSELECT 1", ["a.sql:2", "none"]),
                ("-- name: x\n-- rows: many\n-- writes: no\nSELECT 1", ["a.sql:2"]),
                ("-- name: x\n-- rows: none\n-- writes: maybe\nSELECT 1", ["a.sql:3", "yes or no"]),
                (ok + "-- lane: fast\nSELECT 1", ["a.sql:4", "long or agent"]),
                ("-- name: x\n-- parms: a int8\n-- rows: none\n-- writes: no\nSELECT 1", ["a.sql:2", "parms"]),
                ("-- name: x\n-- params: a int9\n-- rows: none\n-- writes: no\nSELECT $1", ["a.sql:2", "int9"]),
                ("-- name: x\n-- params: a int8, a text\n-- rows: none\n-- writes: no\nSELECT $1, $2",
                 ["a.sql:2", "twice"]),
                ("-- name: x\n-- rows: 1 a int8[]\n-- writes: no\nSELECT 1", ["a.sql:2", "parameters only"]),
                ("-- name: x\n-- rows: none\n-- rows: none\n-- writes: no\nSELECT 1", ["a.sql:3", "second"]),
                (ok + "SELECT $1", ["a.sql:1", "$1 is not declared"]),
                ("-- name: x\n-- params: a int8\n-- rows: none\n-- writes: no\nSELECT '$1'",
                 ["a.sql:1", "never used"]),
                (ok + "SELECT 1; SELECT 2;", ["a.sql:1", "more than one"]),
                (ok + "\n", ["a.sql:1", "no SQL"]),
                (ok + "SELECT 1\n" + ok + "SELECT 1", ["a.sql:5", "already defined", "a.sql:1"]),
                ("SELECT 1", ["a.sql:1", "before the first"]),
                ("-- name: copy_merge_x\n-- rows: none\n-- writes: yes\nSELECT 1", ["a.sql:1", "copy:"]),
                ("-- name: x\n-- copy: COPY t FROM STDIN\n-- rows: none\n-- writes: yes\nSELECT 1", ["a.sql:2"])):
            with self.subTest(sql=sql):
                self.bad(sql, *words)

    def test_the_shape_of_a_row_becomes_steps(self):
        h, c = self.good("-- name: x\n-- rows: many id int8, at int8?, p_id int4?, p_name text?, n int8, t text\n"
                         "-- json: id#j, seen@age, pool{id#p, name}, price$, -\n-- writes: no\nSELECT 1\n"
                         "-- name: y\n-- rows: 0..1 as x\n-- writes: no\nSELECT 2\n")
        self.assertIn("extern const struct shape q_shape_x;", h)
        self.assertIn("extern const struct shape q_shape_y;", h)
        steps = re.findall(r"\{ \.kind = (.+) \},", c.split("steps_x[] = {")[1].split("};")[0])
        self.assertEqual(steps, [
            r"""SHAPE_ID, .col = 0, .key = { "\"id\":", 5 }, .letter = 'j'""",
            r"""SHAPE_AGE, .col = 1, .key = { "\"seen_at\":", 10 }, .second = { "\"age_s\":", 8 }""",
            r"""SHAPE_OPEN, .col = 2, .key = { "\"pool\":", 7 }, .skip = 3""",
            r"""SHAPE_ID, .col = 2, .key = { "\"id\":", 5 }, .letter = 'p'""",
            r"""SHAPE_TEXT, .col = 3, .key = { "\"name\":", 7 }""",
            "SHAPE_CLOSE, .col = 0",
            r"""SHAPE_MONEY, .col = 4, .key = { "\"price_micros\":", 15 }, .second = { "\"price_usd\":", 12 }"""])
        for shape, word in (("id", "items"), ("id#j, seen@, pool, x, n$, t$", "needs an integer"), ("id, a, b, c, d, e, f", "no column"),
                            ("id#j, Bad", "no item"), ("id{", "no item")):
            self.bad_again("-- name: x\n-- rows: many id int8, at int8?, p_id int4?, p_name text?, n int8, t text\n-- json: %s\n"
                           "-- writes: no\nSELECT 1\n" % shape, word)
        self.bad_again("-- name: y\n-- rows: many as x\n-- writes: no\nSELECT 2\n", "no statement 'x'")

    def bad_again(self, sql, word):
        self.put("sql/a.sql", sql)
        r = self.run_gen()
        self.assertEqual((r.returncode, word in r.stderr), (1, True), r.stderr)

    def test_migrations_need_a_name_and_no_holes(self):
        self.put("sql/a.sql", "")
        self.put("migrations/0001_base.sql", "CREATE TABLE a ();\n")
        self.put("migrations/0003_more.sql", "SELECT 1;\n")
        self.assertIn("0002 is missing", self.run_gen().stderr)
        os.rename(self.path("migrations/0003_more.sql"), self.path("migrations/2_more.sql"))
        self.assertIn("NNNN_words.sql", self.run_gen().stderr)
        os.rename(self.path("migrations/2_more.sql"), self.path("migrations/0002_more.sql"))
        self.assertEqual(self.run_gen().returncode, 0)
        self.assertIn("const size_t migrations_all_n = 2;", self.out("q.c"))


if __name__ == "__main__":
    unittest.main()
