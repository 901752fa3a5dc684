"""The links of a private network: filters of the kernel's bridge, or the rules of our own switch.

Cuts on a bridge, refusals and resets are the kernel's doing. Delay, bandwidth and all that befalls
single packets needs the switch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec
import trio

from .levels import LINKS, MESSAGES, PACKETS, RST, SHAPES
from .link_counts import add, subtract
from .links import LinkCounts, LinkError, LinkRule, Pair, combine
from .namespaces import inside_network
from .netlink.connections import Connection, Connections
from .netlink.filters import CUT, REFUSE, Filters, Hit
from .private_network import End, PrivateNetwork
from .proxy.messages import KINDS
from .resets import LAST_WORDS_S, reset_one_end
from .switch import control
from .switch.kinds import PAYLOAD
from .switch.process import SwitchError, SwitchProcess
from .switch.treatment import PacketRule
from .wire.marks import MarkWriter

_CUT_S: Final = 4000.0
"""Longer than any fault: the kernel ends it by itself should nobody do so."""
_SHAPING: Final = ("delay_ms", "jitter_ms", "rate_bytes_s")
_OF_PACKETS: Final = ("loss", "duplicate", "reorder", "corrupt")


@dataclass(slots=True)
class _Fault:
    """What one fault does and did.

    Attributes:
        rules: By link.
        before: What had happened on each of its links when it began.
        after: What it did, once it has ended.
    """

    rules: dict[Pair, LinkRule]
    before: dict[Pair, LinkCounts] = field(default_factory=dict)
    after: dict[Pair, LinkCounts] = field(default_factory=dict)


class PrivateLinks:
    """See `links.Links`.

    Args:
        network: The ends.
        switch: What joins them, if no bridge does.

    Raises:
        OSError: The kernel refuses a table.
    """

    def __init__(self, network: PrivateNetwork, switch: SwitchProcess | None = None) -> None:
        self._network = network
        self._switch = switch
        self.powers = frozenset({LINKS, RST} | ({SHAPES, PACKETS, MESSAGES} if switch else set()))
        with inside_network(network.home):
            self._cuts = None if switch else Filters(CUT)
        self._refusals: dict[str, Filters] = {}
        self._connections: dict[str, Connections] = {}
        self._faults: dict[str, _Fault] = {}
        self._silenced: Counter[Pair] = Counter()
        self._cut: set[Pair] = set()
        self._refused: set[Pair] = set()
        self._past: dict[Pair, LinkCounts] = {}
        self._names = {end.address: name for name, end in network.ends.items()}
        self._by_number = {end.number: name for name, end in network.ends.items()}
        self._turn = trio.Lock()
        self._marks: MarkWriter | None = None

    def tell(self, marks: MarkWriter) -> None:
        """Tell of each fault from now on, before it acts; `close` closes the marks."""
        self._marks = marks

    async def begin(self, fault: str, rules: Mapping[Pair, LinkRule]) -> None:
        """See `links.Links`."""
        self._check(rules)
        async with self._turn:
            assert fault not in self._faults, f"fault {fault} has begun already"
            totals = await self._totals()
            before = {pair: totals.get(pair, LinkCounts()) for pair in rules}
            self._faults[fault] = _Fault(dict(rules), before)
            if self._marks is not None:
                self._marks.begin(fault, rules)
            await self._apply()
        async with trio.open_nursery() as nursery:
            for pair, rule in rules.items():
                nursery.start_soon(self._reset, pair, rule)

    async def end(self, fault: str) -> None:
        """See `links.Links`."""
        async with self._turn:
            ending = self._faults.get(fault)
            if ending is None or ending.after:
                return
            ending.after = _since(ending, await self._totals())
            ending.rules = {}
            await self._apply()
            if self._marks is not None:
                self._marks.end(fault)

    async def counts(self, fault: str) -> Mapping[Pair, LinkCounts]:
        """See `links.Links`."""
        async with self._turn:
            told = self._faults.get(fault)
            if told is None:
                return {}
            return told.after or _since(told, await self._totals())

    def _check(self, rules: Mapping[Pair, LinkRule]) -> None:
        for pair, rule in rules.items():
            for name in pair:
                if name not in self._network.ends:
                    known = ", ".join(self._network.ends)
                    raise LinkError(f"there is no end {name!r}; choose from: {known}")
            if rule.only and rule.only not in KINDS.values():
                known = ", ".join(KINDS.values())
                raise LinkError(
                    f"there are no messages of kind {rule.only!r}; choose from: {known}"
                )
            if rule.only and rule != LinkRule(drop=True, only=rule.only):
                raise LinkError(f"{rule.only} can be dropped, and nothing else")
            chosen = (*_SHAPING, *_OF_PACKETS, "only", "spares_acks")
            asked = [name for name in chosen if getattr(rule, name)]
            if asked and self._switch is None:
                raise LinkError(f"{asked[0]} needs the packet switch, which this run has not")

    async def _apply(self) -> None:
        """Put what all faults together want into force."""
        wanted: dict[Pair, LinkRule] = {}
        chosen: dict[tuple[Pair, str], PacketRule] = {}
        for fault in self._faults.values():
            for pair, rule in fault.rules.items():
                if rule.only:
                    chosen[pair, rule.only] = PacketRule(drop=True, only=rule.only)
                else:
                    wanted[pair] = combine((wanted.get(pair, LinkRule()), rule))
        silenced = {pair for pair, times in self._silenced.items() if times}
        cut = {pair for pair, rule in wanted.items() if rule.drop} | silenced
        try:
            if self._cuts is not None:
                self._put(self._cuts, cut, self._cut)
            if self._switch is not None:
                await self._instruct(self._switch, wanted, chosen, silenced)
            self._refuse({pair for pair, rule in wanted.items() if rule.refuse})
        except (OSError, SwitchError) as error:
            raise LinkError(str(error)) from None
        self._cut = cut

    def _put(self, filters: Filters, wanted: set[Pair], present: set[Pair]) -> None:
        """Change a set of pairs, and keep what those that go have met."""
        met = {self._pair(key): hit for key, hit in filters.counts().items()}
        gone = present - wanted
        for pair in gone & met.keys():
            self._remember(pair, _dropped(met[pair]))
        # One whose time has run out is not in the set any more.
        filters.change(
            [self._key(pair) for pair in wanted - met.keys()],
            [self._key(pair) for pair in gone & met.keys()],
            _CUT_S,
        )

    def _refuse(self, wanted: set[Pair]) -> None:
        for name in {target for _, target in wanted | self._refused}:
            filters = self._refusals.get(name)
            if filters is None:
                with self._network.inside(name):
                    filters = self._refusals[name] = Filters(REFUSE)
            here = {pair for pair in wanted if pair[1] == name}
            for pair in {pair for pair in self._refused if pair[1] == name} - here:
                hit = filters.counts()[self._key(pair)[:1]]
                self._remember(pair, LinkCounts(refused=hit.packets))
                filters.change([], [self._key(pair)[:1]], _CUT_S)
            filters.change([self._key(pair)[:1] for pair in here - self._refused], [], _CUT_S)
        self._refused = wanted

    async def _instruct(
        self,
        switch: SwitchProcess,
        wanted: Mapping[Pair, LinkRule],
        chosen: Mapping[tuple[Pair, str], PacketRule],
        silenced: set[Pair],
    ) -> None:
        rules = dict(chosen)
        for pair, rule in wanted.items():
            if rule.spares_acks:
                rules[pair, PAYLOAD] = PacketRule(drop=True, only=PAYLOAD)
            rules[pair, ""] = _of_packets(rule)
        rules |= {(pair, ""): PacketRule(drop=True) for pair in silenced}
        ends = self._network.ends
        answer = await switch.set_rules(
            [
                control.LinkRule(ends[source].number, ends[target].number, of_packets)
                for ((source, target), _), of_packets in rules.items()
                if of_packets != PacketRule()
            ]
        )
        for pair, counts in self._counted(answer.counts):
            self._remember(pair, counts)

    async def _totals(self) -> dict[Pair, LinkCounts]:
        """What has happened on each link since the run began."""
        totals = dict(self._past)
        try:
            for pair, counts in await self._live():
                totals[pair] = add(totals.get(pair, LinkCounts()), counts)
        except (OSError, SwitchError) as error:
            raise LinkError(str(error)) from None
        return totals

    async def _live(self) -> list[tuple[Pair, LinkCounts]]:
        """What the rules in force have done."""
        found: list[tuple[Pair, LinkCounts]] = []
        if self._cuts is not None:
            met = self._cuts.counts().items()
            found += [(self._pair(key), _dropped(hit)) for key, hit in met]
        if self._switch is not None:
            found += self._counted((await self._switch.counts()).counts)
        for name, filters in self._refusals.items():
            for (source,), hit in filters.counts().items():
                found.append(((self._names[source], name), LinkCounts(refused=hit.packets)))
        return found

    async def _reset(self, pair: Pair, rule: LinkRule) -> None:
        """Do what a rule does to the connections of a link when it begins."""
        source, target = (self._network.ends[name] for name in pair)
        back = (pair[1], pair[0])
        resets = 0
        if rule.reset == "both":
            resets = self._destroy(source, target)
        elif rule.reset == "one":
            resets = await reset_one_end(
                self._network.home, target, source, self._over, lambda: self._silent(back)
            )
        elif rule.half_open:
            async with self._silent(back):
                resets = self._destroy(target, source)
                await trio.sleep(LAST_WORDS_S)
        if resets:
            self._remember(pair, LinkCounts(resets=resets))

    @asynccontextmanager
    async def _silent(self, pair: Pair) -> AsyncIterator[None]:
        """Let nothing pass meanwhile: an end that closed answers whatever it gets by a reset."""
        async with self._turn:
            self._silenced[pair] += 1
            await self._apply()
        try:
            yield
        finally:
            with trio.CancelScope(shield=True):
                async with self._turn:
                    self._silenced[pair] -= 1
                    await self._apply()

    def _between(self, here: End, there: End) -> list[Connection]:
        """List the connections that an end has with another one."""
        known = self._connections.get(here.name)
        if known is None:
            with self._network.inside(here.name):
                known = self._connections[here.name] = Connections()
        return [each for each in known.established() if each.remote[0] == there.address]

    def _over(self, victim: End, peer: End) -> set[tuple[int, int]]:
        """Name the ports of the connections that a victim still has with a peer."""
        return {(each.local[1], each.remote[1]) for each in self._between(victim, peer)}

    def _destroy(self, here: End, there: End) -> int:
        found = self._between(here, there)
        return sum(self._connections[here.name].destroy(each) for each in found)

    def _remember(self, pair: Pair, counts: LinkCounts) -> None:
        self._past[pair] = add(self._past.get(pair, LinkCounts()), counts)

    def _key(self, pair: Pair) -> tuple[str, ...]:
        return tuple(self._network.ends[name].address for name in pair)

    def _pair(self, key: tuple[str, ...]) -> Pair:
        return self._names[key[0]], self._names[key[1]]

    def _counted(self, told: Iterable[control.LinkCount]) -> list[tuple[Pair, LinkCounts]]:
        names = self._by_number
        return [
            (
                (names[each.source], names[each.target]),
                LinkCounts(**msgspec.structs.asdict(each.counts)),
            )
            for each in told
        ]

    def close(self) -> None:
        """Close every socket; rules that are in force stay until the network goes."""
        if self._marks is not None:
            self._marks.close()
        for each in (self._cuts, *self._refusals.values(), *self._connections.values()):
            if each is not None:
                each.close()


def _since(fault: _Fault, totals: Mapping[Pair, LinkCounts]) -> dict[Pair, LinkCounts]:
    return {
        pair: subtract(totals.get(pair, LinkCounts()), before)
        for pair, before in fault.before.items()
    }


def _dropped(hit: Hit) -> LinkCounts:
    return LinkCounts(dropped=hit.packets, bytes=hit.bytes)


def _of_packets(rule: LinkRule) -> PacketRule:
    """Keep what the switch has to do with."""
    return PacketRule(
        drop=rule.drop and not rule.spares_acks,
        **{name: getattr(rule, name) for name in (*_SHAPING, *_OF_PACKETS)},
    )
