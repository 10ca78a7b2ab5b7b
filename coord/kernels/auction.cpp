// The auction; the twin, auction_ref, says what is computed and in which order. Objects go by their position in the tree
// here, and a bid reads prices that lie near each other; searches fill the lists. Prices only rise in forward phases, so
// the tree's bounds hold without following every bid.
#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "priced.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kList = 24, kListLeast = 4, kGains = 8, kBiddersPerBlock = 64, kAhead = 8;
constexpr uint64_t kGainWork = 8;
constexpr int64_t kUnitMax = int64_t(1) << 26, kStepMax = int64_t(1) << 60;
constexpr int kPhases = 3, kMorePhases = 4, kChecked = 2, kOnes = 16;
constexpr size_t kBiddersMore = size_t(1) << 14;
constexpr int64_t kDivide = 6, kSlack = 16;
constexpr uint64_t kFirst = 2;
constexpr int64_t kLeastNet = -(int64_t(1) << 60);  // what is below it is no object
constexpr uint64_t kPairsExact = uint64_t(1) << 16;
constexpr uint32_t kRaises = 32, kDoublingsMax = 40;
constexpr uint32_t kNobody = 0xFFFFFFFFu;

constexpr Of other(Of side) { return side == Of::zones ? Of::agents : Of::zones; }

// A bidder's list: the score of each object, its sign flipped, and where the object is; unused places are nowhere, where
// prices are too high.
struct Row {
  uint32_t score[kList];
  uint32_t at[kList];
};
constexpr uint32_t flip(int32_t score) { return uint32_t(score) ^ 0x80000000u; }
constexpr int32_t flip_back(uint32_t score) { return int32_t(score ^ 0x80000000u); }

struct Two {
  size_t place;
  int64_t best, second;
};

DW_INLINE U64x8 higher(U64x8 a, U64x8 b) { return select(lt_signed(a, b), b, a); }
DW_INLINE U64x8 lower_of(U64x8 a, U64x8 b) { return select(lt_signed(a, b), a, b); }

// The highest and the second of each lane so far, then of all.
struct Pairs {
  U64x8 most, next;
  DW_INLINE void take(U64x8 a) {
    next = higher(next, lower_of(most, a));
    most = higher(most, a);
  }
  template <int d>
  DW_INLINE void fold() {
    const U64x8 a = exchange<d>(most);
    next = higher(higher(next, exchange<d>(next)), lower_of(most, a));
    most = higher(most, a);
  }
};

// The step of an object that has had so many turns in this phase.
inline int64_t grown(int64_t step, uint32_t turns) {
  const uint32_t doublings = turns / kRaises < kDoublingsMax ? turns / kRaises : kDoublingsMax;
  return step > (kStepMax >> doublings) ? kStepMax : step << doublings;
}

// A sum of numbers from 0 that may not fit 64 bits, in units.
struct Wide {
  uint64_t high = 0, low = 0;
  void add(int64_t v) {
    high += uint64_t(v) >> 20;
    low += uint64_t(v) & 0xFFFFFu;
  }
  int64_t floor(int64_t unit) const {
    const uint64_t u = uint64_t(unit);
    return int64_t(((high / u) << 20) + (((high % u) << 20) + low) / u);
  }
};

template <Of bidders>
class Market {
  static constexpr Of objects = other(bidders);

 public:
  static size_t workspace(size_t n, size_t m) {
    const size_t b = bidders == Of::agents ? n : m, x = bidders == Of::agents ? m : n;
    return Priced<objects>::workspace(x) + Priced<bidders>::workspace(b) + Arena::bytes(b * sizeof(Row)) +
           2 * Arena::bytes(b * 8) + 9 * Arena::bytes((n + m + 16) * 4);
  }

  Market(const Problem& p, const AuctionSettings& settings, int32_t* assigned, Arena& arena, const WayIndex& ways)
      : p_(p), s_(scale_of(p)), count_(bidders == Of::agents ? p.n : p.m), length_(settings.k < kListLeast ? kListLeast : settings.k > kList ? kList : settings.k),
        budget_(settings.budget), idle_(settings.idle), assigned_(assigned) {
    s_.ways = &ways;
    unit_ = int64_t(count_) + 1 < kUnitMax ? int64_t(count_) + 1 : kUnitMax;
    outside_ = idle_ * unit_;
    objects_.build(p, objects == Of::zones ? p.blocked : nullptr, arena);
    const size_t room = objects_.count();
    rows_ = arena.take<Row>(count_);
    beyond_ = arena.take<int64_t>(count_);
    regret_ = arena.take<int64_t>(count_);
    mine_ = arena.take<int32_t>(count_);
    own_ = arena.take<uint32_t>(count_);
    queue_ = arena.take<uint32_t>(count_);
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
    profit_arena_ = &arena;
    first_prices();
    dw_parallel((count_ + kBiddersPerBlock - 1) / kBiddersPerBlock, first_lists, this);
  }

