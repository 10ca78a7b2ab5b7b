// The kernels that this process uses, for bindings and the tensor object.
#pragma once
#include "table.hpp"

namespace droveway {

// nullptr under DROVEWAY_ISA=ref: then Python calls the twins.
const TensorTable* tensor_kernels();

// The kernels of a build by its name (v3, v4, neon), for tests that compare them; nullptr where the CPU lacks it.
const TensorTable* tensor_kernels(const char* isa);

}  // namespace droveway
