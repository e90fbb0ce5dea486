"""The simulation itself: a seed has one trace wherever and however it runs, and each rule was seen to fail."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

SIM = sys.argv.pop(1)


def run(*args, **env):
    p = subprocess.run([SIM, *args], capture_output=True, text=True, timeout=2400, env={**os.environ, **env})
    return p.returncode, p.stdout


def trace_of(seed, **env):
    return int(re.search(r"^hash (\S*) ", run(seed, **env)[1], re.M).group(1), 16)


def source_text():
    """All C of the simulation but the table of states, with the literals that stand side by side joined."""
    files = [p for p in sorted(pathlib.Path(__file__).parent.rglob("*.[ch]")) if p.name != "reach.c"]
    return re.sub(r'"\s+"', "", "".join(p.read_text(encoding="utf-8") for p in files))


def children(pid):
    """The server, whose folder it stands in."""
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        found = f.read().split()
    return [c for c in found if os.path.basename(os.readlink("/proc/%s/exe" % c)).startswith("postgres")]


# Time, chance, sleep, sockets and processes, by all names that libc has for them, and the libraries' doors to these.
FORBIDDEN = set("""
    clock_gettime clock_getres gettimeofday time timespec_get timespec_getres clock times ftime getrusage
    getrandom getentropy rand random srand srandom rand_r random_r initstate setstate drand48 erand48 lrand48 nrand48 mrand48 jrand48 srand48
    arc4random arc4random_buf arc4random_uniform mkdtemp mkstemp mkstemp64 mkostemp mkostemp64 mkstemps mkstemps64 mktemp tempnam tmpnam tmpfile
    tmpfile64 RAND_bytes RAND_priv_bytes uuid_generate
    socket socketpair connect bind listen accept accept4 send sendto sendmsg recv recvfrom recvmsg getaddrinfo getnameinfo gethostbyname
    gethostbyname_r getsockname getpeername getifaddrs
    nanosleep clock_nanosleep usleep sleep poll ppoll select pselect epoll_wait epoll_pwait epoll_create1 alarm setitimer timer_create timerfd_create
    timerfd_settime sigtimedwait sigwaitinfo sigwait sigsuspend pause sched_yield
    fork vfork _Fork clone execv execve execvp execvpe execl execlp posix_spawn posix_spawnp system popen waitpid wait wait4 pthread_create
    syscall getpid getppid gettid gethostname uname
    PQconnectdb PQconnectStart PQconnectStartParams PQconnectPoll ev_run ev_loop_new ev_time
    curl_easy_perform curl_multi_perform curl_multi_poll curl_multi_wait curl_multi_socket_action
