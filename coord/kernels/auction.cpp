// The auction; the twin, auction_ref, says what is computed and in which order. Objects go by their position in the tree
// here, and a bid reads sixteen prices that lie near each other; searches fill the lists.
#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "priced.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kList = 16, kBiddersPerBlock = 64;
constexpr int64_t kUnitMax = int64_t(1) << 26, kStepMax = int64_t(1) << 60;
constexpr int kPhases = 4, kOnes = 16;
constexpr int64_t kFirst = 4, kDivide = 4, kSlack = 10;
constexpr uint64_t kPairsExact = uint64_t(1) << 16;
constexpr uint32_t kRaises = 64, kDoublingsMax = 20;
constexpr uint32_t kNobody = 0xFFFFFFFFu;

constexpr Of other(Of side) { return side == Of::zones ? Of::agents : Of::zones; }

// A bidder's list: score · unit of each object and where it is; unused places can never be best.
struct Row {
  int64_t value[kList];
  uint32_t at[kList];
};
struct Two {
  size_t place;
  int64_t best, second;
};

// The step of an object that has had so many turns in this phase.
inline int64_t grown(int64_t step, uint32_t turns) {
  const uint32_t doublings = turns / kRaises < kDoublingsMax ? turns / kRaises : kDoublingsMax;
  return step > (kStepMax >> doublings) ? kStepMax : step << doublings;
}

// A sum of products that may not fit 64 bits, in units.
struct Wide {
  int64_t unit, whole = 0, rest = 0;
  void add(int64_t v) {
    whole += v / unit;
    rest += v % unit;
  }
  int64_t floor() const { return whole + rest / unit; }
};

template <Of bidders>
class Market {
  static constexpr Of objects = other(bidders);

 public:
  static size_t workspace(size_t n, size_t m) {
    const size_t b = bidders == Of::agents ? n : m, x = bidders == Of::agents ? m : n;
    return Priced<objects>::workspace(x) + Priced<bidders>::workspace(b) + Arena::bytes(b * sizeof(Row)) +
           4 * Arena::bytes(b * 8) + 6 * Arena::bytes((n + m + 16) * 4);
  }

  Market(const Problem& p, const AuctionSettings& settings, int32_t* assigned, Arena& arena, const WayIndex& ways)
      : p_(p), s_(scale_of(p)), count_(bidders == Of::agents ? p.n : p.m), length_(settings.k < 2 ? 2 : settings.k > kList ? kList : settings.k),
        budget_(settings.budget), idle_(settings.idle), assigned_(assigned) {
    s_.ways = &ways;
    unit_ = int64_t(count_) + 1 < kUnitMax ? int64_t(count_) + 1 : kUnitMax;
    outside_ = idle_ * unit_;
    objects_.build(p, objects == Of::zones ? p.blocked : nullptr, arena);
    const size_t room = objects_.count();
    if constexpr (objects == Of::zones) objects_.weigh(p, unit_);
    objects_.fill([](size_t) { return int64_t(0); });
    rows_ = arena.take<Row>(count_);
    beyond_ = arena.take<int64_t>(count_);
    mine_ = arena.take<int64_t>(count_);
    regret_ = arena.take<int64_t>(count_);
    own_ = arena.take<uint32_t>(count_);
    owner_ = arena.take<uint32_t>(room);
    raised_ = arena.take<uint32_t>(room);
    first_ = arena.take<uint32_t>(p.m + 2);
    of_zone_ = arena.take<uint32_t>(p.n);
    current_of();
    for (size_t b = 0; b < count_; ++b) own_[b] = kNobody;
    for (size_t x = 0; x < room; ++x) owner_[x] = kNobody;
    uint32_t* order = arena.take<uint32_t>(count_);
    morton_order(bidders == Of::agents ? p.ax : p.zx, bidders == Of::agents ? p.ay : p.zy, count_, order, arena);
    order_ = order;
    dw_parallel((count_ + kBiddersPerBlock - 1) / kBiddersPerBlock, first_lists, this);
    profit_arena_ = &arena;
  }

