"""Tests of the judge: each falsified row must be found by the check that guards it."""
import judge as judge_py
from chaos import Failure, Worlds
from judge import Broken, judge, need
from tales import tale

# SQL or Python that falsifies the state behind the product's back, and takes it back; the check that must find it; one
# of its words.
LIES = (
    ("a job that was accepted is not there", "w.jobs.update(j999=10)", "w.jobs.pop('j999')", judge_py.jobs_whole, "accepted were"),
    ("a job failed", "UPDATE job SET state = 'FAILED' WHERE id = {job}", "UPDATE job SET state = 'SUCCEEDED' WHERE id = {job}",
     judge_py.jobs_whole, "FAILED"),
    ("a step was not done", "w.jobs['j{job}'] += 1", "w.jobs['j{job}'] -= 1", judge_py.jobs_whole, "of"),
    ("an attempt began behind a committed step", "UPDATE attempt SET steps_start = steps_start - 1 WHERE job_id = {job} AND epoch = 2",
     "UPDATE attempt SET steps_start = steps_start + 1 WHERE job_id = {job} AND epoch = 2", judge_py.progress_kept, "began at step"),
    ("a piece of a checkpoint is other bytes", "w.store.put({key!r}, b'x')", "w.store.put({key!r}, {body!r})", judge_py.progress_kept, "is not in the store"),
    ("a line of the ledger is one micro-dollar dearer", "UPDATE ledger SET amount_micros = amount_micros + 1 WHERE id = {line}",
     "UPDATE ledger SET amount_micros = amount_micros - 1 WHERE id = {line}", judge_py.money_now, "interval x price"),
    ("an interval is billed a second longer", "UPDATE node SET ended_us = ended_us - 1000000 WHERE id = {node}",
     "UPDATE node SET ended_us = ended_us + 1000000 WHERE id = {node}", judge_py.money_now, "the ledger ends at"),
    ("an interval is billed twice", "UPDATE ledger SET from_us = from_us - 1 WHERE id = {second}", "UPDATE ledger SET from_us = from_us + 1 WHERE id = {second}",
     judge_py.money_now, "was due"),
    ("a price row says another price", "UPDATE price_point SET price_micros = price_micros + 1 WHERE pool_id = {pool}",
     "UPDATE price_point SET price_micros = price_micros - 1 WHERE pool_id = {pool}", judge_py.money_now, "price rows say"),
    ("a machine of the provider's bill has no row", "UPDATE node SET ref = 'i-0' WHERE id = {node}", "UPDATE node SET ref = '{ref}' WHERE id = {node}",
     judge_py.money_now, "in the provider's bill"),
    ("all of it at twice the price", "UPDATE ledger SET price_micros = price_micros * 2, amount_micros = amount_micros * 2 WHERE node_id = {node}",
     "UPDATE ledger SET price_micros = price_micros / 2, amount_micros = amount_micros / 2 WHERE node_id = {node}", judge_py.money_now, "price rows say"),
    ("two leaders at a time", "UPDATE led SET from_us = from_us - 3600000000, epoch = epoch + 1", "UPDATE led SET from_us = from_us + 3600000000, epoch = epoch - 1",
     judge_py.consistent, "consistency"),
    ("a machine is left that nobody asked for", "w.stray()", "w.end_stray()", judge_py.nothing_left, "nothing is left"),
)


def story_judge():
    """The judge judged: after a calm tale each of LIES is told, and must be found."""
    with Worlds() as w:
        tale(w)
        judge(w)
        facts = lie_facts(w)
        patient = w.until

        def hasty(what, timeout_s, test):
            w.least_s = 0
            try:
                return patient(what, min(timeout_s, 2), test)
            finally:
                del w.least_s
        w.until = hasty
        w.pg.psql("ALTER TABLE ledger DISABLE TRIGGER ALL")
        for name, do, undo, check, word in LIES:
            if check is judge_py.nothing_left:  # the last: it stays in the provider's books
                w.until = patient
                judge(w)
                w.until = hasty
            tell_lie(w, do, facts)
            try:
                check(w)
                found = None
            except (Broken, Failure) as e:
                found = str(e)
            tell_lie(w, undo, facts)
            need(found is not None, "the judge does not see that %s", name)
            need(word in found, "the judge sees that %s, and says: %s", name, found)
            w.tell("found: %s: %s" % (name, found.splitlines()[0][:120]))
        w.tell("%d lies, all found" % len(LIES))


def lie_facts(w):
    moved = next(r for r in w.pg.rows("SELECT job_id FROM attempt WHERE epoch = 2"))["job_id"]
    line = w.pg.rows("SELECT l.id, l.node_id, n.pool_id, n.ref FROM ledger l JOIN node n ON n.id = l.node_id WHERE l.job_id = %d AND l.epoch = 2"
                     " AND l.kind = 'compute' AND l.reverses IS NULL ORDER BY l.id LIMIT 1" % moved)[0]
    chunk = w.api("GET", "/v1/checkpoints/" + w.job("j%d" % moved)["checkpoints"][0]["id"])["chunks"][0]
    return {"job": moved, "line": line["id"], "second": line["id"], "node": line["node_id"], "pool": line["pool_id"], "ref": line["ref"],
            "key": chunk["object_key"], "body": w.get_object(chunk["object_key"])[1]}


def tell_lie(w, lie, facts):
    text = lie.format(**facts)
    if text.startswith("w."):
        exec(text, {"w": w})  # noqa: S102  the table above, nothing else
    else:
        w.pg.psql(text)
