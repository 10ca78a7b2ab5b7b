// Memory budgets: every buffer counts in each budget that is active where it is made.
#pragma once
#include "tensor.hpp"

namespace droveway {

struct Budget;

// What one buffer counts in one budget: a link of the budget's ring of live buffers.
struct Charge {
  Charge* next;
  Charge* previous;
  Charge* sibling;  // the same buffer's charge in the next budget
  Budget* budget;   // kept alive
  int64_t nbytes;
  const char* label;
  PyObject* label_object;  // or nullptr
  Dtype dtype;
  int ndim;  // −1: the label alone is the name
  int64_t shape[kDimsMax];
};

// Charges every active budget, or none: then −1 with BudgetExceeded set. *out is nullptr where no budget is active.
int charge_active(int64_t nbytes, const char* label, Dtype dtype, int ndim, const int64_t* shape, Charge** out);
void release_charges(Charge* charges);

}  // namespace droveway
