// Declarations of the kernels of one instruction set, for table.cpp; contracts are in table.hpp.
#pragma once
#include "table.hpp"

namespace DW_ISA {
bool depth_order(const float* z, size_t n, uint32_t* order, void* workspace);
size_t depth_workspace(size_t n);
void pair_sums(const float* x, ptrdiff_t x_row, ptrdiff_t x_step, const float* y, ptrdiff_t y_row, ptrdiff_t y_step,
               size_t n, size_t d, bool squares, double* out);
void exact_search(const droveway::ExactSearch& search, void* workspace);
size_t exact_workspace(size_t n, size_t nq, size_t d, size_t k);
void rotate(const droveway::Turn& turn, const float* x, size_t n, size_t d, bool inverse, float* out, void* workspace);
size_t rotate_workspace(size_t n, size_t padded);
void encode_rows(const droveway::EncodeJob& job);
void encode_queries(const droveway::QueryJob& job);
size_t encode_workspace(size_t n, size_t padded);
void scan(const droveway::ScanJob& job);
size_t scan_shards(size_t nq, size_t rows);
size_t scan_workspace(size_t nq, size_t k, size_t padded, size_t shards);
size_t id_table_insert(const droveway::IdTable& table, uint32_t first, size_t count);
void id_table_find(const droveway::IdTable& table, const uint64_t* ids, size_t count, uint32_t* slots);
void id_table_erase(const droveway::IdTable& table, uint64_t id);
void id_table_move(const droveway::IdTable& table, uint64_t id, uint32_t slot);
}  // namespace DW_ISA