""".split())
ALLOWED = {
    "alarm": "seed.c: who has crashed and asks for its rows is given ten seconds",
    "getrusage": "seed.c, after the seed: the figure cpu_ms",
    "poll": "batch.c, conn.c and store.c: for the children, and for the one real connection, which answers before time goes on",
    "PQconnectdb": "server.c and conn.c: the one real connection",
    "curl_multi_perform": "the agent's http.c, in whose place stands host_http.c: nobody calls it",
    "curl_multi_poll": "the same",
}


def names(out, kind):
    return set(re.findall(r"^%s +(.*?) +\d+ in \d+ seeds$" % kind, out, re.M))


class Sim(unittest.TestCase):
    def test_each_state_and_fault_has_its_row(self):
        listed = [line.partition(" ")[2] for line in run("--states")[1].splitlines()]
        self.assertEqual(len(listed), len(set(listed)))
        text = source_text()
        said = set(re.findall(r'\b(?:sometimes|fault_seen)\(\s*"([^"]*)"\)', text))
        self.assertGreater(len(said), 60)
        self.assertEqual(said - set(listed), set(), "no row in reach.c")
        faults = set(re.findall(r"\bX\((\w+)\)", text))
        self.assertEqual([n for n in listed if '"%s"' % n not in text and n not in faults], [], "nobody says so")

    def test_a_seed_has_one_trace_alone_and_among_others(self):
        code, out = run("--seeds", "3-4")
        self.assertEqual(code, 0, out)
        both = int(re.search(r"^hashes (\S*) ", out, re.M).group(1), 16)
        third, fourth = trace_of("3"), trace_of("4")
        self.assertNotEqual(third, fourth)
        self.assertEqual(both, third ^ fourth)

    def test_a_trace_is_the_same_byte_for_byte(self):
        once, again = run("100003", "--trace"), run("100003", "--trace")
        self.assertGreater(once[1].count("\n"), 1000)
        self.assertEqual(once, again)

    def test_a_seed_has_the_same_trace_when_every_statement_is_sent(self):
        for seed in ("6", "7", "100002"):  # with CoreWeave, with Google Cloud, a small world
            self.assertEqual(trace_of(seed), trace_of(seed, SPOT_SIM_GATES="off"), seed)

    def test_a_seed_has_the_same_trace_in_a_database_of_its_own(self):
        # 4: two daemons, in which partitions are made and COPY breaks
        for seed in ("4", "7", "100002"):
            self.assertEqual(trace_of(seed), trace_of(seed, SPOT_SIM_UNIVERSES="off"), seed)

    def test_a_launch_that_came_twice_is_judged_by_what_its_cloud_answered(self):
        # EC2 answered the first copy with machines that it did not make; the second copy made two that lived for 20 s.
        code, out = run("703967", "--stop")
        self.assertEqual(code, 0, out)
        self.assertIn("fault EC2 said that it made an instance and did not 1\n", out)
        self.assertRegex(out, r"(?m)^fault net_twice \d+$")

    def test_a_batch_that_is_told_to_end_leaves_nothing_behind(self):
        for sig in (signal.SIGTERM, signal.SIGINT):
            with subprocess.Popen([SIM, "--seeds", "1-99999", "--jobs", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as p:
                folder = re.search(r" in (/\S+)$", next(line for line in p.stderr if "ready" in line)).group(1)
                self.assertTrue(os.path.isdir(folder))
                cluster = [os.readlink("/proc/%s/cwd" % pid) for pid in children(p.pid)]
                self.assertNotEqual(cluster, [])
                p.send_signal(sig)
                self.assertEqual(p.wait(60), -sig)
            for gone in (folder, *cluster):
                self.assertFalse(os.path.exists(gone), gone)

    def test_nothing_asks_the_machine_but_what_is_listed(self):
        lines = [line.split() for line in subprocess.run(["nm", SIM], capture_output=True, text=True, check=True).stdout.splitlines()]
        asked = {x[-1].split("@")[0] for x in lines if x[-2] in "Uw"}
        wrapped = {x[-1].removeprefix("__wrap_") for x in lines if x[-1].startswith("__wrap_")}
        self.assertEqual((asked & FORBIDDEN) - wrapped - set(ALLOWED), set())
        self.assertEqual(set(ALLOWED) - asked, set(), "allowed, and nobody calls it")
        self.assertEqual(set(ALLOWED) & wrapped, set(), "wrapped, and allowed")

    def test_each_trap_is_sprung(self):
        traps = run("--trap", "list")[1].split()
        self.assertGreater(len(traps), 30)
        for name in traps:
            p = subprocess.run([SIM, "--trap", name], capture_output=True, text=True, timeout=10)
            self.assertEqual(p.returncode, -signal.SIGABRT, name)
            self.assertRegex(p.stderr, "^sim: .* inside of the simulation$", name)

    def test_a_seed_that_never_ends_fails_and_the_others_run(self):
        code, out = run("--seeds", "3-5", "--stop", "--jobs", "1", "--trap", "spin", SPOT_SIM_CPU_S="2")
        self.assertEqual(code, 1, out)
        self.assertRegex(out, "(?m)^seed 3 FAILED time goes on: it spins")

    def test_a_batch_tells_how_its_failing_seed_fails_alone(self):
        for trap, verdict, more in (("rule", "a rule that nothing keeps", ""), ("abort", "crashed with signal 6", "signal 6; the last lines of the trace:")):
            code, out = run("--seeds", "3-4", "--faults", "none", "--trap", trap)
            self.assertEqual(code, 1, out)
            self.assertIn("2 seeds, 1 failed", out)
            self.assertRegex(out, "(?m)^seed 3 FAILED %s" % verdict)
            shortest, _, rows = out.partition("its timeline:\n")
            self.assertRegex(shortest, r"(?m)^shortest: sim 3 --minutes 1 --faults none.*\n  breaks: %s$" % verdict)
            self.assertIn(more, rows)
            self.assertRegex(rows, r"(?m)^\d+ job j1 ->QUEUED SUBMITTED: ")
            self.assertEqual(more == "", "calm" not in rows, rows)

    def test_each_rule_was_seen_to_fail(self):
        code, out = run("--seeds", "1-24", "--prove")
        self.assertEqual(code, 0, out)
        self.assertIn("24 seeds, 0 failed", out)
        self.assertEqual(names(out, "always") - names(out, "proven"), set(), out)
        self.assertGreater(len(names(out, "proven")), 20)


if __name__ == "__main__":
    unittest.main()