  AuctionOutcome run(bool endless) {
    for (size_t a = 0; a < p_.n; ++a) assigned_[a] = -1;
    AuctionOutcome out = {0, 0, 0, 0};
    int64_t width = 0, some = 0;
    for (size_t b = 0; b < count_; ++b) {
      const Row& row = rows_[b];
      regret_[b] = 0;
      if (row.value[0] == kNothing) continue;
      const int64_t best = row.value[0] / unit_ - idle_;
      if (best > 0) out.bound += best;
      size_t last = 0;
      while (last + 1 < length_ && row.value[last + 1] != kNothing) ++last;
      width += row.value[0] / unit_ - row.value[last] / unit_;
      ++some;
    }
    if (some == 0) return out;
    const int64_t share = kFirst * some;
    int64_t step = width / share * unit_ + width % share * unit_ / share;
    if (step < 1) step = 1;
    const int64_t slack = kSlack * step;
    const bool large = uint64_t(count_) * (bidders == Of::agents ? p_.m : p_.n) > kPairsExact;
    int ones = 0;
    for (int phase = 1;; ++phase, step = step / kDivide < 1 ? 1 : step / kDivide) {
      release(step);
      if (!forward(step, step == 1 ? 0 : slack) || !reverse(step)) {
        out.bids = bids_;
        out.bound_reached = 1;
        return out;
      }
      ones += step == 1;
      const bool last = ones == kOnes || (phase == kPhases && large && !endless);
      const int64_t worth = worth_now(), bound = worth + lost(last || step == 1);
      if (bound < out.bound) out.bound = bound;
      if (phase == 1 || worth > out.worth) {
        out.worth = worth;
        keep();
      }
      if (out.bound == out.worth || last) break;
    }
    out.bids = bids_;
    return out;
  }

 private:
  static void first_lists(void* context, size_t block) {
    FpGuard guard;
    Market& m = *static_cast<Market*>(context);
    const size_t first = block * kBiddersPerBlock;
    const size_t last = first + kBiddersPerBlock < m.count_ ? first + kBiddersPerBlock : m.count_;
    for (size_t i = first; i < last; ++i) m.make_list(m.order_[i]);
  }

  // Those that have the switch bonus with a bidder: its zone, or the agents that have this zone now.
  const uint32_t* bonus(size_t b, size_t* count) const {
    if constexpr (bidders == Of::agents) {
      *count = p_.current[b] >= 0;
      return reinterpret_cast<const uint32_t*>(p_.current + b);
    }
    *count = first_[b + 1] - first_[b];
    return of_zone_ + first_[b];
  }
  void make_list(size_t b) {
    size_t current;
    const uint32_t* which = bonus(b, &current);
    const BestOffers<objects> found(p_, s_, objects_, b, length_, unit_, which, current);
    Row& row = rows_[b];
    for (size_t i = 0; i < kList; ++i) {
      row.value[i] = i < found.count ? int64_t(found.offer[i].score) * unit_ : kNothing;
      row.at[i] = i < found.count ? found.offer[i].at : 0;
    }
    beyond_[b] = found.count == length_ ? found.offer[length_ - 1].net : kNothing;
  }
  Two best(size_t b) const {
    const Row& row = rows_[b];
    const int64_t* price = objects_.least[0];
    int64_t net[kList];
    for (size_t i = 0; i < kList; ++i) net[i] = row.value[i] - price[row.at[i]];
    int64_t most = net[0];
    for (size_t i = 1; i < kList; ++i) most = net[i] > most ? net[i] : most;
    uint32_t equal = 0;
    for (size_t i = 0; i < kList; ++i) equal |= uint32_t(net[i] == most) << i;
    const size_t place = size_t(__builtin_ctz(equal));
    net[place] = INT64_MIN;
    int64_t second = net[0];
    for (size_t i = 1; i < kList; ++i) second = net[i] > second ? net[i] : second;
    return {place, most < kNothing ? kNothing : most, second < kNothing ? kNothing : second};
  }

