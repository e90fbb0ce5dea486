"""Shared by the judges of the object stores: store_client (store_client.c), and a file of three pieces."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
import support  # noqa: E402,F401  it knows where world is
from world import exchange  # noqa: E402

BINARY = {'Content-Type': 'application/octet-stream'}


def http(method, url, body=None, headers=()):
    """(status, body). headers: lines. Without a type Python would call every body a form."""
    lines = dict(h.split(': ', 1) for h in headers)
    return exchange(method, url, body, lines if body is None else dict(BINARY, **lines))[::2]


class Client:
    def __init__(self, program, env=None):
        self.program, self.env = program, dict(env or {}, PATH=os.environ['PATH'])
        self.tmp = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.tmp.name, 'chunk')
        self.bytes = bytes(bytearray(range(256))) * (20 << 12)
        with open(self.file, 'wb') as f:
            f.write(self.bytes)

    def presign(self, kind, method, endpoint, bucket, key, query='', *settings):
        """(url, how, header lines)"""
        out = subprocess.run([self.program, 'presign', kind, method, endpoint, bucket, key, query, *settings], env=self.env,
                             stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout.splitlines()
        return out[0], out[1], out[2:]

    def upload(self, how, url, headers=(), file=None):
        """With the agent's own code. True: the store has all of it."""
        return subprocess.run([self.program, 'upload', how, file or self.file, url, *headers], env=self.env, timeout=120,
                              stderr=subprocess.DEVNULL).returncode == 0
