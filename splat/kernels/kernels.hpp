// Declarations of the kernels of one instruction set, for table.cpp; contracts are in table.hpp.
#pragma once
#include "table.hpp"

namespace DW_ISA {
using droveway::Binning;
using droveway::kProjectBlock;
using droveway::kRecordFloats;
using droveway::Picture;
using droveway::Splats;
using droveway::Tally;
using droveway::CameraView;

Tally project(const Splats& splats, const CameraView& view, float* records, uint32_t* box, uint32_t* slot, float* z,
              Tally* tallies);
bool bin(const Binning& binning, uint32_t* table, uint32_t* start, uint32_t* items, uint64_t pairs);
void blend(const Picture& picture);
}  // namespace DW_ISA
