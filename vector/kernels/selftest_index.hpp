// The part of vector's self-test that covers indexes, for selftest.cpp.
#pragma once
#include "table.hpp"

namespace droveway {

void index_self_test(const VectorTable& table, SelfTestEmit emit, void* context);

}  // namespace droveway
