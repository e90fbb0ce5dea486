"""Server-sent events over raw sockets: live, filtered, resumed, in order, cut when slow; drain."""
import re
import socket
import threading
import time
import unittest
import lib

A = lib.Apid()


class Stream:
    def __init__(self, query="", last=None, token=None):
        self.s = socket.create_connection(("127.0.0.1", A.port))
        self.s.sendall(("GET /v1/events%s HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\n%s\r\n" % (
            query, token or A.root, "Last-Event-ID: %s\r\n" % last if last is not None else "")).encode())
        self.text = ""
        self.s.settimeout(0.05)

    def pump(self):
        try:
            data = self.s.recv(1 << 16)
        except TimeoutError:
            return
        if not data:
            raise EOFError(self.text)
        self.text += re.sub(r"\r\n[0-9a-f]+\r\n", "", data.decode("utf-8", "replace"))

    def ids(self):
        return [int(i) for i in re.findall(r"^id: (\d+)$", self.text, re.M)]

    def until(self, cond, limit=60):
        return lib.until("the stream has it", limit, cond, self.pump, lambda: "\n" + self.text)

    def ready(self):
        assert self.until(lambda: "events of the broker" in self.text), self.text
        return self

    def close(self):
        self.s.close()


def event(n=1, job=None, at=None):
    """Returns the new ids."""
    out = A.sql("INSERT INTO event (at_us, entity, entity_id, job_id, event, why) SELECT %d, 'job', 'jX', %s, 'TEST', 'w' || i "
                "FROM generate_series(1, %d) i RETURNING id; NOTIFY spot_api, 'e'" % (at or lib.now(), job or "NULL", n))
    return [int(x) for x in out.split()]


