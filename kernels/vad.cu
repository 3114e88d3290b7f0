// Silero VAD 6 at 16 kHz: the probability that a chunk of 512 samples is speech. One block runs the whole
// network for R streams.
//
// MATHEMATICS.  input = 64 samples of the chunk before, the chunk, 64 more by reflection (640).  Four frames
// of 256 every 128: magnitude of the windowed DFT, 129 bins.  Four convolutions over the frames (width 3,
// padding 1, ReLU): 129->128, 128->64 stride 2, 64->64 stride 2, 64->128 (4, 2, 1, 1 frames).  LSTM of 128
// (gates i f g o).  p = sigmoid(w . relu(h) + b).
//
// LAYOUT.  signal[slots][RING] at absolute index modulo RING; hidden, cell [slots][128]. `weights`, in this
// order: window 256; convolutions [3][in/4][out][4] with 129 padded to 132, each followed by its bias [out];
// LSTM [(128+128)/4][4][128][4], bias [4][128]; w[128]; b (padded to 4).
// PRECONDITIONS.  Rows are those of header's vad_row list; a slot's RING holds the chunk and 64 samples before.
// Samples before index `origin` of the signal, the stream's time 0, count as silence.
//
// FLOP a chunk: 8.1e5 (+ 2e4 in the transforms), a quarter of that a hop.  Bytes: 3.4 kB of signal and state a
// stream; 0.9 MB of weights a block, from L2: R streams share them.
// TOLERANCE: probability 1e-5 absolute against float64.
// grid ceil(B/R), block 256.
#include "common.cuh"

namespace {
constexpr int THREADS = 256, FRAMES = 4, FRAME = 256, CONTEXT = 64, INPUT = CONTEXT + WINDOW;
constexpr int BINS_IN = 132, C0 = 128, C1 = 64, C2 = 64, C3 = 128;

template <int R>
struct Shared {
    float magnitude[R][FRAMES][BINS_IN];
    float a0[R][4][C0];
    union {
        float2 transform[4][2][FRAME / 2];
        struct {
            float a1[R][2][C1], a2[R][1][C2], a3[R][1][C3], h[R][UNITS];
        };
    };
};

// Four frames at a time, a team of 64 threads each.
template <int R>
__device__ void spectra(Shared<R>& m, const Step& s, const float* signal, const float* window, const float2* tw,
                        int origin, int first, int n) {
    const int team = threadIdx.x >> 6, t = threadIdx.x & 63;
    for (int r = 0; r < R; ++r) {
        float2 *x = m.transform[team][0], *y = m.transform[team][1];
        if (first + r < n) {
            const int row = s.vad_row(first + r);
            const float* from = signal + (size_t)s.slot(row) * RING;
            const int start = (s.hop(row) + 1) * HOP - INPUT;
            for (int i = t; i < FRAME / 2; i += 64) {
                float v[2];
                for (int j = 0; j < 2; ++j) {
                    int at = team * (FRAME / 2) + 2 * i + j;
                    if (at >= INPUT) at = 2 * INPUT - 2 - at;
                    v[j] = start + at < origin ? 0.0f : from[(start + at) & (RING - 1)] * window[2 * i + j];
                }
                x[i] = make_float2(v[0], v[1]);
            }
        }
        const float2* z = fft<FRAME / 2, 64>(x, y, tw, t);
        for (int k = t; k < BINS_IN; k += 64) {
            const float2 v = k <= FRAME / 2 ? real_bin<FRAME / 2>(z, tw, k) : make_float2(0, 0);
            m.magnitude[r][team][k] = sqrtf(v.x * v.x + v.y * v.y);
        }
        __syncthreads();
    }
}

__device__ inline float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

// x[R][TIN][IN] -> y[R][TOUT][OUT], width 3, padding 1, ReLU. A thread keeps one channel of several rows.
template <int R, int IN, int OUT, int TIN, int TOUT, int STRIDE>
__device__ const float* convolve(const float* x, float* y, const float* weights) {
    constexpr int GROUPS = THREADS / OUT, EACH = (R + GROUPS - 1) / GROUPS;
    const int channel = threadIdx.x % OUT, group = threadIdx.x / OUT;
    const float4* w = reinterpret_cast<const float4*>(weights);
    float acc[EACH][TOUT];
#pragma unroll
    for (int e = 0; e < EACH; ++e)
#pragma unroll
        for (int o = 0; o < TOUT; ++o) acc[e][o] = weights[3 * IN * OUT + channel];
    if (R >= GROUPS || group < R) {
#pragma unroll 2
        for (int c = 0; c < IN / 4; ++c) {
            float4 tap[3];
#pragma unroll
            for (int k = 0; k < 3; ++k)
                if (k < TIN + 1 && (TIN > 1 || k == 1)) tap[k] = w[(k * (IN / 4) + c) * OUT + channel];
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const float4* from = reinterpret_cast<const float4*>(x + (group + e * GROUPS) * TIN * IN) + c;
#pragma unroll
                for (int i = 0; i < TIN; ++i) {
                    const float4 v = from[i * (IN / 4)];
#pragma unroll
                    for (int o = 0; o < TOUT; ++o) {
                        const int k = i - o * STRIDE + 1;
                        if (k >= 0 && k < 3) acc[e][o] += dot(tap[k], v);
                    }
                }
            }
        }
#pragma unroll
        for (int e = 0; e < EACH; ++e)
#pragma unroll
            for (int o = 0; o < TOUT; ++o) y[((group + e * GROUPS) * TOUT + o) * OUT + channel] = fmaxf(acc[e][o], 0.0f);
    }
    __syncthreads();
    return weights + 3 * IN * OUT + OUT;
}

