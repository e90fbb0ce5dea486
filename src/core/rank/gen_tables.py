#!/usr/bin/env python3
"""Turns the reference CSVs into one C source: gen_tables.py GPU_PERF EGRESS EGRESS_PAIRS OUT."""
import csv
import sys
from decimal import Decimal


def rows(path):
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def micros(usd):
    return int((Decimal(usd) * 1000000).to_integral_value())


def quote(s):
    return '"' + s.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main():
    perf, egress, pairs, out = sys.argv[1:5]
    with open(out, "w", encoding="utf-8") as f:
        f.write('#include "base/base.h"\n#include "core/rank/tables.h"\n\n')
        f.write("const struct gpu_perf gpu_perf_table[] = {\n")
        for r in rows(perf):
            f.write("\t{%s, %s, %s, %s},\n" % (
                quote(r["gpu_name"]), r["fp16_bf16_dense_tflops"] or "0",
                r["memory_gib"] or "0", r["mem_bandwidth_gb_s"] or "0"))
        f.write("};\nconst size_t gpu_perf_table_n = ARRAY_LEN(gpu_perf_table);\n\n")
        f.write("const struct egress_rate egress_rates[] = {\n")
        for r in sorted(rows(egress), key=lambda r: (r["provider"], r["from"], r["to"])):
            if r["usd_per_gb"] != "":
                f.write("\t{%s, %s, %s, %d},\n" % (
                    quote(r["provider"]), quote(r["from"]), quote(r["to"]), micros(r["usd_per_gb"])))
        f.write("};\nconst size_t egress_rates_n = ARRAY_LEN(egress_rates);\n\n")
        f.write("const struct egress_pair egress_pairs[] = {\n")
        key = lambda r: (r["from_provider"], r["from_region"], r["to_provider"], r["to_region"])
        for r in sorted(rows(pairs), key=key):
            f.write("\t{%s, %d},\n" % (", ".join(quote(x) for x in key(r)), micros(r["usd_per_gb"])))
        f.write("};\nconst size_t egress_pairs_n = ARRAY_LEN(egress_pairs);\n")


main()
