#!/usr/bin/env python3
"""template.py TOOL OUTPUT: runs TOOL in a folder that the database's user may enter, and moves its template to OUTPUT.

A build machine without a Postgres server, or one where it does not run, gets an empty file. spotd then runs initdb.
"""
import os
import shutil
import subprocess
import sys
import tempfile

tool, output = sys.argv[1:]
with tempfile.TemporaryDirectory(prefix="spotbroker-template-") as folder:
    os.chmod(folder, 0o755)
    place = os.path.join(folder, "cluster")
    result = subprocess.run([tool, place], capture_output=True, text=True)
    if result.returncode == 0:
        shutil.copyfile(os.path.join(place, "template.tar.gz"), output)
    else:
        print(f"no template for the first start: {result.stderr.strip()}", file=sys.stderr)
        open(output, "wb").close()
os.chmod(output, 0o644)
