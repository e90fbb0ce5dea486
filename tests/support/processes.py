"""Processes of this machine, as /proc shows them."""
import os


def process_tree(*roots):
    """The pids of these processes and of all below them, in order."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid, encoding="utf-8") as f:
                parents[int(pid)] = int(f.read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            pass
    found, fresh = set(roots), set(roots)
    while fresh:
        fresh = {p for p, parent in parents.items() if parent in fresh} - found
        found |= fresh
    return sorted(found)


def command_line(pid):
    """The bytes of /proc/PID/cmdline; none for a process that is gone."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return f.read()
    except OSError:
        return b""


def cpu_seconds(pids):
    """User and system time of the processes and of the children that they buried."""
    total = 0
    for pid in pids:
        try:
            with open("/proc/%d/stat" % pid, encoding="ascii") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            total += sum(int(v) for v in fields[11:15])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total / os.sysconf("SC_CLK_TCK")
