"""The kinds of rows that a statement writes, from its tables. The engine wakes the reconcilers that look
at those rows: pg_stmt.touches, and the payload 'w<hex>' of NOTIFY spot_engine."""
import re

# A table of None wakes nobody; one that is missing here is TOUCH_OTHER.
TOUCHES = {
    "job": "JOB", "node": "NODE", "attempt": "ATTEMPT", "gang": "GANG", "fleet": "FLEET",
    "notice": "NOTICE", "checkpoint": "CHECKPOINT", "checkpoint_chunk": "CHECKPOINT",
    "pool": "MARKET", "pool_cool": "MARKET", "pool_latest": "MARKET", "quota": "MARKET",
    "signal": "MARKET", "gang_cool": "MARKET", "ledger": "MONEY", "team_share": "SHARE",
    "orphan": "ORPHAN", "enrol_proof": "ENROL", "verdict": "VERDICT", "decision": "DECISION",
    "doctor_run": "DOCTOR", "job_queue": None, "event": None, "pool_day": None, "pool_hour": None,
    "leader": None, "led": None, "rate_bucket": None, "doctor_item": "DOCTOR",
    "supply_state": "MARKET", "job_cost": "MONEY", "job_log": None, "idempotency": None,
    "node_sample": None, "api_token": None, "agent_binary": None, "listener": None, "feed": None,
    "provider": None, "price_point": None, "recovery": None, "recovery_sum": None,
    "provider": None, "price_point": None, "pool_reclaim": "MARKET", "burst": None,
    "burst_save": None,
}
# Their bits. Daemons of two versions tell each other of changes, so a name keeps its place: append only.
TOUCH_NAMES = ["JOB", "NODE", "ATTEMPT", "GANG", "FLEET", "NOTICE", "CHECKPOINT", "MARKET", "MONEY", "SHARE", "ORPHAN",
               "ENROL", "VERDICT", "DECISION", "DOCTOR", "OTHER"]
TOUCH_ALL = (1 << len(TOUCH_NAMES)) - 1


def touches_of(tables):
    """The bits of these tables."""
    kinds = {TOUCHES.get(t, "OTHER") for t in tables} - {None}
    return sum(1 << TOUCH_NAMES.index(k) for k in kinds)


def touches(plain):
    """The bits of the rows that this SQL writes; all, if it writes through a function."""
    rx = r"\b(?:INSERT\s+INTO|DELETE\s+FROM|(?<!FOR )(?<!DO )(?<!KEY )UPDATE(?!\s+(?:SET|OF)\b))\s+([a-z_]+)"
    tables = re.findall(rx, plain)
    return touches_of(tables) if tables else TOUCH_ALL
