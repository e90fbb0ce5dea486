"""The API alone, with a database of its own: the program apid."""
import json
import subprocess
import sys


def start(program, args=()):
    """The process, and its first line: a dict with port, dsn and token. It ends when its input is closed."""
    proc = subprocess.Popen([program] + list(args), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    line = proc.stdout.readline()
    if not line:
        sys.exit("apid did not start")
    return proc, json.loads(line)