  AuctionOutcome run(bool endless) {
    for (size_t a = 0; a < p_.n; ++a) assigned_[a] = -1;
    AuctionOutcome out = {0, 0, 0, 0};
    uint64_t some = 0;
    Wide width;
    for (size_t b = 0; b < count_; ++b) {
      int64_t most, least;
      if (!nets_of(b, &most, &least)) continue;
      width.add(most - least);
      ++some;
    }
    if (some == 0) return out;
    out.bound = lost(false);
    int64_t step = width.floor(int64_t(kFirst * some));
    if (step < 1) step = 1;
    const int64_t slack = kSlack * step;
    const bool large = uint64_t(count_) * (bidders == Of::agents ? p_.m : p_.n) > kPairsExact;
    const int phases = count_ > kBiddersMore ? kMorePhases : kPhases;
    int ones = 0;
    for (int phase = 1;; ++phase, step = step / kDivide < 1 ? 1 : step / kDivide) {
      release(step);
      if (!forward(step, step == 1 ? 0 : slack) || !reverse(step)) {
        out.bids = bids_;
        out.bound_reached = 1;
        return out;
      }
      ones += step == 1;
      const bool last = ones == kOnes || (phase == phases && large && !endless);
      const int64_t worth = worth_now(), open = lost(last || step == 1 || phase >= kChecked);
      if (open >= 0 && worth + open < out.bound) out.bound = worth + open;
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
  void first_prices() {
    const size_t room = objects_.count();
    int64_t last = INT64_MAX;
    if constexpr (objects == Of::zones) {
      objects_.weigh(p_, unit_);
      if (!objects_.level) {
        ready_bidders();
        bidders_.fill([](size_t) { return int64_t(0); });
        Offers<bidders> found(p_, s_, bidders_, unit_);
        for (size_t x = 0; x < room; ++x) raised_[x] = found.any(objects_.id(x));
        last = objects_.base_of(p_.n, raised_);
        last = last < outside_ ? outside_ : last;
      }
    }
    objects_.fill([this, last](size_t x) {
      return objects == Of::zones && last != INT64_MAX && raised_[x] && objects_.base(x) > last ? objects_.base(x) - last : 0;
    });
  }
  // The last of a neighbour's list is about as far away: what is found above a guess is all there is above it, and where
  // it does not fill the list the guess was too high.
  static void first_lists(void* context, size_t block) {
    FpGuard guard;
    Market& m = *static_cast<Market*>(context);
    const size_t first = block * kBiddersPerBlock;
    const size_t last = first + kBiddersPerBlock < m.count_ ? first + kBiddersPerBlock : m.count_;
    Offers<objects> found(m.p_, m.s_, m.objects_, m.unit_);
    int64_t guess = INT64_MIN;
    for (size_t i = first; i < last; ++i) {
      const size_t b = m.order_[i];
      size_t current;
      const uint32_t* which = m.bonus(b, &current);
      found.find(b, m.length_, guess, which, current);
      if (found.count < m.length_ && guess != INT64_MIN) found.find(b, m.length_, INT64_MIN, which, current);
      guess = m.keep_list(b, found);
    }
  }
  // The next bidder's guess.
  int64_t keep_list(size_t b, const Offers<objects>& found) {
    Row& row = rows_[b];
    int64_t most = kNothing, least = -kNothing;
    for (size_t i = 0; i < kList; ++i) {
      row.score[i] = i < found.count ? flip(found.score[i]) : 0;
      row.at[i] = i < found.count ? found.at[i] : objects_.nowhere();
    }
    for (size_t i = 0; i < found.count; ++i) {
      most = found.net[i] > most ? found.net[i] : most;
      least = found.net[i] < least ? found.net[i] : least;
    }
    beyond_[b] = found.count == length_ ? least : kNothing;
    return found.count == length_ ? least - (most - least) / 4 : INT64_MIN;
  }
  // Highest and lowest net of a list, false if it is empty.
  bool nets_of(size_t b, int64_t* most, int64_t* least) const {
    const Row& row = rows_[b];
    bool some = false;
    for (size_t i = 0; i < length_; ++i) {
      if (row.at[i] == objects_.nowhere()) continue;
      const int64_t net = int64_t(flip_back(row.score[i])) * unit_ - objects_.price(row.at[i]);
      if (!some || net > *most) *most = net;
      if (!some || net < *least) *least = net;
      some = true;
    }
    return some;
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
  // The list gains objects worth more than `floor`, its worst ones go. Those taken in are above all that may go, so their
  // order does not matter.
  void gain(size_t b, int64_t floor) {
    const size_t limit = kGains < length_ - 1 ? kGains : length_ - 1;
    size_t current;
    const uint32_t* which = bonus(b, &current);
    Offers<objects> found(p_, s_, objects_, unit_);
    found.find(b, limit, floor + 1, which, current);
    beyond_[b] = floor;
    if (found.count == 0) return;
    Row& row = rows_[b];
    int64_t net[kList], least = found.net[0];
    for (size_t i = 0; i < length_; ++i) net[i] = int64_t(flip_back(row.score[i])) * unit_ - objects_.price(row.at[i]);
    for (size_t j = 0; j < found.count; ++j) {
      least = found.net[j] < least ? found.net[j] : least;
      size_t worst = kList;
      bool held = false;
      for (size_t i = 0; i < length_; ++i) {
        held |= row.at[i] == found.at[j];
        if (row.at[i] == own_[b]) continue;
        if (worst == kList || net[i] < net[worst] || (net[i] == net[worst] && row.at[i] != objects_.nowhere() && objects_.id(row.at[i]) > objects_.id(row.at[worst]))) worst = i;
      }
      if (held) continue;
      row.score[worst] = flip(found.score[j]);
      row.at[worst] = found.at[j];
      net[worst] = found.net[j];
    }
    if (found.count == limit) beyond_[b] = least;
  }
  Two best(size_t b) const {
    const Row& row = rows_[b];
    const U64x16 low = widen(U32x16::load(row.score)), high = widen(U32x16::load(row.score + 8));
    const U64x8 n0 = net_of(low.low, row.at), n1 = net_of(low.high, row.at + 8), n2 = net_of(high.high, row.at + 16);
    Pairs top{higher(n0, n1), lower_of(n0, n1)};
    top.take(n2);
    top.fold<4>();
    top.fold<2>();
    top.fold<1>();
    const int64_t most = int64_t(first_lane(top.most)), next = int64_t(first_lane(top.next));
    uint32_t equal = lane_bits(eq(n0, top.most)) | lane_bits(eq(n1, top.most)) << 8 | lane_bits(eq(n2, top.most)) << 16;
    size_t place = size_t(__builtin_ctz(equal));
    if (most < kLeastNet) return {place, kNothing, kNothing};
    for (equal &= equal - 1; equal != 0; equal &= equal - 1) {  // the lowest id of those that are worth as much
      const size_t other = size_t(__builtin_ctz(equal));
      if (objects_.id(row.at[other]) < objects_.id(row.at[place])) place = other;
    }
    return {place, most, next < kLeastNet ? kNothing : next};
  }
  // Of scores with their sign flipped.
  DW_INLINE U64x8 net_of(U64x8 flipped, const uint32_t* at) const {
    return mul_low32(flipped, U64x8::set1(uint64_t(unit_))) - U64x8::set1(uint64_t(unit_) << 31) -
           gather(reinterpret_cast<const uint64_t*>(objects_.least[0]), at);
  }

  // Lists of a large problem do not fit the caches, but who is next is known.
  void fetch(size_t b) const {
    const char* row = reinterpret_cast<const char*>(rows_ + b);
    for (size_t at = 0; at < sizeof(Row); at += 64) __builtin_prefetch(row + at);
    __builtin_prefetch(beyond_ + b);
  }
  bool forward(int64_t step, int64_t slack) {
    const size_t room = objects_.count(), often = room / 64 < 256 ? 256 : room / 64;
    memset(raised_, 0, room * sizeof *raised_);
    objects_.refresh();
    size_t head = 0, waiting = 0, gains = 0;
    for (size_t b = 0; b < count_; ++b)
      if (own_[b] == kNobody) queue_[waiting++] = uint32_t(b);
    while (waiting != 0) {
      const uint32_t b = queue_[head];
      head = head + 1 == count_ ? 0 : head + 1;
      --waiting;
      if (waiting >= kAhead) {
        const size_t soon = head + kAhead - 1;
        fetch(queue_[soon < count_ ? soon : soon - count_]);
      }
      if (bids_ == budget_) return false;
      ++bids_;
      Two two = best(b);
      const int64_t least = slack == 0 ? two.second : two.best;
      if (least < beyond_[b] - slack) {
        if (budget_ - bids_ < kGainWork) return false;
        bids_ += kGainWork;
        if (++gains % often == 0) objects_.refresh();
        gain(b, least);
        two = best(b);
      }
      if (two.best < outside_ + step) continue;
      const Row& row = rows_[b];
      const uint32_t x = row.at[two.place];
      const int64_t more = grown(step, raised_[x]++);
      const int64_t other = two.second > outside_ ? two.second : outside_;
      const int64_t raise = two.best - other + more, most = two.best - outside_;
      objects_.raise(x, objects_.price(x) + (raise < most ? raise : most));
      const uint32_t before = owner_[x];
      owner_[x] = b;
      own_[b] = x;
      mine_[b] = flip_back(row.score[two.place]);
      if (before == kNobody) continue;
      own_[before] = kNobody;
      const size_t end = head + waiting++;
      queue_[end < count_ ? end : end - count_] = before;
    }
    objects_.refresh();
    return true;
  }

  int64_t profit(size_t b) const {
    return own_[b] == kNobody ? outside_ : int64_t(mine_[b]) * unit_ - objects_.price(own_[b]);
  }

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
  void ready_bidders() {
    if (!bidders_built_) bidders_.build(p_, bidders == Of::zones ? p_.blocked : nullptr, *profit_arena_);
    bidders_built_ = true;
  }
  void ready_profits() {
    ready_bidders();
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
    Offers<bidders> found(p_, s_, bidders_, unit_);
    found.find(object, 2, 0, which, current);
    if (found.count == 0) {
      objects_.set(x, 0);
      return kNobody;
    }
    size_t first = 0;
    if (found.count == 2 && (found.net[1] > found.net[0] || (found.net[1] == found.net[0] && found.id[1] < found.id[0]))) first = 1;
    if (found.net[first] < step) {
      objects_.set(x, 0);
      return kNobody;
    }
    const int64_t more = grown(step, raised_[x]++);
    const int64_t second = found.count > 1 && found.net[1 - first] - more > 0 ? found.net[1 - first] - more : 0;
    const uint32_t b = found.id[first];
    if (second < objects_.price(x)) objects_.set(x, second);
    const uint32_t before = own_[b];
    if (before != kNobody) owner_[before] = kNobody;
    own_[b] = x;
    owner_[x] = b;
    mine_[b] = found.score[first];
    bidders_.set(found.at[first], profit(b));
    return before;
  }

  // Fills regret_ and returns what the pairs lack to the bound at most, in whole points; -1 where nothing is known.
  int64_t lost(bool outside_lists) {
    Wide sum;
    bool known = true;
    for (size_t i = 0; i < count_; ++i) {
      const size_t b = order_[i];
      if (i + kAhead < count_) fetch(order_[i + kAhead]);
      const int64_t has = profit(b);
      int64_t most = best(b).best;
      most = most > outside_ ? most : outside_;
      most = most > has ? most : has;
      if (outside_lists && most < beyond_[b]) {
        gain(b, most);
        const int64_t now = best(b).best;
        most = now > most ? now : most;
      }
      regret_[b] = most - has;
      known &= beyond_[b] != -kNothing;
      sum.add((most < beyond_[b] ? beyond_[b] : most) - has);
    }
    for (size_t x = 0; x < objects_.count(); ++x)
      if (owner_[x] == kNobody) sum.add(objects_.price(x));
    return known ? sum.floor(unit_) : -1;
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
      if (own_[b] != kNobody) sum += mine_[b] - idle_;
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
  int64_t *beyond_, *regret_;
  int32_t* mine_;  // score of the own pair
  uint32_t *own_, *owner_, *queue_, *raised_, *first_, *of_zone_;
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
