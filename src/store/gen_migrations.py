"""The files of migrations/ as C, and what gen_sql.py shares with it."""
import glob
import hashlib
import os
import re


class Bad(Exception):
    pass


def bad(path, line, text):
    raise Bad("%s:%d: %s" % (path, line, text))


def c_text(text, indent="\t"):
    out = []
    for line in text.split("\n"):
        s = line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("?", "\\?")
        out.append('%s"%s\\n"' % (indent, s))
    return "\n".join(out)


def read_migrations(folder):
    out = []
    for path in sorted(glob.glob(os.path.join(folder, "*.sql"))):
        base = os.path.basename(path)
        m = re.fullmatch(r"(\d{4})_([a-z0-9_]+)\.sql", base)
        if not m:
            bad(path, 1, "a migration is called NNNN_words.sql")
        with open(path, "rb") as f:
            raw = f.read()
        text = raw.decode("utf-8")
        # c_text() adds a newline to every line. Embed exactly the bytes that were hashed.
        if not text.endswith("\n"):
            bad(path, 1, "the last line must end with a newline")
        out.append({"version": int(m.group(1)), "name": m.group(2), "text": text[:-1],
                    "sha256": hashlib.sha256(raw).hexdigest()})
    for want, m in enumerate(out, 1):
        if m["version"] != want:
            bad(folder, 1, "migration %04d is missing or given twice" % want)
    return out


def gen_migrations(files):
    o = []
    for m in files:
        o.append("\nstatic const char migration_%04d[] =\n%s;" % (m["version"], c_text(m["text"])))
    o.append("\nconst struct migration migrations_all[] = {")
    for m in files:
        o.append("\t{ .version = %d, .name = \"%s\", .sql = migration_%04d,\n\t    .sha256 = \"%s\" }," % (
            m["version"], m["name"], m["version"], m["sha256"]))
    o.append("\t{ .version = 0 },\n};")
    o.append("const size_t migrations_all_n = %d;" % len(files))
    return "\n".join(o)
