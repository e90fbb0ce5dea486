#!/usr/bin/env python3
"""Puts a text file into a C string: embed.py FILE NAME OUT. A JSON file is checked and made compact."""
import json
import sys

path, name, out = sys.argv[1:]
with open(path, encoding="utf-8") as f:
    text = f.read()
if path.endswith(".json"):
    text = json.dumps(json.loads(text), separators=(",", ":"))
with open(out, "w", encoding="utf-8") as f:
    f.write("/* Made by src/embed.py from %s; do not edit. */\n" % path.rsplit("/", 1)[-1])
    f.write("extern const char %s[];\nconst char %s[] =\n" % (name, name))
    # C11 promises 4095 characters per literal after joining; gcc and clang take any length.
    for i in range(0, len(text), 80):
        part = text[i:i + 80].replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")
        f.write('\t"%s"\n' % part.replace("\n", "\\n").replace("\t", "\\t"))
    f.write(";\n")
