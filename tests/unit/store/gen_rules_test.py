#!/usr/bin/env python3
"""The generator of rules: a rule becomes one statement. Bad rules fail with file and line."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(sys.argv.pop(1)))
import gen_rules  # noqa: E402

GOOD = """-- Words about the file.

-- rule: a job is here
-- name: here
-- fix: do this
--	and that
-- Why it holds.
SELECT j.id, 'j:' || j.id AS words, j.at::int8 < :now AND j.b > :skew + :now AS bad FROM job j -- :not
"""


class RulesTest(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "x.sql"), "w", encoding="utf-8") as f:
                f.write(text)
            return gen_rules.folder_read(folder)

    def test_a_rule_is_one_statement(self):
        rule, = self.read(GOOD)
        self.assertEqual(rule.head, {"rule": "a job is here", "name": "here", "fix": "do this and that"})
        sql = rule.statement()
        self.assertEqual(rule.params, ["now", "skew"])
        self.assertIn("'j:' || j.id AS words, j.at::int8 < $1::int8 AND j.b > $2::int8 + $1::int8 AS bad", sql)
        self.assertIn("-- :not", sql)
        self.assertIn("count(*) FILTER (WHERE bad)", sql)
        self.assertIn("-- params: now int8, skew int8", gen_rules.statement_text(rule))

    def test_a_query_without_bad_returns_only_what_breaks_it(self):
        rule, = self.read("-- rule: r\nSELECT id, 'x' AS words FROM job\n")
        self.assertIn("true AS bad", rule.statement())

    def test_a_rule_with_soon_keeps_its_rows(self):
        rule, = self.read("-- rule: r\n-- soon: yes\nSELECT id, state AS words FROM job\n")
        self.assertEqual(rule.statement(), "SELECT id, state AS words FROM job")

    def test_the_table_has_the_rule_of_a_case(self):
        text = gen_rules.table(self.read("-- rule: r / when \"x\"\nSELECT id, words FROM job\n"), "some", "a/b")
        self.assertIn('.key = "r / when \\"x\\"", .rule = "r"', text)
        self.assertIn("const struct rule some[]", text)

    def test_an_error_names_its_line(self):
        for text, words in (("SELECT 1\n", "x.sql:1: SQL before"), ("-- rule: r\nSELECT id FROM job\n", "x.sql:1: its query has no column 'words'"),
                            ("-- rule: r\n-- rule: q\nSELECT id, words\n", "x.sql:1: a rule has one query"),
                            ("-- rule: r\n-- name: n\nSELECT id, words\n", "both 'name' and 'fix'"),
                            ("-- rule: r\nSELECT id, words; SELECT 2\n", "one query"),
                            ("-- rule: r\nSELECT id, words\n-- rule: r\nSELECT id, words\n", "'r' is given twice")):
            with self.assertRaises(gen_rules.Bad) as e:
                self.read(text)
            self.assertIn(words, str(e.exception))


if __name__ == "__main__":
    unittest.main()
