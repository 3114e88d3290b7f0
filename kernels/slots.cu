// Puts slots back to the initial state: all of a slot's floats in one array become 0.
//
// LAYOUT.  array[planes][slots][width]; which[n] slots.  No other slot is touched.
// Bytes: 4 width planes n.  grid (n, planes), block 256.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256)
clear_slots(const int* __restrict__ which, int slots, int width, float* __restrict__ array) {
    float* to = array + ((size_t)blockIdx.y * slots + which[blockIdx.x]) * width;
    for (int i = threadIdx.x; i < width; i += 256) to[i] = 0.0f;
}
