"""Ids as the user knows them. A site whose ids do not fit 32 bits is numbered anew inside a run, and the run stores the
table: the command line reads and prints the site's own ids. Without a table both are the same."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from droveway.exits import UsageProblem

if TYPE_CHECKING:
    from coord.auditing.divergence import Divergence
    from coord.explaining.explain import Explanation
    from coord.records import Records
    from coord.simulation.setup import Setup

NO_ZONE: Final = 0xFFFFFFFF
_NAMED: Final = re.compile(r"\b(agent|zone) (\d+)")
_NUMBERED: Final = re.compile(r"^inputs\.(agents|zones)\[(\d+)\]")


@dataclass(frozen=True)
class OutsideIds:
    """The id tables of a run: number inside → id outside, both empty where no table is needed.

    >>> ids = OutsideIds(agents=(7, 9000000000), zones=())
    >>> ids.outside("agent", 1), ids.outside("zone", 1), ids.inside("agent", 7)
    (9000000000, 1, 0)
    """

    agents: tuple[int, ...] = ()
    zones: tuple[int, ...] = ()

    @classmethod
    def of(cls, setup: "Setup") -> "OutsideIds":
        """The tables that a scenario holds."""
        return cls(setup.agent_ids, setup.zone_ids)

    def table(self, what: str) -> tuple[int, ...]:
        """The table of "agent" or "zone"; empty where the ids are the same inside and outside."""
        return self.agents if what == "agent" else self.zones

    def outside(self, what: str, number: int) -> int:
        """The user's id of an agent or a zone; a number that no table holds (also "no zone") stays."""
        table = self.table(what)
        return table[number] if number < len(table) else number

    def inside(self, what: str, wanted: int) -> int:
        """The run's number of an id that the user gave. Raises UsageProblem for an id that the table lacks."""
        table = self.table(what)
        if not table:
            return wanted
        from bisect import bisect_left

        at = bisect_left(table, wanted)
        if at == len(table) or table[at] != wanted:
            raise UsageProblem(
                None, f"--{what} {wanted}: is not among the {len(table)} {what}s of this run", listed_ids(what, table)
            )
        return at

    def words(self, text: str) -> str:
        """A sentence in which "agent 3" and "zone 4" become the user's ids.

        >>> OutsideIds(agents=(7, 90)).words("zone 4 went to agent 1")
        'zone 4 went to agent 90'
        """
        return _NAMED.sub(lambda found: f"{found[1]} {self.outside(found[1], int(found[2]))}", text)

    def queued(self, rows: "Records") -> dict[int, int]:
        """The agent that has a zone later in its queue, by zone, both in the user's ids."""
        later = rows[rows["queue_index"] > 0]
        pairs = zip(later["zone"].tolist(), later["agent"].tolist(), strict=True)
        return {self.outside("zone", zone): self.outside("agent", agent) for zone, agent in pairs}

    def explanation(self, told: "Explanation") -> "Explanation":
        """The same explanation in the user's ids."""
        if not (self.agents or self.zones):
            return told
        options = tuple(
            replace(
                option,
                agent=self.outside("agent", option.agent),
                zone=self.outside("zone", option.zone),
                winner=None if option.winner is None else self.outside("agent", option.winner),
                changes=tuple(map(self.words, option.changes)),
            )
            for option in told.options
        )
        row, *queue = (
            None
            if row is None
            else replace(row, agent=self.outside("agent", row.agent), zone=self.outside("zone", row.zone))
            for row in (told.row, *told.queue)
        )
        return replace(
            told,
            agent=None if told.agent is None else self.outside("agent", told.agent),
            zone=None if told.zone is None else self.outside("zone", told.zone),
            row=row,
            options=options,
            queue=tuple(row for row in queue if row is not None),
        )

    def value(self, field: str, value: Any) -> Any:
        """The value of a field of a row or of inputs: ids become the user's, others stay."""
        what = field.rpartition(".")[2]
        if what not in ("agent", "zone") or not isinstance(value, int) or not self.table(what):
            return value
        return None if value == NO_ZONE else self.outside(what, value)

    def divergence(self, found: "Divergence") -> "Divergence":
        """The same divergence in the user's ids."""
        field = _NUMBERED.sub(lambda part: f"inputs.{part[1]}[{self.outside(part[1][:-1], int(part[2]))}]", found.field)
        return found._replace(
            agent=None if found.agent is None else self.outside("agent", found.agent),
            field=field,
            expected=self.value(field, found.expected),
            got=self.value(field, found.got),
        )


def listed_ids(what: str, ids: Sequence[int], most: int = 8) -> str:
    """The first ids of a table, for people.

    >>> listed_ids("agent", (1, 2, 9000000000), most=2)
    'its agents are 1, 2 and 1 more'
    """
    shown = ", ".join(map(str, ids[:most]))
    rest = len(ids) - most
    return f"its {what}s are {shown}" + (f" and {rest} more" if rest > 0 else "")
