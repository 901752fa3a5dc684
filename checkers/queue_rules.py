"""The rules of the workload `queue`, one function each.

All comparisons of times are conservative: an operation's effect lies somewhere between its
invocation and its completion, and a rule speaks only where every such moment would break it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from ..histories.ops import Op
from ..histories.queue_ops import MAY_HOLD, SETTLED, Delivery
from .broker_evidence import OpFinding, Paired
from .findings import seconds
from .queue_facts import Pop, QueueFacts, Taken

_NS = 1_000_000_000


def judge_lost(facts: QueueFacts) -> Iterator[OpFinding]:
    """Judge `lost`; only after a drain, when whatever is left would have come.

    A message whose ack has no known outcome counts as taken.
    """
    for id_, put in facts.puts.items():
        taken = facts.taken.get(id_, [])
        if put.answer is None or any(one.may_hold for one in taken):
            continue
        came = f"{len(taken)} deliveries, every ack rejected" if taken else "no delivery"
        where = f"partition {put.asked.partition}, offset {put.answer.offset}"
        yield OpFinding(
            "lost",
            f"message {id_} ({where}) was acknowledged, and until the end of the drain there was "
            f"{came}",
            (*put.op.ops, *_ops(taken)),
            (id_,),
        )


def judge_unexpected(facts: QueueFacts) -> Iterator[OpFinding]:
    """Judge `unexpected`: nothing comes out that did not go in, or before it did."""
    for id_, taken in facts.taken.items():
        put = facts.puts.get(id_)
        for one in taken:
            if put is None:
                why = "which nobody had enqueued"
            elif put.op.is_fail:
                why = "whose enqueue certainly failed"
            elif one.pop.popped_ns < put.op.invoke.time_ns:
                why = "before its enqueue began"
            else:
                continue
            ops = (*one.pop.op.ops, *(put.op.ops if put else ()))
            yield OpFinding("unexpected", f"message {id_} was delivered, {why}", ops, (id_,))
            break


def judge_acked_twice(facts: QueueFacts) -> Iterator[OpFinding]:
    """Judge `acked-twice`; an ack that was answered as already done does not count."""
    for id_, taken in facts.taken.items():
        acked = [one for one in taken if one.delivery.ack == "acked"]
        if len(acked) > 1:
            text = f"{len(acked)} acks of message {id_} were carried out, under "
            leases = ", ".join(f"lease {one.delivery.lease}" for one in acked)
            yield OpFinding("acked-twice", text + leases, _ops(acked), (id_,))


def judge_redelivered(facts: QueueFacts) -> Iterator[OpFinding]:
    """Judge `redelivered-after-ack`: a pop that began after the ack's answer had the message."""
    for id_, taken in facts.taken.items():
        settled = min((one for one in taken if one.is_settled), key=_done, default=None)
        if settled is None:
            continue
        for again in taken:
            if again.pop.invoke_ns > settled.pop.done_ns:
                after = seconds(again.pop.invoke_ns - settled.pop.done_ns)
                yield OpFinding(
                    "redelivered-after-ack",
                    f"message {id_} was delivered by a pop that began {after} after its ack",
                    _ops([settled, again]),
                    (id_,),
                )
                break


def judge_overlap(facts: QueueFacts, slack_s: float) -> Iterator[OpFinding]:
    """Judge `lease-overlap`.

    A lease holds for certain from its pop's answer to its length after its pop's invocation.
    """
    slack_ns = round(slack_s * _NS)
    for id_, taken in facts.taken.items():
        windows = sorted(
            (
                (one.pop.popped_ns, one.pop.invoke_ns + one.pop.asked.lease_s * _NS - slack_ns, one)
                for one in taken
            ),
            key=lambda window: window[:2],
        )
        for (_, until_ns, one), (from_ns, other_until_ns, other) in pairwise(windows):
            if from_ns < min(until_ns, other_until_ns):
                left = seconds(until_ns - from_ns)
                yield OpFinding(
                    "lease-overlap",
                    f"message {id_} was delivered under lease {other.delivery.lease} while lease "
                    f"{one.delivery.lease} had {left} left",
                    _ops([one, other]),
                    (id_,),
                )
                break


