// The vendor's headers as the simulated driver needs them: with the old names of functions (the
// translation units of this folder define __CUDA_API_VERSION_INTERNAL) and CUPTI's numbers, but
// without cupti.h, which redefines some of the old names' types.
#pragma once

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_driver_cbid.h>
