// Moves the rows of many tensors between a store, where each stream has its own, and the buffers of a batch.
//
// LAYOUT.  store[streams][outer][inner bytes], batch[outer][n][inner bytes], a pair for each of the `lanes`;
// rows[n]: row i of the batch is row rows[i] of the store. -1: nobody's; zeros when gathered, and scattered
// nowhere. `unit`: bytes moved at a time, 16, 8, 4, 2 or 1; it divides `inner`, and both addresses are
// aligned to it.
// PRECONDITION.  No row of the store occurs twice in rows.
// TOLERANCE.  None: bits are copied.
// Bytes: 2 * outer * inner a lane and row. grid (lanes, n), block 128.
//
// rows.ptx is made of it ahead (its head says how) and compiled by the driver, so that engines need neither
// nvcc nor PyCUDA.

struct Lane {
    unsigned char* store;
    unsigned char* batch;
    long long outer, inner, unit;
};

template <typename Unit>
__device__ void move(const Lane& lane, int row, int scatter) {
    int inner = (int)(lane.inner / sizeof(Unit)), all = (int)lane.outer * inner, n = gridDim.y;
    Unit* batch = (Unit*)lane.batch;
    Unit* store = (Unit*)(lane.store + (size_t)(row < 0 ? 0 : row) * lane.outer * lane.inner);
    for (int i = threadIdx.x; i < all; i += blockDim.x) {
        int piece = i / inner;
        size_t at = ((size_t)piece * n + blockIdx.y) * inner + (i - piece * inner);
        if (scatter)
            store[i] = batch[at];
        else
            batch[at] = row < 0 ? Unit() : store[i];
    }
}

extern "C" __global__ void __launch_bounds__(128)
move_rows(const Lane* lanes, const int* rows, int scatter) {
    Lane lane = lanes[blockIdx.x];
    int row = rows[blockIdx.y];
    if (scatter && row < 0) return;
    switch ((int)lane.unit) {
        case 16: move<uint4>(lane, row, scatter); break;
        case 8: move<unsigned long long>(lane, row, scatter); break;
        case 4: move<unsigned int>(lane, row, scatter); break;
        case 2: move<unsigned short>(lane, row, scatter); break;
        default: move<unsigned char>(lane, row, scatter);
    }
}
