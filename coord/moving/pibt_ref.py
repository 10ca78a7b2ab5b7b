"""The readable twin of `kernels/waves.cpp`, `kernels/pibt.cpp` and `kernels/guide.cpp`: conflict-free motion on a grid.

Source of the step: Okumura, Machida, Défago and Tamura, "Priority Inheritance with Backtracking for Iterative
Multi-agent Path Finding", Artificial Intelligence 310 (2022); of the swap: Okumura, "Improving LaCAM for Scalable
Eventually Optimal Multi-Agent Pathfinding", IJCAI 2023. `docs/motion.md` defines it for other programs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
U64 = npt.NDArray[np.uint64]
NONE = -1
_WORD = (1 << 64) - 1


def grid_waves(free: U64, width: int, cells: int, start: I32, goal: I32, bits: U64, length: I32) -> None:
    """Breadth first from each goal, a front at a time."""
    offsets = np.array([width, 1, -width, -1])
    is_free = np.unpackbits(free.view(np.uint8), bitorder="little")[:cells].astype(np.bool_)
    for i, (first, home) in enumerate(zip(start.tolist(), goal.tolist(), strict=True)):
        distance = np.full(cells, NONE, np.int64)
        if is_free[home] and is_free[first]:
            distance[home] = 0
            front = np.array([home])
            while len(front):
                near = np.unique(front[:, None] + offsets)
                near = near[is_free[near] & (distance[near] == NONE)]
                distance[near] = distance[front[0]] + 1
                front = near
        length[i] = distance[first]
        flags = np.zeros(bits.shape[1] * 64, np.uint8)
        flags[:cells] = np.where(distance < 0, 0, (distance >> 1) & 1)
        bits[i] = np.packbits(flags, bitorder="little").view("<u8")


def _mixed(x: int) -> int:
    x &= _WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _WORD
    return x ^ (x >> 31)


def _shuffled(salt: int, agent: int) -> list[int]:
    """The four directions: N, E, S, W with salt 0, else a shuffle by the salt and the agent."""
    direction = [0, 1, 2, 3]
    if salt != 0:
        word = _mixed(salt + agent * 0x9E3779B97F4A7C15)
        for k in (3, 2, 1):
            other = (word & 0xFFFF) * (k + 1) >> 16
            word >>= 16
            direction[k], direction[other] = direction[other], direction[k]
    return direction


class Step:
    """One step of all agents. `to` holds -1, or the cell that an agent is told beforehand, and becomes the answer."""

    def __init__(
        self,
        exits: npt.NDArray[np.uint8],
        width: int,
        bits: U64,
        now: I32,
        goal: I32,
        row: I32,
        order: I32,
        swaps: npt.NDArray[np.uint8],
        guide: tuple[I32, npt.NDArray[np.int64]] | None,
        salt: int,
        to: list[int],
    ) -> None:
        self.exits, self.width, self.bits = exits.tolist(), width, bits
        self.now, self.goal, self.row, self.order = now.tolist(), goal.tolist(), row.tolist(), order.tolist()
        self.swaps, self.salt, self.to = swaps.tolist(), salt, to
        self.offsets = (width, 1, -width, -1)
        self.here = {cell: i for i, cell in enumerate(self.now)}
        self.there: dict[int, int] = {}
        self.guide = None if guide is None else (guide[0].tolist(), guide[1].tolist())

    def run(self) -> bool:
        """Whether everybody has a cell."""
        for i, cell in enumerate(self.to):
            if cell == NONE:
                continue
            other = self.here.get(cell, NONE)
            if cell in self.there or (other not in (NONE, i) and self.to[other] == self.now[i]):
                return False
            self.there[cell] = i
        return all(self.to[i] != NONE or self._move(i) for i in self.order)

    def value(self) -> int:
        """Steps away from goals less steps towards them, and one for each agent that was or is not at its goal."""
        total = 0
        for i, (a, b, g) in enumerate(zip(self.now, self.to, self.goal, strict=True)):
            if g != NONE:
                total += 0 if a == b else -1 if self.nearer(i, a, b) else 1
                total += a != g or b != g
        return total

    def _bit(self, i: int, cell: int) -> int:
        return int(self.bits[self.row[i], cell // 64]) >> (cell % 64) & 1

    def nearer(self, i: int, start: int, to: int) -> bool:
        """Whether the neighbouring cell `to` is nearer to the agent's goal."""
        g = self.goal[i]
        if g == NONE:
            return False
        odd = (start // self.width + start % self.width + g // self.width + g % self.width) & 1
        return bool(self._bit(i, start) ^ self._bit(i, to) ^ odd)

    def _neighbours(self, cell: int) -> list[int]:
        return [cell + offset for d, offset in enumerate(self.offsets) if self.exits[cell] >> d & 1]

    def _choices(self, i: int) -> tuple[list[int], int]:
        at, preferred = self.now[i], NONE
        if self.guide is not None:
            cells, start = self.guide
            path = cells[start[i] : start[i + 1]]
            if at in path[:-1]:
                preferred = path[path.index(at) + 1]
        beside = [at + self.offsets[d] for d in _shuffled(self.salt, i) if self.exits[at] >> d & 1]
        rank = {u: (0 if self.nearer(i, at, u) else 3) + (u in self.here) for u in beside}
        rank[at] = 2
        if preferred in beside:
            rank[preferred] = -1
        choices = sorted(rank, key=rank.__getitem__)  # stable: ties stay in the order of `beside`
        partner = self._partner(i, choices[0]) if self.swaps[i] else NONE
        return (choices if partner == NONE else choices[::-1]), partner

    def _exits_but(self, cell: int, start: int) -> list[int]:
        found = []
        for u in self._neighbours(cell):
            holder = self.here.get(u, NONE)
            at_home = holder != NONE and self.goal[holder] == u and len(self._neighbours(u)) == 1
            if u != start and not at_home:
                found.append(u)
        return found

    def _swap_required(self, pusher: int, puller: int, start: int, into: int) -> bool:
        left = len(self.exits)
        while left > 0 and self.nearer(pusher, start, into):
            exits = self._exits_but(into, start)
            if len(exits) >= 2:
                return False
            if not exits:
                break
            start, into, left = into, exits[-1], left - 1
        return self.nearer(puller, into, start) and (start == self.goal[pusher] or self.nearer(pusher, start, into))

    def _swap_possible(self, start: int, into: int) -> bool:
        origin, left = start, len(self.exits)
        while into != origin and left > 0:
            exits = self._exits_but(into, start)
            if len(exits) != 1:
                return len(exits) >= 2
            start, into, left = into, exits[0], left - 1
        return False

    def _partner(self, i: int, first: int) -> int:
        at, j = self.now[i], self.here.get(first, NONE)
        free = j not in (NONE, i) and self.to[j] == NONE
        if free and self._swap_required(i, j, at, first) and self._swap_possible(first, at):
            return j
        if first == at:
            return NONE
        for u in self._neighbours(at):
            k = self.here.get(u, NONE)
            if k == NONE or u == first:
                continue
            if self._swap_required(k, i, at, first) and self._swap_possible(first, at):
                return k
        return NONE

    def _move(self, first: int) -> bool:
        """Settle an agent and whomever it pushes. (choices, how many were tried, partner of the swap) a link."""
        chain: list[tuple[int, list[int], int]] = []
        tried: dict[int, int] = {}

        def enter(agent: int) -> None:
            chain.append((agent, *self._choices(agent)))
            tried[agent] = 0

        enter(first)
        while True:
            i, choices, _ = chain[-1]
            at, pushed, settled = self.now[i], NONE, False
            while tried[i] < len(choices) and not settled:
                u = choices[tried[i]]
                tried[i] += 1
                j = self.here.get(u, NONE)
                if u in self.there or (j != NONE and self.to[j] == at):
                    continue
                self.there[u], self.to[i], settled = i, u, True
                if j != NONE and u != at and self.to[j] == NONE:
                    pushed = j
            if pushed != NONE:
                enter(pushed)
            elif not settled:  # stays; who pushed it goes on with its next choice
                self.there[at], self.to[i] = i, at
                chain.pop()
                if not chain:
                    return False
            else:
                for agent, _, partner in reversed(chain):
                    at = self.now[agent]
                    if partner != NONE and tried[agent] == 1 and self.to[partner] == NONE and at not in self.there:
                        self.there[at], self.to[partner] = partner, at
                return True


def guide_paths(
    exits: npt.NDArray[np.uint8],
    width: int,
    bits: U64,
    costs: tuple[int, int, int],  # of a meeting, an exchange, an agent parked there
    start: I32,
    goal: I32,
    length: I32,
    order: I32,
    slabs: int,
    path: I32,
    path_start: npt.NDArray[np.int64],
) -> None:
    """Shortest paths, planned in the given order, each the cheapest among those planned before it."""
    meeting, exchange, parked = costs
    offsets = (width, 1, -width, -1)
    leaving: dict[tuple[int, int, int], int] = {}  # (tick % slabs, cell, direction) → agents, at most 15
    arrives: dict[int, int] = {}
    for i in order.tolist():
        front, cost = [int(start[i])], {int(start[i]): 0}
        entered: dict[int, int] = {}
        for t in range(int(length[i])):
            want = (int(length[i]) - t - 1) >> 1 & 1
            now, then = t % slabs, (t + 1) % slabs
            following: dict[int, int] = {}
            for c in front:
                for d, offset in enumerate(offsets):
                    u = c + offset
                    if not exits[c] >> d & 1 or int(bits[i, u // 64]) >> (u % 64) & 1 != want or u in cost:
                        continue
                    total = cost[c] + meeting * sum(leaving.get((then, u, e), 0) for e in range(4))
                    total += exchange * leaving.get((now, u, d ^ 2), 0)
                    if u in arrives and arrives[u] <= t + 1:
                        total += parked
                    if u not in following or total < following[u]:
                        following[u] = total
                        entered[u] = d
            cost.update(following)
            front = list(following)
        cell = int(goal[i])
        assert cell in cost, "the bits are the distances"
        arrives[cell] = int(length[i])
        for t in range(int(length[i]), -1, -1):
            path[path_start[i] + t] = cell
            if t:
                d = entered[cell]
                cell -= offsets[d]
                key = ((t - 1) % slabs, cell, d)
                leaving[key] = min(leaving.get(key, 0) + 1, 15)
