"""Lists: each row as the database's documents have it, pages without loss, ETags, gzip."""
import datetime
import gzip
import http.client
import json
import subprocess
import threading
import unittest
import lib

A = lib.Apid()
ODD = 'a "quoted" \\ back\tslash\nline \u00e9\u4e16 \U0001f600 \x7f </b>'


def time_text(us):
    return datetime.datetime.fromtimestamp(us // 1000000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + ".%06dZ" % (us % 1000000)


def resolved(doc):
    """A document of the database with its marks as clients see them: of this test alone. Ages are left out."""
    if isinstance(doc, list):
        return [resolved(d) for d in doc]
    if not isinstance(doc, dict):
        return doc
    out = {}
    for key, v in doc.items():
        if key.endswith("@") or key.endswith("@age"):
            name = key.split("@")[0]
            out[name + "_at" if name else "at"] = time_text(v) if v else None
        elif key.endswith("$") and len(key) > 1:
            out[key[:-1] + "_micros"], out[key[:-1] + "_usd"] = v, None if v is None else v / 1e6
        else:
            out[key] = resolved(v)
    return out


def ageless(doc):
    if isinstance(doc, list):
        return [ageless(d) for d in doc]
    return {k: ageless(v) for k, v in doc.items() if k != "age_s"} if isinstance(doc, dict) else doc


def world():
    """Jobs and nodes in every state of their members: absent, zero, odd texts, large sums."""
    pools = [A.pool(price=0.000001), A.pool(zone="", itype="m", gpu="", gpus=0, price=None), A.pool(zone="z", gpus=0.125, price=12345.678901, state="implausible"),
             A.pool(zone="y", gpus=1.5, market="on_demand", gpu="H100-80GB", price=2)]
    A.sql("UPDATE pool_latest SET why = 'a \"why\"', effective_us = 0 WHERE pool_id = %d" % pools[2])
    jobs = [int(A.job()["id"][1:]) for _ in range(6)]
    odd = ODD.replace("'", "''").replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    A.sql("UPDATE job SET name = E'%s', why = E'%s', project = 'p', deadline_us = 1, cancel_us = 1767323045000006, steps_total = 9 WHERE id = %d"
          % (odd, odd, jobs[0]))
    nodes = []
    for i, j in enumerate(jobs[1:5]):
        n, _ = A.node(pools[i], ref="i-%d" % i if i else None)
        A.attempt(j, n, 1)
        nodes.append(n)
    A.sql("""UPDATE attempt SET ended_us = %(now)d, exit_reason = 'lost' WHERE job_id = %(a)d;
        UPDATE attempt SET ended_us = %(now)d, exit_reason = 'drained' WHERE job_id = %(b)d;
        INSERT INTO notice (node_id, kind, deadline_us, source, raw, heard_us) VALUES (%(n)d, 'interruption', 0, 'imds', '{}', %(now)d),
            (%(n)d, 'rebalance', %(now)d, 'imds', '{}', 1), (%(m)d, 'maintenance', %(now)d, 'api', '', %(now)d);
        INSERT INTO checkpoint (job_id, epoch, state, reason, steps, bytes, created_us, committed_us) VALUES (%(c)d, 1, 'COMMITTED', 'periodic', 7, 9, 5, 6);
        UPDATE job SET checkpoint_id = (SELECT max(id) FROM checkpoint) WHERE id = %(c)d;
        UPDATE node SET ends_us = 1767323045000006 WHERE id = %(n)d;
        UPDATE node SET gang_rank = 0, replaces_id = %(n)d, why = 'w', last_error = E'e\\u0001', ended_us = 2, end_cause = 'lost', state = 'GONE' WHERE id = %(m)d;
        INSERT INTO ledger (kind, job_id, node_id, pool_id, market, epoch, from_us, to_us, price_micros, price_observed_us, amount_micros, team, project, class, at_us)
        SELECT 'compute', %(c)d, %(n)d, %(p)d, 'spot', 1, 0, 3600000000, 5, 0, x, '', '', '', 1 FROM unnest('{9007199254740993,-1,250000}'::int8[]) x
        """ % {"now": lib.now(), "a": jobs[1], "b": jobs[2], "c": jobs[3], "n": nodes[1], "m": nodes[2], "p": pools[0]})
    return pools, jobs, nodes


class Shape(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pools, cls.jobs, cls.nodes = world()

    def same(self, path, sql):
        got = A.call("GET", path, expect=200)[1]["items"]
        want = [resolved(json.loads(line)) for line in json.loads(A.sql("SELECT coalesce(json_agg(d.doc::text), '[]') FROM (%s) d" % sql))]
        self.assertTrue(want)
        self.assertEqual(ageless(got), ageless(want))

    def test_jobs_are_the_documents_of_their_view(self):
        self.same("/v1/jobs", "SELECT doc FROM api_job ORDER BY id DESC")
        self.same("/v1/jobs?project=p", "SELECT doc FROM api_job WHERE id = %d" % self.jobs[0])
        self.same("/v1/jobs?state=QUEUED,STARTING,QUEUED&team=&limit=3", "SELECT doc FROM api_job ORDER BY id DESC LIMIT 3")

    def test_nodes_are_the_documents_of_their_view(self):
        doc = "SELECT doc::jsonb || jsonb_build_object('ends@', nullif(n.ends_us, 0)) AS doc FROM api_node d JOIN node n USING (id)"
        self.same("/v1/nodes", doc + " ORDER BY d.id DESC")
        self.same("/v1/nodes?state=live", doc + " WHERE n.state <> 'GONE' ORDER BY d.id DESC")
        self.same("/v1/nodes?job=j%d" % self.jobs[2], doc + " WHERE d.id = %d" % self.nodes[1])
        self.same("/v1/nodes?state=READY&provider=aws", doc + " JOIN pool p ON p.id = n.pool_id WHERE n.state = 'READY' AND p.provider = 'aws' ORDER BY d.id DESC")

    def test_a_node_says_when_its_capacity_ends(self):
        with_end, without = "n%d" % self.nodes[1], "n%d" % self.nodes[3]
        fleet = A.call("POST", "/v1/fleets", "name: ends\nnodes: 2\nresources: {accelerators: 'V100:1'}\n", expect=201)[1]["id"]
        A.sql("UPDATE node SET fleet_id = %s WHERE id IN (%s, %s)" % (fleet[1:], with_end[1:], without[1:]))
        told = [A.call("GET", "/v1/nodes/" + n, expect=200)[1]["ends_at"] for n in (with_end, without)]
        self.assertEqual(told, ["2026-01-02T03:04:05.000006Z", None])
        for path, key in (("/v1/nodes?state=live", "items"), ("/v1/nodes?fleet=" + fleet, "items"), ("/v1/nodes?job=j%d" % self.jobs[2], "items"), ("/v1/fleets/" + fleet, "nodes")):
            ends = {n["id"]: n["ends_at"] for n in A.call("GET", path, expect=200)[1][key]}
            self.assertEqual(ends[with_end], told[0], path)
            self.assertIsNone(ends.get(without), path)

    def test_fleets_are_the_documents_of_their_view(self):
        made = [A.call("POST", "/v1/fleets", "name: shape%d\nnodes: 2\nresources: {accelerators: 'V100:1'}\nteam: t%d\n" % (i, i), expect=201)[1]["id"]
                for i in range(3)]
        ids = [int(f[1:]) for f in made]
        A.sql("""UPDATE fleet SET why = 'a "why"', updated_us = 1767323045000006 WHERE id = %d;
            UPDATE node SET fleet_id = %d WHERE id IN (%s)""" % (ids[0], ids[1], ",".join(map(str, self.nodes))))
        doc = """SELECT doc::jsonb || jsonb_build_object('size', fleet_size_doc(f), 'demand', fleet_demand_doc(f),
                'on_demand$', fleet_on_demand_micros(f)) AS doc FROM api_fleet JOIN fleet f USING (id)"""
        self.same("/v1/fleets", doc + " ORDER BY id DESC")
        self.same("/v1/fleets?team=t1&state=ACTIVE", doc + " WHERE id = %d" % ids[1])
        first = A.call("GET", "/v1/fleets?limit=2", expect=200)[1]
        self.assertEqual(([f["id"] for f in first["items"]], first["next"]), (made[:0:-1], str(ids[1])))

    def test_events_are_the_documents_of_their_view(self):
        A.sql("INSERT INTO event (at_us, entity, entity_id, epoch, event, data) VALUES (%d, 'pool', 'p1', 3, 'ODD', '%s')" % (
            lib.now(), json.dumps({"at@": 1767323045000006, "cost$": 5, "deep": [{"x@": None}], "f": 0.1})))
        self.same("/v1/events?limit=1000", "SELECT doc FROM (SELECT * FROM api_event ORDER BY id DESC LIMIT 1000) e ORDER BY id")
        self.same("/v1/events?after=0&limit=3", "SELECT doc FROM api_event ORDER BY id LIMIT 3")
        self.same("/v1/events?job=j%d" % self.jobs[0], "SELECT doc FROM api_event WHERE job_id = %d ORDER BY id" % self.jobs[0])

    def test_one_job_is_the_documents_of_its_views(self):
        A.sql("UPDATE job SET not_before_us = 1767323045000006, spec = jsonb_set(spec, '{checkpoint}', '{\"path\": \"c\"}') WHERE id = %d" % self.jobs[0])
        for j in self.jobs:
            got = A.call("GET", "/v1/jobs/j%d" % j, expect=200)[1]
            doc, attempts, recoveries, checkpoints, source, before, tier = json.loads(A.sql("""SELECT json_build_array(d.doc,
                (SELECT coalesce(json_agg(a.doc ORDER BY a.epoch, a.rank), '[]') FROM api_attempt a WHERE a.job_id = d.id),
                (SELECT coalesce(json_agg(r.doc ORDER BY r.epoch, r.rank), '[]') FROM api_recovery r WHERE r.job_id = d.id),
                (SELECT coalesce(json_agg(c.doc ORDER BY c.id), '[]') FROM api_checkpoint c WHERE c.job_id = d.id AND c.state = 'COMMITTED'),
                j.source, j.not_before_us, coalesce(j.spec->>'network_tier', 'standard')) FROM api_job d JOIN job j ON j.id = d.id WHERE d.id = %d""" % j))
            want = dict(resolved(doc), attempts_list=resolved(attempts), recoveries=resolved(recoveries), checkpoints=resolved(checkpoints), source=source, lost_steps=0,
                        not_before_at="2026-01-02T03:04:05Z" if before else None, queue=None, budget=None, not_stored=None,
                        network_tier=tier)
            self.assertEqual(ageless(got), ageless(want))

    def pools_same(self, path, where, order):
        """The old documents, of the row and of what is told besides, side by side."""
        got = A.call("GET", path, expect=200)[1]["items"]
        for pool in got:
            self.assertIn("per_hour", pool.pop("hazard"))
            self.assertIn("odds", pool.pop("launch_odds"))
        rows = json.loads(A.sql("""SELECT coalesce(json_agg(ARRAY[d.doc::text, m.more::text] ORDER BY %s), '[]') FROM pool p
            JOIN api_pool d ON d.id = p.id LEFT JOIN pool_latest l ON l.pool_id = p.id, LATERAL api_pool_more(p.id, 0) m WHERE %s""" % (order, where)))
        want = [dict(resolved(json.loads(doc)), **resolved(json.loads(more))) for doc, more in rows]
        self.assertTrue(want)
        self.assertEqual(ageless(got), ageless(want))

    def test_pools_are_the_documents_of_their_view(self):
        p = self.pools[0]
        A.sql("""INSERT INTO signal SELECT provider, region, zone, '', '', k, 0.1 + 0.2, -1, 1e300, %d, 7, 'a "feed"' FROM pool, unnest('{capacity,placement_score}'::text[]) k
                WHERE id = %d;
            INSERT INTO pool_day (pool_id, day, node_us, reclaims, launches, refusals) SELECT %d, %d, 12345678901, 2, 3, 4;
            INSERT INTO pool_cool VALUES (%d, 5, 1, 'x', 'full', 3)""" % (lib.now(), p, p, lib.now() // 86400 // lib.US, p))
        self.pools_same("/v1/pools", "offered", "p.id")
        self.pools_same("/v1/prices", "offered AND l.price_micros IS NOT NULL", "l.price_micros, p.id")
        self.pools_same("/v1/pools?gpu=h100&market=on_demand", "p.id = %d" % self.pools[3], "p.id")
        self.pools_same("/v1/prices?max_usd=1&gpu=v100", "l.price_micros <= 1000000", "l.price_micros, p.id")
        whole = A.call("GET", "/v1/pools/p%d?history=1d" % p, expect=200)[1]
        self.assertEqual([whole[k] for k in ("history", "gaps", "marks")], [[], [], []])
        by_gpu = A.call("GET", "/v1/prices/gpus", expect=200)[1]["items"]
        self.assertEqual([(g["gpu"], [o["per_gpu_micros"] for o in g["offers"]]) for g in by_gpu], [("H100-80GB", [1333333]), ("V100", [1])])


class Pages(unittest.TestCase):
    def walk(self, path):
        ids, cursor = [], ""
        while cursor is not None:
            page = A.call("GET", path + cursor, expect=200)[1]
            ids += [r["id"] for r in page["items"]]
            cursor = page["next"] and "&cursor=" + page["next"]
        return ids

    def test_a_row_that_stays_is_on_one_page_while_others_come_and_change(self):
        pools = [A.pool(zone="page-%d" % i, price=1 + i % 3) for i in range(25)]
        jobs = [A.job()["id"] for _ in range(12)]
        nodes = ["n%d" % A.node(p)[0] for p in pools[:9]]
        over = threading.Event()

        def change():
            while not over.is_set():
                A.job()
                A.node(pools[0])
                A.sql("UPDATE job SET steps_done = steps_done + 1; UPDATE node SET last_seen_us = 1; UPDATE pool_latest SET observed_us = observed_us + 1")

        t = threading.Thread(target=change)
        t.start()
        try:
            for path, want in (("/v1/jobs?limit=5", jobs), ("/v1/jobs?limit=5&state=QUEUED", jobs), ("/v1/nodes?limit=4", nodes),
                               ("/v1/nodes?limit=4&state=live", nodes), ("/v1/pools?limit=7", ["p%d" % p for p in pools]),
                               ("/v1/prices?limit=7", ["p%d" % p for p in pools])):
                got = self.walk(path)
                self.assertEqual(len(got), len(set(got)), path)
                self.assertLessEqual(set(want), set(got), path)
        finally:
            over.set()
            t.join()


class Forms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        A.pool(zone="forms")
        for _ in range(4):
            A.job()

    def test_a_client_that_has_the_reply_gets_no_body(self):
        for path in ("/v1/jobs", "/v1/prices", "/v1/pools", "/v1/providers", "/v1/events?after=0"):
            tag = A.call("GET", path, expect=200)[2]["etag"]
            self.assertRegex(tag, r'^W/"[0-9a-f]{16}"$')
            for known in (tag, tag[2:], '"other", ' + tag, "*"):
                status, body, headers = A.call("GET", path, headers={"If-None-Match": known})
                self.assertEqual((path, status, body, headers.get("etag")), (path, 304, b"", tag))
            self.assertEqual(A.call("GET", path, headers={"If-None-Match": tag[:-3] + 'xy"'})[0], 200)
        tag = A.call("GET", "/v1/jobs")[2]["etag"]
        A.job()
        self.assertEqual(A.call("GET", "/v1/jobs", headers={"If-None-Match": tag})[0], 200)
        self.assertNotIn("etag", A.call("GET", "/v1/whoami", expect=200)[2])

    def test_the_tag_of_a_fleet_stays_its_version(self):
        fleet = A.call("POST", "/v1/fleets", {"name": "tagged", "gpus": 1, "resources": {"accelerators": "V100:1"}}, expect=201)[1]["id"]
        c = http.client.HTTPConnection("127.0.0.1", A.port, timeout=20)
        c.request("GET", "/v1/fleets/" + fleet, headers={"Authorization": "Bearer " + A.root})
        self.assertEqual([v for k, v in c.getresponse().getheaders() if k.lower() == "etag"], ['"v1"'])
        c.close()

    def curl(self, path, *words):
        return subprocess.run(["curl", "-sS", "-H", "Authorization: Bearer " + A.root, *words, "http://127.0.0.1:%d%s" % (A.port, path)],
                              stdout=subprocess.PIPE, check=True).stdout

    def test_a_long_reply_is_compressed_for_those_who_accept_it(self):
        plain = self.curl("/v1/jobs")
        self.assertGreater(len(plain), 1024)
        self.assertEqual(self.curl("/v1/jobs", "--compressed"), plain)
        status, packed, headers = A.raw("GET", "/v1/jobs", None, {"Authorization": "Bearer " + A.root, "Accept-Encoding": "br, gzip;q=0.5"})
        self.assertEqual((status, headers["content-encoding"], headers["vary"]), (200, "gzip", "Accept-Encoding"))
        self.assertEqual(gzip.decompress(packed), plain)
        self.assertLess(len(packed), len(plain) / 2)
        for refused in ("gzip;q=0", "identity", "gzipped", "br"):
            headers = A.call("GET", "/v1/jobs", headers={"Accept-Encoding": refused})[2]
            self.assertEqual((headers.get("content-encoding"), headers["vary"]), (None, "Accept-Encoding"), refused)
        self.assertNotIn("content-encoding", A.call("GET", "/v1/jobs?limit=1", headers={"Accept-Encoding": "gzip"})[2])

    def test_secrets_and_streams_are_not_compressed(self):
        with_gzip = {"Accept-Encoding": "gzip"}
        got = A.call("POST", "/v1/tokens", {"name": "n" * 60, "role": "viewer", "team": ""}, headers=with_gzip, expect=201)
        self.assertNotIn("content-encoding", got[2])
        self.assertEqual(got[2]["cache-control"], "no-store")
        c = http.client.HTTPConnection("127.0.0.1", A.port, timeout=20)
        c.request("GET", "/v1/events?after=0", headers={"Authorization": "Bearer " + A.root, "Accept": "text/event-stream", **with_gzip})
        r = c.getresponse()
        self.assertEqual((r.getheader("Content-Type"), r.getheader("Content-Encoding")), ("text/event-stream", None))
        c.close()


class Shared(unittest.TestCase):
    def test_a_reply_is_never_older_than_its_request(self):
        """A statement that has begun, and waits in its middle, does not serve a request that comes later."""
        quota = "INSERT INTO quota_real SELECT 'aws', 'r', c, 'spot', 'vcpus', 1, 1 FROM unnest('{%s}'::text[]) c"
        A.sql("ALTER TABLE quota RENAME TO quota_real; CREATE VIEW quota AS SELECT * FROM quota_real WHERE pg_advisory_xact_lock_shared(4711)::text = '';"
              + quota % "before")
        shared, replies = A.metric("spot_http_shared_total"), {}
        readers = [threading.Thread(target=lambda i=i: replies.update({i: A.call("GET", "/v1/quotas", expect=200)[1]["items"]})) for i in range(2)]
        try:
            with A.uncommitted("SELECT pg_advisory_xact_lock(4711)"):
                readers[0].start()
                A.until(lambda: A.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted") == "1", "it reads")
                A.sql(quota % "after")
                readers[1].start()
                A.until(lambda: A.metric("spot_http_shared_total") == shared + 1, "the second one waits")
            for t in readers:
                t.join()
        finally:
            A.sql("DROP VIEW quota; ALTER TABLE quota_real RENAME TO quota")
        self.assertEqual([[q["class"] for q in replies[i]] for i in range(2)], [["before"], ["after", "before"]])

    def test_equal_requests_that_wait_together_cost_one_statement(self):
        shared = A.metric("spot_http_shared_total")
        replies = []
        readers = [threading.Thread(target=lambda: replies.append(A.call("GET", "/v1/quotas", expect=200)[1])) for _ in range(6)]
        with A.uncommitted("LOCK TABLE quota IN ACCESS EXCLUSIVE MODE; SELECT 'locked'") as said:
            self.assertEqual(said, "locked")
            readers[0].start()
            A.until(lambda: A.waiters("quota") == 1, "the first one reads")
            for t in readers[1:]:
                t.start()
            A.until(lambda: A.metric("spot_http_shared_total") == shared + 5, "the others wait")
            self.assertEqual(A.waiters("quota"), 1)
        for t in readers:
            t.join()
        self.assertEqual(len(replies), 6)

    def test_a_bad_request_is_refused_for_each(self):
        self.assertEqual([A.call("GET", "/v1/jobs?limit=x")[0] for _ in range(2)], [400, 400])


if __name__ == "__main__":
    lib.main()
