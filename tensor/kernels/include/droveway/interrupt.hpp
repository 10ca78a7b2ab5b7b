// For the few kernels whose one block of work may take seconds: whether the rest of it is to be left out.
#pragma once
#include "droveway/parallel.hpp"

extern "C" {

// On the thread whose hook is set (dw_interrupt_set): asks the hook, and stays true once it said so. False elsewhere.
DW_POOL_API bool dw_stop_requested();
}
