// The kernels that this process uses, for bindings and the tensor object.
#pragma once
#include "table.hpp"

namespace droveway {

// nullptr under DROVEWAY_ISA=ref: then Python calls the twins.
const TensorTable* tensor_kernels();

}  // namespace droveway
