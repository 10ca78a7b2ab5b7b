// From ids to slots: open addressing with linear probing over 32-bit slots; ids lie beside the rows (vector/id_table.py).
#include "kernels.hpp"

namespace DW_ISA {
namespace {

using droveway::IdTable;

constexpr uint32_t kEmpty = 0xFFFFFFFFu;

// Finaliser of splitmix64 (Steele, Lea, Flood, 2014), then the high half of the product with the capacity.
size_t home(uint64_t id, size_t capacity) {
  uint64_t z = id + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  return size_t((unsigned __int128)z * capacity >> 64);
}
uint64_t id_of(const IdTable& t, uint32_t slot) { return t.chunks[slot >> t.shift][slot & ((1u << t.shift) - 1)]; }
size_t next(const IdTable& t, size_t place) { return place + 1 == t.capacity ? 0 : place + 1; }

// Where the id is, or the empty place where it would go; the capacity where it is not and no place is empty.
size_t place_of(const IdTable& t, uint64_t id) {
  size_t place = home(id, t.capacity);
  for (size_t steps = 0; steps < t.capacity; ++steps, place = next(t, place)) {
    const uint32_t slot = t.slots[place];
    if (slot == kEmpty || (slot < t.rows && id_of(t, slot) == id)) return place;
  }
  return t.capacity;
}

}  // namespace

size_t id_table_insert(const IdTable& table, uint32_t first, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t slot = uint32_t(first + i);
    const size_t place = place_of(table, id_of(table, slot));
    if (place == table.capacity || table.slots[place] != kEmpty) return i;
    table.slots[place] = slot;
  }
  return count;
}

void id_table_find(const IdTable& table, const uint64_t* ids, size_t count, uint32_t* slots) {
  for (size_t i = 0; i < count; ++i) {
    const size_t place = place_of(table, ids[i]);
    slots[i] = place == table.capacity ? kEmpty : table.slots[place];
  }
}

void id_table_erase(const IdTable& table, uint64_t id) {
  size_t hole = place_of(table, id);
  if (hole == table.capacity || table.slots[hole] == kEmpty) return;
  // Entries behind the hole move up where their home allows it, so that no search stops early.
  size_t place = next(table, hole);
  for (size_t steps = 1; steps < table.capacity && table.slots[place] != kEmpty; ++steps, place = next(table, place)) {
    if (table.slots[place] >= table.rows) continue;
    const size_t start = home(id_of(table, table.slots[place]), table.capacity);
    const size_t from_home = place >= start ? place - start : place + table.capacity - start;
    const size_t from_hole = place >= hole ? place - hole : place + table.capacity - hole;
    if (from_home < from_hole) continue;
    table.slots[hole] = table.slots[place];
    hole = place;
  }
  table.slots[hole] = kEmpty;
}

void id_table_move(const IdTable& table, uint64_t id, uint32_t slot) {
  const size_t place = place_of(table, id);
  if (place != table.capacity) table.slots[place] = slot;
}

}  // namespace DW_ISA
