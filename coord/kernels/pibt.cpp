// One conflict-free step: priority inheritance with backtracking, and the swap operation; the twin is coord/moving/pibt_ref.py.
//
// Source: Okumura, Machida, Défago, Tamura, "Priority Inheritance with Backtracking for Iterative Multi-agent Path
// Finding", Artificial Intelligence 310 (2022); the swap from Okumura, "Improving LaCAM for Scalable Eventually Optimal
// Multi-Agent Pathfinding", IJCAI 2023. Integers only: no guard needed.
#include "arena.hpp"
#include "kernels.hpp"


namespace DW_ISA {
using droveway::Distances;
using droveway::Lattice;
using droveway::PibtStep;

namespace {
constexpr int32_t none = -1;
constexpr int kChoices = 5;  // four neighbours and staying

uint64_t mixed(uint64_t x) {  // SplitMix64's finaliser
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

class Stepper {
 public:
  Stepper(const Lattice& lattice, const Distances& distances, const PibtStep& step, int32_t* to, void* workspace)
      : l_(lattice), d_(distances), s_(step), to_(to), offset_{lattice.width, 1, -lattice.width, -1} {
    Arena arena(workspace);
    here_ = arena.take<int32_t>(size_t(lattice.cells));
    there_ = arena.take<int32_t>(size_t(lattice.cells));
    choice_ = arena.take<int32_t>(step.n * kChoices);
    count_ = arena.take<uint8_t>(step.n);
    tried_ = arena.take<uint8_t>(step.n);
    puller_ = arena.take<int32_t>(step.n);
    chain_ = arena.take<int32_t>(step.n);
  }

  static size_t workspace(int32_t cells, size_t n) {
    return 2 * Arena::bytes(size_t(cells) * 4) + Arena::bytes(n * kChoices * 4) + 2 * Arena::bytes(n) + 2 * Arena::bytes(n * 4) + 64;
  }

  bool run() {
    memset(here_, 0xFF, size_t(l_.cells) * sizeof *here_);
    memset(there_, 0xFF, size_t(l_.cells) * sizeof *there_);
    for (size_t i = 0; i < s_.n; ++i) here_[s_.now[i]] = int32_t(i);
    for (size_t i = 0; i < s_.n; ++i) {  // cells settled beforehand: no two the same, none exchanged
      const int32_t u = to_[i];
      if (u == none) continue;
      const int32_t j = here_[u];
      if (there_[u] != none || (j != none && j != int32_t(i) && to_[j] == s_.now[i])) return false;
      there_[u] = int32_t(i);
    }
    for (size_t k = 0; k < s_.n; ++k) {
      const int32_t i = s_.order[k];
      if (to_[i] == none && !move(i)) return false;
    }
    return true;
  }

  // Steps away from goals less steps towards them, and one for each agent that was or is not at its goal.
  int64_t value() const {
    int64_t sum = 0;
    for (size_t i = 0; i < s_.n; ++i) {
      const int32_t a = s_.now[i], b = to_[i], g = s_.goal[i];
      if (g == none) continue;
      if (a != b) sum += nearer(int32_t(i), a, b) ? -1 : 1;
      if (a != g || b != g) ++sum;
    }
    return sum;
  }

 private:
  bool bit(int32_t i, int32_t cell) const {
    return (d_.bits[size_t(s_.row[i]) * d_.words + size_t(cell) / 64] >> (cell % 64)) & 1;
  }
  // Whether the neighbouring cell `to` is nearer to the agent's goal: distances differ by one, and their parity is known.
  bool nearer(int32_t i, int32_t from, int32_t to) const {
    const int32_t g = s_.goal[i];
    if (g == none) return false;
    const uint32_t odd = uint32_t(from / l_.width + from % l_.width + g / l_.width + g % l_.width) & 1;
    return (uint32_t(bit(i, from)) ^ uint32_t(bit(i, to)) ^ odd) != 0;
  }

  // Neighbours nearer to the goal, the cell itself, the others; the guide path's next cell before all.
  void list_choices(int32_t i) {
    const int32_t at = s_.now[i];
    int32_t* out = choice_ + size_t(i) * kChoices;
    int32_t preferred = none;
    if (s_.path != nullptr) {
      const int32_t *path = s_.path + s_.path_start[i], *end = s_.path + s_.path_start[i + 1];
      while (path + 1 < end && *path != at) ++path;
      if (path + 1 < end) preferred = path[1];
    }
    int direction[4] = {0, 1, 2, 3};
    if (s_.salt != 0) {
      uint64_t word = mixed(s_.salt + uint64_t(i) * 0x9E3779B97F4A7C15ull);
      for (int k = 3; k > 0; --k) {
        const int other = int((word & 0xFFFF) * uint64_t(k + 1) >> 16);
        word >>= 16;
        const int held = direction[k];
        direction[k] = direction[other];
        direction[other] = held;
      }
    }
    int32_t group[4][4];  // nearer and free, nearer and held, others free, others held
    int size[4] = {0, 0, 0, 0};
    const uint8_t exits = l_.exits[at];
    bool guided = false;
    for (const int d : direction) {
      if ((exits >> d & 1) == 0) continue;
      const int32_t u = at + offset_[d];
      if (u == preferred) {
        guided = true;
        continue;
      }
      const int g = (nearer(i, at, u) ? 0 : 2) + (here_[u] != none ? 1 : 0);
      group[g][size[g]++] = u;
    }
    int n = 0;
    if (guided) out[n++] = preferred;
    for (int g = 0; g < 4; ++g) {
      if (g == 2) out[n++] = at;
      for (int k = 0; k < size[g]; ++k) out[n++] = group[g][k];
    }
    count_[i] = uint8_t(n);
    puller_[i] = s_.swaps[i] != 0 ? partner(i, out[0]) : none;
    if (puller_[i] != none)
      for (int a = 0, b = n - 1; a < b; ++a, --b) {
        const int32_t held = out[a];
        out[a] = out[b];
        out[b] = held;
      }
  }

  // Exits of `cell` but `from`, without dead ends of one cell whose agent is at home there; the last of them in *exit.
  int exits_but(int32_t cell, int32_t from, int32_t* exit) const {
    int n = 0;
    for (int d = 0; d < 4; ++d) {
      if ((l_.exits[cell] >> d & 1) == 0) continue;
      const int32_t u = cell + offset_[d];
      if (u == from) continue;
      const uint8_t e = l_.exits[u];
      if ((e & (e - 1)) == 0 && here_[u] != none && s_.goal[here_[u]] == u) continue;
      ++n;
      *exit = u;
    }
    return n;
  }
  // Whether the pusher, on its way from `from` into `into`, can only pass the puller by a swap.
  bool swap_required(int32_t pusher, int32_t puller, int32_t from, int32_t into) const {
    for (int32_t left = l_.cells; left > 0 && nearer(pusher, from, into); --left) {
      int32_t exit = none;
      const int n = exits_but(into, from, &exit);
      if (n >= 2) return false;
      if (n == 0) break;
      from = into;
      into = exit;
    }
    return nearer(puller, into, from) && (from == s_.goal[pusher] || nearer(pusher, from, into));
  }
  // Whether pulling along from `into` over `from` leads to a cell with room for two.
  bool swap_possible(int32_t from, int32_t into) const {
    const int32_t origin = from;
    for (int32_t left = l_.cells; into != origin && left > 0; --left) {
      int32_t exit = none;
      const int n = exits_but(into, from, &exit);
      if (n >= 2) return true;
      if (n == 0) return false;
      from = into;
      into = exit;
    }
    return false;
  }
  int32_t partner(int32_t i, int32_t first) const {
    const int32_t at = s_.now[i], j = here_[first];
    if (j != none && j != i && to_[j] == none && swap_required(i, j, at, first) && swap_possible(first, at)) return j;
    if (first == at) return none;
    for (int d = 0; d < 4; ++d) {
      if ((l_.exits[at] >> d & 1) == 0) continue;
      const int32_t u = at + offset_[d], k = here_[u];
      // also where k is settled, for it may be the one that pushes here: then room is made, and nobody is pulled
      if (k != none && u != first && swap_required(k, i, at, first) && swap_possible(first, at)) return k;
    }
    return none;
  }

  // Settles agent `first` and whomever it pushes. A chain of pushes is a stack.
  bool move(int32_t first) {
    size_t depth = 0;
    enter(first, depth);
    for (;;) {
      const int32_t i = chain_[depth - 1], at = s_.now[i];
      const int32_t* choices = choice_ + size_t(i) * kChoices;
      int32_t pushed = none;
      bool settled = false;
      while (tried_[i] < count_[i]) {
        const int32_t u = choices[tried_[i]++], j = here_[u];
        if (there_[u] != none || (j != none && to_[j] == at)) continue;
        there_[u] = i;
        to_[i] = u;
        if (j != none && u != at && to_[j] == none) pushed = j;
        settled = true;
        break;
      }
      if (pushed != none) {
        enter(pushed, depth);
        continue;
      }
      if (!settled) {  // stays; who pushed it goes on with its next choice
        there_[at] = i;
        to_[i] = at;
        if (--depth == 0) return false;
        continue;
      }
      for (; depth > 0; --depth) finish(chain_[depth - 1]);
      return true;
    }
  }
  void enter(int32_t i, size_t& depth) {
    list_choices(i);
    tried_[i] = 0;
    chain_[depth++] = i;
  }
  // The partner of a swap follows into the cell that is left.
  void finish(int32_t i) {
    const int32_t k = puller_[i], at = s_.now[i];
    if (k == none || tried_[i] != 1 || to_[k] != none || there_[at] != none) return;
    there_[at] = k;
    to_[k] = at;
  }

  const Lattice& l_;
  const Distances& d_;
  const PibtStep& s_;
  int32_t *to_, *here_, *there_;
  const int32_t offset_[4];
  int32_t *choice_, *puller_, *chain_;
  uint8_t *count_, *tried_;
};
}  // namespace

size_t pibt_workspace(int32_t cells, size_t n) { return Stepper::workspace(cells, n); }

// `to` holds -1, or the cell where an agent must be next: it stays there or is put there. false: not all of it can be.
bool pibt_step(const Lattice& lattice, const Distances& distances, const PibtStep& step, int32_t* to, int64_t* value,
               void* workspace) {
  Stepper stepper(lattice, distances, step, to, workspace);
  const bool done = stepper.run();
  *value = done ? stepper.value() : 0;
  return done;
}

}  // namespace DW_ISA
