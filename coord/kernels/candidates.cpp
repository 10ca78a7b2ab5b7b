// The best zones of each agent; the twin is plan_ref.candidates.
#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "search.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kAgentsPerBlock = 64;
constexpr size_t kCandidatesMax = 256;

struct Work {
  const Problem* problem;
  Scale scale;
  const ZoneTree* tree;
  const uint32_t* order;
  size_t k;
  int32_t *zone, *score;
  uint32_t* count;
};

template <size_t room>
void search_block(const Work& w, size_t first, size_t last) {
  for (size_t i = first; i < last; ++i) {
    const size_t a = w.order[i];
    const Best<room> found = best_zones<room>(*w.problem, w.scale, *w.tree, a, origin_agent(*w.problem, a), w.k);
    w.count[a] = uint32_t(found.count);
    for (size_t c = 0; c < w.k; ++c) {
      const bool is = c < found.count;
      w.zone[a * w.k + c] = is ? int32_t(found.key[c].index) : -1;
      w.score[a * w.k + c] = is ? score_of(found.key[c].rank) : 0;
    }
  }
}

void run_block(void* context, size_t block) {
  FpGuard guard;
  const Work& w = *static_cast<Work*>(context);
  const size_t first = block * kAgentsPerBlock;
  const size_t last = first + kAgentsPerBlock < w.problem->n ? first + kAgentsPerBlock : w.problem->n;
  if (w.k == 1) search_block<1>(w, first, last);
  else if (w.k <= 32) search_block<32>(w, first, last);
  else search_block<kCandidatesMax>(w, first, last);
}

}  // namespace

void candidates(const Problem& problem, size_t k, int32_t* zone, int32_t* score, uint32_t* count, void* workspace) {
  FpGuard guard;
  Arena arena(workspace);
  ZoneTree tree;
  tree.build(problem, problem.blocked, arena);
  uint32_t* order = arena.take<uint32_t>(problem.n);
  morton_order(problem.ax, problem.ay, problem.n, order, arena);
  const WayIndex ways(problem.shapes, arena);
  Work work{&problem, scale_of(problem), &tree, order, k, zone, score, count};
  work.scale.ways = &ways;
  dw_parallel((problem.n + kAgentsPerBlock - 1) / kAgentsPerBlock, run_block, &work);
}

void list_scores(const Problem& problem, size_t k, const int32_t* zone, const uint32_t* count, int32_t* score) {
  FpGuard guard;
  const Scale scale = scale_of(problem);
  for (size_t a = 0; a < problem.n; ++a)
    for (size_t c = 0; c < k; ++c)
      score[a * k + c] = c < count[a] ? pair_of(problem, scale, a, size_t(zone[a * k + c])).score : 0;
}

size_t plan_workspace(size_t n, size_t m, size_t shapes) {
  // two trees, and what greedy, swap and leftover keep for each agent and zone
  return ZoneTree::workspace(m) + AgentTree::workspace(n) + 24 * Arena::bytes((n + m + 16) * 4) +
         WayIndex::workspace(shapes) + 1024;
}

}  // namespace DW_ISA
