"""The broker's ledger against the clouds' own bills, in the emulator's books."""
import datetime

from clouds import ALL
from world import align

# Why the broker counts more than the cloud bills.
REASONS = {"start": "from the launch call until the cloud calls the machine running",
           "end": "after the cloud ended the bill, until the broker saw it",
           "never": "a Pod that no machine took",
           "free": "free first hour of a reclaimed machine, not credited yet",
           "price": "time that only the cloud counts (negative), price steps, rounding"}


def micros_of(text):
    t = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (t - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)) // datetime.timedelta(microseconds=1)


def bill_of(node, bills):
    """The machine of a node in the books, None without one. A Pod is gone by now, and its machine has other names: it ran when the
    Pod did."""
    names = {node["ref"], node["ref"].split("/")[-1], node["name"], node["token"]} - {"", None}
    begin, end = micros_of(node["launched_at"]), micros_of(node["ended_at"])
    return next((b for b in bills if names & {b["instance"], b["name"], b["token"]}), None) or next(
        (b for b in bills if b["provider"] == node["pool"]["provider"] == "coreweave" and node["ready_at"]
         and b["from_us"] < end and b["to_us"] > begin), None)


def split(line, bill):
    """The parts of a ledger line before, after and inside the time that the cloud bills."""
    begin, end, amount = micros_of(line["from_at"]), micros_of(line["to_at"]), line["amount_micros"]
    whole = max(end - begin, 1)
    before = amount * max(min(end, bill["from_us"]) - begin, 0) // whole
    after = amount * max(end - max(begin, bill["to_us"]), 0) // whole
    return {"start": before, "end": after, "price": amount - before - after}


def billed_of(i):
    """The books tell beside what it would cost that AWS takes nothing for a machine that it takes back within its first hour."""
    return 0 if i["free_first_hour"] else i["cost_micros"]


def not_billed(cost, nodes, books):
    """The broker's lines against the machines' bills: cloud, reason and dollars. Their sum is exactly the difference."""
    bills = {i["instance"]: i for i in books["instances"]}
    rest = {cloud: dict.fromkeys(REASONS, 0) for cloud in ALL}
    lines = {}
    for line in cost["items"]:
        lines.setdefault(line["node"], []).append(line)
    for node, own in lines.items():
        cloud = own[0]["pool"]["provider"]
        bill = bill_of(nodes[node], bills.values())
        if bill is None:
            rest[cloud]["never"] += sum(line["amount_micros"] for line in own)
            continue
        del bills[bill["instance"]]
        if bill["free_first_hour"]:
            rest[cloud]["free"] += sum(line["amount_micros"] for line in own)
            continue
        for line in own:
            for reason, part in split(line, bill).items():
                rest[cloud][reason] += part
        rest[cloud]["price"] -= bill["cost_micros"]
    for bill in bills.values():
        rest[bill["provider"]]["price"] -= billed_of(bill)
    return [{"cloud": cloud, "reason": REASONS[reason], "usd": round(part / 1e6, 6)}
            for cloud, parts in rest.items() for reason, part in parts.items() if part]


def print_not_billed(s):
    """The lines between the broker's total and the clouds' bills."""
    rows = ["  NOT BILLED BY THE CLOUD\tUSD\tREASON"]
    rows += ["  %s\t%.6f\t%s" % (x["cloud"], x["usd"], x["reason"]) for x in s["not_billed"]]
    rows.append("  total\t%.6f\tthe broker's %.6f less the clouds' %.6f" % (
        sum(x["usd"] for x in s["not_billed"]), s["cost_usd"], s["provider_bill_usd"]))
    print("\n".join(align(rows)))