  bool forward(int64_t step, int64_t slack) {
    const size_t room = objects_.count();
    memset(raised_, 0, room * sizeof *raised_);
    for (size_t start = 0; start < count_; ++start) {
      uint32_t b = own_[start] == kNobody ? uint32_t(start) : kNobody;
      while (b != kNobody) {
        if (bids_ == budget_) return false;
        ++bids_;
        Two two = best(b);
        if ((slack == 0 ? two.second : two.best) < beyond_[b] - slack) {
          make_list(b);
          two = best(b);
        }
        if (two.best < outside_ + step) break;
        const Row& row = rows_[b];
        const uint32_t x = row.at[two.place];
        const int64_t more = grown(step, raised_[x]++);
        const int64_t other = two.second > outside_ ? two.second : outside_;
        const int64_t raise = two.best - other + more, most = two.best - outside_;
        objects_.set(x, objects_.price(x) + (raise < most ? raise : most));
        const uint32_t before = owner_[x];
        owner_[x] = b;
        own_[b] = x;
        mine_[b] = row.value[two.place];
        if (before != kNobody) own_[before] = kNobody;
        b = before;
      }
    }
    return true;
  }

  int64_t profit(size_t b) const { return own_[b] == kNobody ? outside_ : mine_[b] - objects_.price(own_[b]); }

  // Objects go by ascending index, so the tree's positions are looked up.
  bool reverse(int64_t step) {
    const size_t all = objects == Of::zones ? p_.m : p_.n;
    bool ready = false;
    for (size_t i = 0; i < all; ++i) {
      uint32_t x = objects_.tree.position[i];
      if (x == kDead || owner_[x] != kNobody || objects_.price(x) == 0) continue;
      if (!ready) {
        ready_profits();
        ready = true;
      }
      while (x != kNobody && objects_.price(x) > 0) {
        if (bids_ == budget_) return false;
        ++bids_;
        x = lower(x, step);
      }
    }
    if (ready)
      for (size_t b = 0; b < count_; ++b) beyond_[b] = -kNothing;
    return true;
  }
  void ready_profits() {
    if (!bidders_built_) {
      bidders_.build(p_, bidders == Of::zones ? p_.blocked : nullptr, *profit_arena_);
      bidders_built_ = true;
    }
    bidders_.fill([this](size_t at) { return profit(bidders_.id(at)); });
    memset(raised_, 0, objects_.count() * sizeof *raised_);
  }
  // One free object's turn; the object that its bidder had before, or nobody.
  uint32_t lower(uint32_t x, int64_t step) {
    const size_t object = objects_.id(x);
    uint32_t one;
    size_t current;
    const uint32_t* which;
    if constexpr (objects == Of::agents) {
      current = p_.current[object] >= 0;
      one = uint32_t(p_.current[object]);
      which = &one;
    } else {
      current = first_[object + 1] - first_[object];
      which = of_zone_ + first_[object];
    }
    const BestOffers<bidders> found(p_, s_, bidders_, object, 2, unit_, which, current);
    if (found.count == 0 || found.offer[0].net < step) {
      objects_.set(x, 0);
      return kNobody;
    }
    const int64_t more = grown(step, raised_[x]++);
    const int64_t second = found.count > 1 && found.offer[1].net - more > 0 ? found.offer[1].net - more : 0;
    const uint32_t b = found.offer[0].id;
    if (second < objects_.price(x)) objects_.set(x, second);
    const uint32_t before = own_[b];
    if (before != kNobody) owner_[before] = kNobody;
    own_[b] = x;
    owner_[x] = b;
    mine_[b] = int64_t(found.offer[0].score) * unit_;
    bidders_.set(found.offer[0].at, profit(b));
    return before;
  }