// Writes the new hidden state to m.h; the old one is there when it is called.
template <int R>
__device__ const float* recur(Shared<R>& m, const Step& s, const float* weights, float* hidden, float* cell, int first,
                              int n) {
    constexpr int GROUPS = THREADS / UNITS, EACH = (R + GROUPS - 1) / GROUPS;
    const int unit = threadIdx.x % UNITS, group = threadIdx.x / UNITS;
    const float4* w = reinterpret_cast<const float4*>(weights);
    const float* bias = weights + 4 * UNITS * 2 * UNITS;
    float acc[EACH][4];
#pragma unroll
    for (int e = 0; e < EACH; ++e)
#pragma unroll
        for (int g = 0; g < 4; ++g) acc[e][g] = bias[g * UNITS + unit];
    const bool busy = R >= GROUPS || group < R;
    if (busy) {
#pragma unroll 4
        for (int c = 0; c < 2 * UNITS / 4; ++c) {
            float4 wg[4];
#pragma unroll
            for (int g = 0; g < 4; ++g) wg[g] = w[(c * 4 + g) * UNITS + unit];
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const int r = group + e * GROUPS;
                const float* from = c < UNITS / 4 ? &m.a3[r][0][4 * c] : &m.h[r][4 * c - UNITS];
                const float4 v = *reinterpret_cast<const float4*>(from);
#pragma unroll
                for (int g = 0; g < 4; ++g) acc[e][g] += dot(wg[g], v);
            }
        }
    }
    __syncthreads();
    if (busy) {
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            const int r = group + e * GROUPS;
            if (first + r < n) {
                const size_t at = (size_t)s.slot(s.vad_row(first + r)) * UNITS + unit;
                const float c = sigmoid(acc[e][1]) * cell[at] + sigmoid(acc[e][0]) * tanhf(acc[e][2]);
                const float h = sigmoid(acc[e][3]) * tanhf(c);
                cell[at] = c;
                hidden[at] = h;
                m.h[r][unit] = h;
            }
        }
    }
    __syncthreads();
    return bias + 4 * UNITS;
}

template <int R>
__device__ void vad(const int* header, int capacity, const float* signal, int origin, const float2* tw, const float* weights,
                    float* hidden, float* cell, float* probability) {
    __shared__ __align__(16) Shared<R> m;
    const Step s{header, capacity};
    const int n = s.vad_rows(), first = blockIdx.x * R, t = threadIdx.x;
    if (first >= n) return;
    spectra<R>(m, s, signal, weights, tw, origin, first, n);
    const float* w = weights + FRAME;
    w = convolve<R, BINS_IN, C0, 4, 4, 1>(&m.magnitude[0][0][0], &m.a0[0][0][0], w);
    for (int i = t; i < R * UNITS; i += THREADS) {
        const int r = i / UNITS;
        m.h[r][i % UNITS] = first + r < n ? hidden[(size_t)s.slot(s.vad_row(first + r)) * UNITS + i % UNITS] : 0.0f;
    }
    w = convolve<R, C0, C1, 4, 2, 2>(&m.a0[0][0][0], &m.a1[0][0][0], w);
    w = convolve<R, C1, C2, 2, 1, 2>(&m.a1[0][0][0], &m.a2[0][0][0], w);
    w = convolve<R, C2, C3, 1, 1, 1>(&m.a2[0][0][0], &m.a3[0][0][0], w);
    w = recur<R>(m, s, w, hidden, cell, first, n);
    const int r = t >> 5, lane = t & 31;
    if (r >= R || first + r >= n) return;
    float sum = 0.0f;
#pragma unroll
    for (int i = lane; i < UNITS; i += 32) sum += w[i] * fmaxf(m.h[r][i], 0.0f);
    sum = warp_sum(sum);
    if (lane == 0) probability[s.vad_row(first + r)] = sigmoid(sum + w[UNITS]);
}
}  // namespace

#define VAD(R)                                                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                          \
        vad_##R(const int* __restrict__ header, int capacity, const float* __restrict__ signal, int origin,        \
                const float2* __restrict__ tw, const float* __restrict__ weights, float* __restrict__ hidden,      \
                float* __restrict__ cell, float* __restrict__ probability) {                                       \
        vad<R>(header, capacity, signal, origin, tw, weights, hidden, cell, probability);                                  \
    }
VAD(1)
VAD(8)
