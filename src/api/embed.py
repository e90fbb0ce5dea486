#!/usr/bin/env python3
"""Puts a JSON file into a C string: embed.py FILE NAME OUT. Checks that it parses."""
import json
import sys

path, name, out = sys.argv[1:]
with open(path, encoding="utf-8") as f:
    text = json.dumps(json.load(f), separators=(",", ":"))
with open(out, "w", encoding="utf-8") as f:
    f.write("/* Made by src/api/embed.py from %s; do not edit. */\n" % path.rsplit("/", 1)[-1])
    f.write("extern const char %s[];\nconst char %s[] =\n" % (name, name))
    # C11 promises 4095 characters per literal after joining; gcc and clang take any length.
    for i in range(0, len(text), 80):
        f.write('\t"%s"\n' % text[i:i + 80].replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?"))
    f.write(";\n")
