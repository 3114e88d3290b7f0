// What all kernels share: sizes, the step header, a block-wide FFT, reductions.
//
// Sizes come from cosyd.spec.FRAME as defines (cosyd/gpu/kernels.py), so that no kernel holds its own 512.
//
// THE STEP HEADER.  Every kernel of a step takes the device address of one int32 array, `step`:
//
//   step[0]                     n      rows of this step: streams that take part in this hop
//   step[1]                     n_vad  rows whose 32 ms VAD chunk is complete with this hop
//   step[2 .. 15]               unused, 0
//   step[16 + 0*B + row]        slot   where the row's state lives
//   step[16 + 1*B + row]        hop    hops this slot was given since its reset, this one not counted; the host
//                                      wraps it by multiples of 40 (RING and 10 ms frames), never back to 0
//   step[16 + 2*B + row]        frames device frames of this hop
//   step[16 + 3*B + row]        phase  numerator of the resampler's position, 0 .. L-1
//   step[16 + 4*B + i]          row    i-th row of the n_vad, i < n_vad
//   step[16 + 5*B + row]        low    \ where the row's PCM lies if not in the step's own buffer, else 0:
//   step[16 + 6*B + row]        high   / pages of the host that the driver has mapped
//
// B, the capacity of the bucket, is a launch constant. Grids are sized for B; blocks beyond n leave at once,
// so one captured graph serves any number of streams up to B. No slot may appear twice in a step.
//
// STATE lives in slots: arrays [..., slots, ...] that rows reach through `slot`. Rings hold RING samples and
// are addressed by the absolute sample index modulo RING.
#pragma once

#if !defined(COSYD_HOP) || !defined(COSYD_WINDOW)
#error "compile with -DCOSYD_HOP=... -DCOSYD_WINDOW=... (cosyd/gpu/kernels.py does)"
#endif

constexpr int HOP = COSYD_HOP;        // samples a hop at 16 kHz: 128
constexpr int WINDOW = COSYD_WINDOW;  // DTLN's window and the front end's block: 512
constexpr int RING = 2 * WINDOW;      // samples kept of each signal; see fbank.cu for the longest look back
constexpr int HOPS = WINDOW / HOP;
constexpr int HEADER = 16;
constexpr int BINS = WINDOW / 2 + 1;  // 257
constexpr int SPEC_STRIDE = 260;      // complex bins a row: 257 padded to whole float4 pairs
constexpr int MAG_STRIDE = 288;       // magnitudes a row: 257 padded to whole K tiles of the products
constexpr int UNITS = 128;            // of every LSTM here
constexpr unsigned FULL = 0xffffffffu;

struct Step {
    const int* header;
    int capacity;
    __device__ int rows() const { return header[0]; }
    __device__ int vad_rows() const { return header[1]; }
    __device__ int slot(int row) const { return header[HEADER + row]; }
    __device__ int hop(int row) const { return header[HEADER + capacity + row]; }
    __device__ int frames(int row) const { return header[HEADER + 2 * capacity + row]; }
    __device__ int phase(int row) const { return header[HEADER + 3 * capacity + row]; }
    __device__ int vad_row(int i) const { return header[HEADER + 4 * capacity + i]; }
    __device__ const unsigned char* pcm(const unsigned char* buffer, int stride, int row) const {
        const unsigned low = header[HEADER + 5 * capacity + row], high = header[HEADER + 6 * capacity + row];
        const unsigned long long lent = (unsigned long long)high << 32 | low;
        return lent ? reinterpret_cast<const unsigned char*>(lent) : buffer + (size_t)row * stride;
    }
};

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ inline float warp_sum(float x) {
    for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(FULL, x, d);
    return x;
}

__device__ inline float warp_max(float x) {
    for (int d = 16; d > 0; d >>= 1) x = fmaxf(x, __shfl_xor_sync(FULL, x, d));
    return x;
}

// Sum over a block of THREADS threads; every thread gets it. `scratch` holds THREADS/32 floats and must not
// be in use. Two barriers, no atomics.
template <int THREADS>
__device__ float block_sum(float x, float* scratch) {
    x = warp_sum(x);
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = x;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < THREADS / 32; ++w) total += scratch[w];
    __syncthreads();
    return total;
}

// Forward DFT of N complex points (N a power of two), Stockham radix 2, by a team of TEAM threads of which
// `t` is this one. Every thread of the block must call it (it uses __syncthreads), data ready before the call
// is made visible by the first barrier inside. Returns the buffer that holds the result, after a barrier.
// tw[k] = exp(-2 pi i k / WINDOW), k < WINDOW.   FLOP: 10 * N/2 * log2 N.
template <int N, int TEAM>
__device__ float2* fft(float2* x, float2* y, const float2* __restrict__ tw, int t) {
    __syncthreads();
#pragma unroll
    for (int s = 1; s < N; s <<= 1) {
#pragma unroll
        for (int i0 = 0; i0 < N / 2; i0 += TEAM) {
            const int i = i0 + t;
            if (N / 2 % TEAM == 0 || i < N / 2) {
                const int q = i & (s - 1);
                const float2 a = x[i], b = x[i + N / 2], w = tw[(i - q) * (WINDOW / N)];
                const float2 d = make_float2(a.x - b.x, a.y - b.y);
                y[2 * i - q] = make_float2(a.x + b.x, a.y + b.y);
                y[2 * i - q + s] = make_float2(d.x * w.x - d.y * w.y, d.x * w.y + d.y * w.x);
            }
        }
        __syncthreads();
        float2* swap = x;
        x = y;
        y = swap;
    }
    return x;
}

// Bin k of the real DFT of 2N samples from Z, the DFT of z[n] = x[2n] + i x[2n+1].   0 <= k <= N.
template <int N>
__device__ float2 real_bin(const float2* z, const float2* __restrict__ tw, int k) {
    const float2 a = z[k & (N - 1)], b = z[(N - k) & (N - 1)];
    const float2 e = make_float2(0.5f * (a.x + b.x), 0.5f * (a.y - b.y));
    const float2 o = make_float2(0.5f * (a.y + b.y), 0.5f * (b.x - a.x));
    const float2 w = k == N ? make_float2(-1.0f, 0.0f) : tw[k * (WINDOW / (2 * N))];
    return make_float2(e.x + o.x * w.x - o.y * w.y, e.y + o.x * w.y + o.y * w.x);
}