def judge_offsets(facts: QueueFacts) -> Iterator[OpFinding]:
    """Judge `offset-value-mismatch`: an offset and a message belong together for ever."""
    holders: dict[tuple[str, int], dict[str, Paired]] = defaultdict(dict)
    places: dict[str, dict[tuple[str, int], Paired]] = defaultdict(dict)
    told = [
        (put.asked.id, (put.asked.partition, put.answer.offset), put.op)
        for put in (*facts.puts.values(), *facts.puts_again)
        if put.answer is not None and put.answer.offset is not None
    ]
    told += [
        (id_, (one.delivery.partition, one.delivery.offset), one.pop.op)
        for id_, taken in facts.taken.items()
        for one in taken
    ]
    for id_, place, op in told:
        holders[place].setdefault(id_, op)
        places[id_].setdefault(place, op)
    for (partition, offset), ids in holders.items():
        if len(ids) > 1:
            names = " and ".join(ids)
            text = f"partition {partition}, offset {offset} held {names}"
            ops = tuple(record for op in ids.values() for record in op.ops)
            yield OpFinding("offset-value-mismatch", text, ops, tuple(ids))
    for id_, found in places.items():
        if len(found) > 1:
            names = " and at ".join(f"partition {p}, offset {offset}" for p, offset in found)
            ops = tuple(record for op in found.values() for record in op.ops)
            yield OpFinding("offset-value-mismatch", f"message {id_} stood at {names}", ops, (id_,))


def judge_internal_gap(facts: QueueFacts) -> Iterator[OpFinding]:
    """Judge `pop-internal-gap`: a pop's messages of one partition follow each other."""
    for pop in facts.pops:
        for partition, deliveries in pop.by_partition().items():
            for one, after in pairwise(deliveries):
                if after.offset != one.offset + 1:
                    text = (
                        f"one pop delivered offset {after.offset} of partition {partition} right "
                        f"after offset {one.offset}"
                    )
                    yield OpFinding("pop-internal-gap", text, pop.op.ops, (one.id, after.id))
                    break


def judge_skip(facts: QueueFacts) -> Iterator[OpFinding]:
    """Judge `pop-skip`.

    A pop may begin at most one above the highest offset that may have been acked by an operation
    that began before the pop was answered; an ack completes whatever lies below it.
    """
    takes: dict[str, list[tuple[int, Pop, list[Delivery]]]] = defaultdict(list)
    for pop in facts.pops:
        for partition, deliveries in pop.by_partition().items():
            takes[partition].append((pop.popped_ns, pop, deliveries))
    for partition, found in takes.items():
        highest = -1
        for _, pop, deliveries in sorted(found, key=lambda take: take[0]):
            first = min(deliveries, key=lambda delivery: delivery.offset)
            if first.offset > highest + 1:
                text = (
                    f"a pop of partition {partition} began at offset {first.offset}, and nothing "
                    f"above offset {highest} could have been acked"
                )
                yield OpFinding("pop-skip", text, pop.op.ops, (first.id,))
            held = [delivery.offset for delivery in deliveries if delivery.ack in MAY_HOLD]
            highest = max([highest, *held])


def judge_payload(facts: QueueFacts) -> Iterator[OpFinding]:
    """Judge `payload-mismatch`."""
    for id_, taken in facts.taken.items():
        put = facts.puts.get(id_)
        for one in taken:
            if put is not None and one.delivery.digest != put.asked.digest:
                text = (
                    f"message {id_} was enqueued with payload {put.asked.digest} and delivered "
                    f"with {one.delivery.digest}"
                )
                yield OpFinding("payload-mismatch", text, (*put.op.ops, *one.pop.op.ops), (id_,))
                break


def judge_recall(facts: QueueFacts) -> Iterator[OpFinding]:
    """Judge `ack-not-recalled`.

    The repeat of an ack that was carried out gets its first answer as long as no other lease of
    that partition was released in between; an ack without a known outcome may have released one.
    """
    releases: dict[str, list[Pop]] = defaultdict(list)
    for pop in facts.pops:
        for partition, deliveries in pop.by_partition().items():
            if any(delivery.ack in MAY_HOLD for delivery in deliveries):
                releases[partition].append(pop)
    for again in facts.again:
        asked = zip(again.asked.ids, again.acks, strict=False)
        refused = [id_ for id_, ack in asked if ack == "rejected"]
        first = _released_by(releases[again.asked.partition], again.asked.lease)
        if not refused or first is None or again.op.end is None:
            continue
        until_ns = again.op.end.time_ns
        if any(
            pop is not first and pop.done_ns > first.popped_ns and pop.popped_ns < until_ns
            for pop in releases[again.asked.partition]
        ):
            continue
        text = (
            f"the ack of {', '.join(refused)} under lease {again.asked.lease} was carried out; "
            "asked for again, with no other lease of that partition released since, it was refused"
        )
        yield OpFinding("ack-not-recalled", text, (*first.op.ops, *again.op.ops), tuple(refused))


def _released_by(pops: list[Pop], lease: str) -> Pop | None:
    """Return the pop whose ack certainly released a lease."""
    for pop in pops:
        if pop.deliveries[0].lease == lease and all(d.ack in SETTLED for d in pop.deliveries):
            return pop
    return None


def _done(one: Taken) -> int:
    return one.pop.done_ns


def _ops(taken: list[Taken]) -> tuple[Op, ...]:
    return tuple(record for one in taken for record in one.pop.op.ops)