  // Fills regret_ and returns what the pairs lack to the bound at most, in whole points.
  int64_t lost(bool exact) {
    Wide sum{unit_};
    for (size_t b = 0; b < count_; ++b) {
      Two two = best(b);
      if (exact && two.best < beyond_[b]) {
        make_list(b);
        two = best(b);
      }
      const int64_t has = profit(b);
      int64_t most = two.best > outside_ ? two.best : outside_;
      if (most < has) most = has;
      regret_[b] = most - has;
      if (most < beyond_[b]) most = beyond_[b];
      if (most != has) sum.add(most - has);
    }
    for (size_t x = 0; x < objects_.count(); ++x)
      if (owner_[x] == kNobody && objects_.price(x) != 0) sum.add(objects_.price(x));
    return sum.floor();
  }
  void release(int64_t step) {
    for (size_t b = 0; b < count_; ++b) {
      if (regret_[b] <= step || own_[b] == kNobody) continue;
      owner_[own_[b]] = kNobody;
      own_[b] = kNobody;
    }
  }
  int64_t worth_now() const {
    int64_t sum = 0;
    for (size_t b = 0; b < count_; ++b)
      if (own_[b] != kNobody) sum += mine_[b] / unit_ - idle_;
    return sum;
  }
  void keep() {
    for (size_t a = 0; a < p_.n; ++a) assigned_[a] = -1;
    for (size_t b = 0; b < count_; ++b) {
      if (own_[b] == kNobody) continue;
      const uint32_t x = objects_.id(own_[b]);
      if constexpr (bidders == Of::agents) assigned_[b] = int32_t(x);
      else assigned_[x] = int32_t(b);
    }
  }
  // of_zone_[first_[z] .. first_[z + 1]): the agents that have zone z now.
  void current_of() {
    memset(first_, 0, (p_.m + 2) * sizeof *first_);
    for (size_t a = 0; a < p_.n; ++a)
      if (p_.current[a] >= 0) ++first_[size_t(p_.current[a]) + 2];
    for (size_t z = 2; z < p_.m + 2; ++z) first_[z] += first_[z - 1];
    for (size_t a = 0; a < p_.n; ++a)
      if (p_.current[a] >= 0) of_zone_[first_[size_t(p_.current[a]) + 1]++] = uint32_t(a);
  }

  const Problem& p_;
  Scale s_;
  const size_t count_, length_;
  const uint64_t budget_;
  const int64_t idle_;
  int64_t unit_, outside_;
  int32_t* assigned_;
  Priced<objects> objects_;
  Priced<bidders> bidders_;  // priced by their profits, for objects that look for a bidder
  bool bidders_built_ = false;
  Arena* profit_arena_;
  Row* rows_;
  int64_t *beyond_, *mine_, *regret_;  // mine: score · unit of the own pair
  uint32_t *own_, *owner_, *raised_, *first_, *of_zone_;
  const uint32_t* order_;
  uint64_t bids_ = 0;
};

template <Of bidders>
AuctionOutcome run(const Problem& p, const AuctionSettings& settings, int32_t* assigned, Arena& arena) {
  const WayIndex ways(p.shapes, arena);
  Market<bidders> market(p, settings, assigned, arena, ways);
  return market.run(settings.endless);
}

}  // namespace

size_t auction_workspace(size_t n, size_t m, size_t shapes) {
  return (n > m ? Market<Of::zones>::workspace(n, m) : Market<Of::agents>::workspace(n, m)) +
         4 * Arena::bytes((n + m + 16) * 4) + WayIndex::workspace(shapes) + 4096;
}

AuctionOutcome auction(const Problem& problem, const AuctionSettings& settings, int32_t* assigned, void* workspace) {
  FpGuard guard;
  Arena arena(workspace);
  if (problem.n > problem.m) return run<Of::zones>(problem, settings, assigned, arena);
  return run<Of::agents>(problem, settings, assigned, arena);
}

}  // namespace DW_ISA
