#!/usr/bin/env python3
"""Writes the seeds of the corpora: hand-written ones, and the replies of tests/golden for the clouds.

usage: tests/fuzz/seeds.py      (files that fuzzing found are kept)
"""

import glob
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def write(target, name, data):
    folder = os.path.join(HERE, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "seed-" + name), "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)


def texts(target, items):
    for i, item in enumerate(items):
        write(target, "%02d" % i, item)


def clouds():
    for path in sorted(p for cloud in ("aws", "azure") for p in glob.glob(os.path.join(ROOT, "tests/golden", cloud, "*.txt"))):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        out = os.path.basename(path)[:-4] + "\n"
        for block in re.split(r"^--- ", text, flags=re.M)[1:]:
            head, _, rest = block.partition("\n")
            if head.startswith("reply"):
                headers, _, body = rest.partition("\n\n")
                out += "\x1e%s %s\n%s" % (head.split()[1], headers.split("\n")[0], body)
        write(os.path.basename(os.path.dirname(path)), os.path.basename(path)[:-4], out[:20000])
    google()
    golden = {}
    for name in ("instance_types", "instances", "regions"):
        path = os.path.join(ROOT, "tests/golden/lambda", name + ".json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                golden[name] = f.read()
    error = '{"error":{"code":"%s","message":"m","suggestion":"s"}}'
    launched = '{"data":{"instance_ids":["0f1e2d3c4b5a69788796a5b4c3d2e1f0"]}}'
    for verb, replies in {
        "pools": [(200, golden.get("instance_types", "{}"))], "prices": [(200, golden.get("instance_types", "{}"))],
        "signals": [(200, golden.get("instance_types", "{}"))], "regions": [(200, golden.get("instance_types", "{}"))],
        "list": [(200, golden.get("instances", "{}"))], "find": [(200, golden.get("instances", "{}"))],
        "describe": [(200, golden.get("instances", "{}"))],
        "launch": [(200, '{"data":[]}'), (200, launched), (200, golden.get("instances", "{}"))],
        "terminate": [(200, '{"data":{"terminated_instances":[{"id":"0f1e2d3c4b5a69788796a5b4c3d2e1f0","status":"terminating"}]}}')],
    }.items():
        write("lambda", verb, verb + "\n" + "".join("\x1e%d\n%s" % r for r in replies))
    for status, code in ((400, "instance-operations/launch/insufficient-capacity"), (403, "global/quota-exceeded"),
                         (429, "global/rate-limit"), (401, "global/invalid-api-key"), (404, "global/object-does-not-exist")):
        write("lambda", "error-%d" % status, "launch\n\x1e%d Retry-After: 3\n%s" % (status, error % code))


def google():
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/golden/gcp/*.txt"))):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        out = os.path.basename(path)[:-4] + "\n"
        for block in re.split(r"^--- ", text, flags=re.M)[1:]:
            head, _, rest = block.partition("\n")
            if head.startswith("reply"):
                headers, _, body = ("\n" + rest).partition("\n\n")
                first = [h for h in headers.split("\n") if h] or [""]
                out += "\x1e%s %s\n%s" % (head.split()[1], first[0], body)
        if "\x1e" in out:
            write("gcp", os.path.basename(path)[:-4], out[:20000])


def files():
    for path in sorted(glob.glob(os.path.join(ROOT, "deploy/examples/*.yaml"))):
        with open(path, "rb") as f:
            write("fleet" if os.path.basename(path).startswith("fleet") else "jobspec", os.path.basename(path), f.read())
    texts("jobspec", [
        "run: x\n",
        "name: a\nresources:\n  any_of:\n    - infra: aws/us-east-1\n    - {infra: lambda, use_spot: false}\n  accelerators: [A100:8, H100]\n"
        "  cpus: 8+\n  memory: 64+\n  max_hourly_cost: 30.5\n  job_recovery: {max_restarts_on_errors: 3}\nenvs: {A: 1, B: null}\n"
        "secrets:\n  TOKEN: 0123456789abcdef0123456789abcdef\nrun: |\n  echo $A\n",
        '{"run": "x", "config": {"spotctl": {"deadline": "2026-02-01T00:00:00Z", "checkpoint": {"path": "c", "interval": "never"}}}}',
        "run: echo 0123456789abcdef0123456789abcdef\nsecrets: {T: 0123456789abcdef0123456789abcdef}\n",
        "config:\n  spotctl: {team: t, project: p, class: eval, work: 2h, max_duration: 1d, fleet: f, interruptible: false}\n"
        "file_mounts: {/d: s3://bucket/k, e: {source: s3://bucket/k, mode: COPY}}\nrun: x\nsetup: y\nnum_nodes: 1\n",
        "run: x\nconfig: {spotctl: {deadline: 106751991d, work: 106751991d, max_duration: 106751991d}}\n", "run: &a x\n", "run: *a\n", "- a\n- b\n", "run: !!str x\n", "---\nrun: x\n---\nrun: y\n",
        "secrets: # old: 0123456789abcdef\n  PEM: |\n    -----BEGIN KEY-----\n    0123456789abcdef\n\n    fedcba9876543210\n    -----END KEY-----\n  FOLDED: >-\n    first part\n    second part\n"
        "  ESC: \"tab\\there \\\"q\\\" \\u00e9\\n and \\\n    more of it\"\n  ONE: 'it''s a secret'\n  PLAIN: two lines\n    of plain text # and this\n  # NEW: 0011223344556677\nrun: |\n  echo fedcba9876543210\n",
        '{"run": "x \\u00e9", "secrets": {"A": "q\\"uote\\\\d \\u00e9\\n0123456789", "B": "abcdefghijkl"}, "envs": {"C": "abcdefghijkl"}}',
        "secrets: {A: \"\\n\", B: ' ', C: '\"', D: \"*\", E: x}\nrun: x \" * y\n"])
    texts("fleet", ["name: a\nnodes: 3\n", "name: b\ngpus: 64\nresources: {accelerators: H100:8, use_spot: true}\nlimits: {per_pool: 2}\n",
                    '{"name":"c","nodes":1,"on_demand_floor":1,"pools_min":7,"team":"t","project":"p"}'])


def main():
    texts("json", ["{}", "[]", "null", "1", '"a"', '{"s":"x","n":1,"f":1.5,"b":true,"z":null}', '{"a":[1,2,{"b":[[]]}]}',
                   '{"u":"\\u00e9\\ud83d\\ude00"}', "[" * 40 + "]" * 40, '{"a":1,"a":2}', "[1e400]", "[-0.0,1E5]", "9223372036854775808",
                   '{"a":"\\u0000"}', "{} x", "\xef\xbb\xbf{}"])
    texts("xml", ["<a/>", "<a><item><key>k</key></item><item/></a>", '<?xml version="1.0"?><r xmlns="u"><a><b><c>t</c></b></a></r>',
                  "<a>&lt;&amp;&#65;&#x1F600;</a>", "<a><![CDATA[x<y]]></a>", "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
                  "<a>" * 70 + "</a>" * 70, "<a x='1' y=\"2\"/>", "<!-- c --><a> t </a>", "<a><b></a></b>"])
    texts("conf", ["", "[main]\ntext = a\n# c\ncount=7\n[other]\npause = 5m\nprice = 2.5\nshare = 0.25\non = no\n",
                   "[main]\ntext = a b ; c\npath = /x\nsecret = /y\n[provider aws]\nkind = aws\nkey = v\n", "[main]\ncount = 0\n",
                   "[main]\ncount = x\n", "text = 1\n", "[main\n", "[main]\nnokey\n", "[main]\ntext = a\ntext = b\n",
                   "[nowhere]\na = b\n", "[main]\r\ntext = a\r\n"])
    texts("trace", [
        '{"metadata": {"gap_seconds": 600, "zone": "a"}, "data": [0, 1, 1, 0, 1, 1, 1, 0]}',
        '{"metadata": {"gap_seconds": 195, "unit": "USD per hour", "on_demand": 3.06}, "data": [0.918, 1.0741, 1.0339]}',
        '{"metadata": {"gap_seconds": 300}, "data": [0, 16, 3, 0, 7, 12, 16, 16, 16, 1, 0, 0]}'])
    texts("csv", ["a,b\n1,2\n", 'a,b\n"x,""y""",z\n', "a\n", "a,b\r\n1,2\r\n", "a,b\n1\n", 'a\n"unclosed\n', "a,a\n1,2\n", "a,b\n1,2",
                  '"a","b"\n"1\n2",3\n', ",\n,\n", "\xef\xbb\xbfa,b\n1,2\n"])
    texts("text", ["\x00https://h/p?a=%41+b&X-Amz-Signature=secret", "\x00%zz", "\x00\xc3\xa9 /?", "\x012026-01-02T03:04:05Z",
                   "\x012026-01-02T03:04:05.123456789+05:30", "\x011969-12-31T23:59:59Z", "\x019999-12-31T23:59:60Z", "\x0290s", "\x022h05m",
                   "\x02250ms", "\x023d", "\x02106751991d", "\x0215us", "\x030.412300", "\x03999999999.9999999", "\x03.5", "\x0412", "\x04-9223372036854775808",
                   "\x041e308", "\x040x10"])
    texts("code", ["", "aGVsbG8=", "aGVsbG8", "00ff", "0", "====", "aGVs bG8=", bytes(range(256))])
    texts("redact", ["supersecretvalue\n\nlog supersecretvalue end supersecretvaluesupersecretvalue",
                     "aaaaaaaa\naaaaaaaab\n\naaaaaaaaaaaab", "short\n\nshort is kept", "abcdefgh\ncdefghij\n\nabcdefghij", "[redacted]x\n\n[redacted]x",
                     "password", "Authorization"])
    texts("httpd", ["\x05GET / HTTP/1.1\r\nHost: h\r\n\r\n", "\x01POST /a?b=c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /n HTTP/1.1\r\nHost: h\r\n\r\n",
                    "\x03POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: t\r\n\r\n",
                    "\x02GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n", "\x07GET / HTTP/0.9\r\n\r\n", "\x00\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
                    "\x00GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "\x00GET / HTTP/1.1\r\nHost: h\r\n x: y\r\n\r\n",
                    "\x00POST /none HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na", "\x00PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
                    "\x00GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", "\x00OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "\x00GET / HTTP/1.1\nHost: h\n\n", "\x00POST / HTTP/1.1\r\nHost: h\r\nContent-Length : 1\r\n\r\na",
                    "\x00GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"])
    texts("agent", ['{"url":"https://h","token":"0123456789abcdef","provider":"aws","install":"i","node":"n7"}',
                    '{"url":"http://h//","token":"t","ca_pem":"-----BEGIN","orphan_timeout_s":5}', '{"url":"ftp://h","token":"t"}', "[]", "",
                    '{"url":"https://h","token":"t","orphan_timeout_s":9223372036854775807}',
                    '{"DocumentIncarnation":7,"Events":[{"EventId":"A1B2","EventType":"Preempt","ResourceType":"VirtualMachine","Resources":["vm","w"],"EventStatus":"Scheduled","NotBefore":"Sat, 21 Nov 2026 06:00:30 GMT"}]}',
                    '{"DocumentIncarnation":8,"Events":[{"EventId":"A1B2","EventType":"Freeze","Resources":["vm"],"EventStatus":"Started","NotBefore":""}]}',
                    'TRUE\n',
                    '8a3f00d1c2b3e4f5',
                    'bytes=0-262143',
                    '{"x-goog-resumable":"start","x-ms-version":"2023-11-03","empty":""}',
                    '<?xml version="1.0"?><BlockList><UncommittedBlocks><Block><Name>id</Name><Size>3</Size></Block></UncommittedBlocks></BlockList>',
                    '{"action":"terminate","time":"2026-01-01T00:02:00Z"}'])
    clouds()
    files()


if __name__ == "__main__":
    main()
