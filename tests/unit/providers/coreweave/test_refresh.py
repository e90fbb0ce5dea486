#!/usr/bin/env python3
"""refresh-prices reads a page with the traps that a public transcript of the real one fell into, and refuses
implausible rows."""
import csv
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))
PROGRAM = os.path.join(ROOT, "providers/coreweave/refresh-prices")
ROWS = [("NVIDIA GB200 NVL72<sup>1</sup>", "4", "$42.00", ""), ("NVIDIA HGX B300", "8", "Contact sales", "$35.84"),
        ("NVIDIA HGX B200", "8", "$68.80", "$34.11"), ("NVIDIA HGX H200", "8", "$50.44", "$20.93"),
        ("NVIDIA HGX H100", "8", "$49.24", "$21.00"), ("NVIDIA A100", "8", "$21.60", "$9.65"),
        ("NVIDIA RTX PRO 6000 Blackwell", "8", "$20.00", "$11.09"), ("NVIDIA L40S", "8", "$18.00", "$7.88"),
        ("NVIDIA L40", "8", "$10.00", "$6.27"), ("NVIDIA GH200", "1", "$6.50", "&mdash;")]


def table(rows):
    return "<table>%s</table>" % "".join("<tr>%s</tr>" % "".join("<td><div>%s</div></td>" % c for c in r) for r in rows)


def page(north=ROWS, europe=()):
    return "<script>var x = '$1.00'</script><h3>North America</h3>%s<h3>Europe</h3>%s<h2>Storage</h2>%s" % (
        table(north), table(europe), table([("Object storage, hot", "$0.06"), ("Storage for H100 clusters, 30072", "")]))


class Refresh(unittest.TestCase):
    def run_on(self, text):
        with tempfile.TemporaryDirectory() as d:
            path, out = os.path.join(d, "page.html"), os.path.join(d, "prices.csv")
            with open(path, "w") as f:
                f.write(text)
            done = subprocess.run([sys.executable, PROGRAM, "--page", path, "--out", out, "--date", "2026-12-01"],
                                  capture_output=True, text=True)
            rows = []
            if os.path.exists(out):
                with open(out) as f:
                    rows = list(csv.DictReader(f))
            return done, rows

    def test_prices_are_taken_over_with_their_date(self):
        done, rows = self.run_on(page(europe=[("NVIDIA HGX H200", "8", "$50.44", "$19.99")]))
        self.assertEqual(done.returncode, 0, done.stderr)
        got = {(r["zone"], r["instance_type"]): r for r in rows}
        self.assertEqual(got["US-EAST-04A", "gd-8xh100ib-i128"]["spot_usd_hour"], "21.00")
        self.assertEqual(got["EU-SOUTH-03B", "gd-8xh200ib-i128"]["spot_usd_hour"], "19.99")
        self.assertEqual(got["US-EAST-01A", "gd-8xh200ib-i128"]["spot_usd_hour"], "20.93")
        self.assertEqual(got["US-EAST-01A", "gb200-4x"]["on_demand_usd_hour"], "42.00")
        self.assertEqual(got["US-EAST-13A", "b300-8x"]["on_demand_usd_hour"], "")
        self.assertEqual({r["as_of"] for r in rows}, {"2026-12-01"})
        self.assertIn("gd-8xh100ib-i128 spot_usd_hour: 19.71 -> 21.00", done.stdout)

    def refused(self, text, word):
        done, rows = self.run_on(text)
        self.assertEqual((done.returncode, rows), (1, []))
        self.assertIn(word, done.stderr)

    def test_a_page_of_another_form_changes_nothing(self):
        self.refused("<html>please enable JavaScript</html>", "another form")

    def test_a_type_that_is_missing_changes_nothing(self):
        self.refused(page(ROWS[:-1]), "gd-1xgh200 is not on the page")

    def test_a_wild_price_changes_nothing(self):
        self.refused(page([("NVIDIA HGX H100", "8", "$4,924.00", "$19.71")] + [r for r in ROWS if "H100" not in r[0]]), "look at the page")


if __name__ == "__main__":
    unittest.main()