class Events(unittest.TestCase):
    def test_a_new_event_reaches_every_reader_at_once(self):
        readers = [Stream() for _ in range(50)]
        for r in readers:
            r.ready()
        t = time.time()
        want = event()
        for r in readers:
            self.assertTrue(r.until(lambda: r.ids()[-1:] == want), r.text)
        self.assertLess(time.time() - t, 20)
        for r in readers:
            r.close()

    def test_last_event_id_resumes_without_loss_or_repeat(self):
        first = event(5)
        r = Stream(last=first[1])
        self.assertTrue(r.until(lambda: r.ids()[-1:] == first[-1:]), r.text)
        self.assertEqual(r.ids(), first[2:])
        more = event(3)
        self.assertTrue(r.until(lambda: r.ids()[-1:] == more[-1:]))
        self.assertEqual(r.ids(), first[2:] + more)
        r.close()
        again = event(2)
        r = Stream(last=more[-1])
        self.assertTrue(r.until(lambda: r.ids()[-1:] == again[-1:]))
        self.assertEqual(r.ids(), again)
        r.close()

    def test_thousands_missed_are_all_sent(self):
        a = event(1)
        many = event(2300)
        r = Stream(last=a[0])
        self.assertTrue(r.until(lambda: len(r.ids()) >= 2300), len(r.ids()))
        self.assertEqual(r.ids(), many)
        r.close()

    def test_a_later_id_that_commits_first_waits_for_the_earlier(self):
        r = Stream().ready()

        def passed():
            """From before the later one is there until the earlier one is; longer than it is waited for, there is no order."""
            with A.uncommitted("INSERT INTO event (at_us, entity, entity_id, event) VALUES (%d, 'job', 'slow', 'SLOW') RETURNING id"
                               % lib.now()) as slow:
                t = time.monotonic()
                fast = event()
                then = A.sql("SELECT clock_timestamp()")
                A.until(lambda: A.sql("SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%%FROM event WHERE id > %%'"
                                      " AND query_start > '%s'" % then) != "0", "the later one was read without the earlier")
            took = time.monotonic() - t
            want = [int(slow), fast[0]]
            self.assertTrue(r.until(lambda: fast[0] in r.ids()), r.text)
            if took < 1:
                self.assertTrue(r.until(lambda: set(want) <= set(r.ids())), r.text)
                self.assertEqual([i for i in r.ids() if i in want], want)
            return took
        A.soon(1, passed)
        r.close()

    def test_an_id_that_was_never_used_holds_nothing_up_for_long(self):
        r = Stream().ready()
        A.sql("SELECT nextval(pg_get_serial_sequence('event', 'id'))")
        want = event()
        t = time.time()
        self.assertTrue(r.until(lambda: want[0] in r.ids()), r.text)
        self.assertLess(time.time() - t, 20)
        r.close()

    def test_filters(self):
        j = int(A.job()["id"][1:])
        r = Stream("?job=j%d" % j).ready()
        event(3)
        mine = event(2, job=j)
        event(2)
        self.assertTrue(r.until(lambda: r.ids()[-1:] == mine[-1:]), r.text)
        self.assertEqual([i for i in r.ids() if i >= mine[0]], mine)
        self.assertIn("\nevent: job\n", r.text)
        r.close()

    def test_readers_that_leave_are_forgotten(self):
        rs = [Stream().ready() for _ in range(5)]
        for r in rs:
            r.close()
        A.until(lambda: A.metric("spot_http_streams") == 0, "they are forgotten")

    def test_a_slow_reader_is_cut_and_the_others_go_on(self):
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", A.port))
        slow.sendall(("GET /v1/events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\n\r\n" % A.root).encode())
        r = Stream().ready()
        base = A.metric("spot_http_streams")
        self.assertGreaterEqual(base, 2)
        big = "x" * 6000
        for i in range(8):
            A.sql("INSERT INTO event (at_us, entity, entity_id, event, why) SELECT %d, 'job', 'j', 'BIG', '%s' FROM generate_series(1, 200); "
                  "NOTIFY spot_api, 'e'" % (lib.now(), big))
            self.assertTrue(r.until(lambda: len(r.ids()) >= 200 * (i + 1)), len(r.ids()))
        A.until(lambda: A.metric("spot_http_streams") == base - 1, "the slow one is cut")
        slow.close()
        r.close()

    def test_bad_last_event_ids_are_refused(self):
        for bad in ("x", "-1", "1.5", "99999999999999999999"):
            s, p, _ = A.call("GET", "/v1/events", headers={"Accept": "text/event-stream", "Last-Event-ID": bad})
            self.assertEqual((s, p["field"]), (400, "Last-Event-ID"))

    def test_the_list(self):
        ids = event(5)
        got = A.call("GET", "/v1/events?after=%d&limit=2" % (ids[0] - 1), expect=200)[1]
        self.assertEqual([e["id"] for e in got["items"]], ids[:2])
        self.assertEqual(got["next"], str(ids[1]))
        last = A.call("GET", "/v1/events?limit=3", expect=200)[1]["items"]
        self.assertEqual([e["id"] for e in last], ids[-3:])


class Drain(unittest.TestCase):
    def test_draining_ends_streams_and_answers_parked_requests(self):
        b = lib.Apid()
        j = b.job()["id"]
        out = {}
        s = socket.create_connection(("127.0.0.1", b.port))
        s.sendall(("GET /v1/events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\n\r\n" % b.root).encode())
        th = threading.Thread(target=lambda: out.update(r=b.call("GET", "/v1/jobs/%s?wait_state=terminal&timeout_s=60" % j, expect=200)))
        session = b.enrol(*b.node(b.pool(), "BOOTING"))["session"]
        poll = threading.Thread(target=lambda: out.update(p=b.call("POST", "/v1/agent/poll", {"have": {"job": None}, "hold_ms": 60000},
                                                                   token=session, expect=200)))
        th.start()
        poll.start()
        b.until_parked(2)
        b.until(lambda: b.metric("spot_http_streams") == 1, "the stream is open")
        t = time.time()
        b.proc.stdin.write("d\n")
        b.proc.stdin.flush()
        th.join()
        poll.join()
        s.settimeout(30)
        text = b""
        while True:
            data = s.recv(4096)
            if not data:
                break
            text += data
        self.assertLess(time.time() - t, 20)
        self.assertTrue(text.endswith(b"0\r\n\r\n"), text)
        self.assertEqual(out["r"][1]["state"], "QUEUED")
        self.assertEqual(out["p"][1]["desired"], "idle")
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", b.port))
        b.stop()


if __name__ == "__main__":
    lib.main()
