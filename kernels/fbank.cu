// Log-mel features, one frame of 400 samples every 160, as they become complete: at most one a hop.
//
// MATHEMATICS.
// fbank_kaldi: frame f = samples [160 f - 120, 160 f + 280), sample -j read as sample j - 1 (Kaldi's
//   snip_edges=false); minus its mean; v[i] -= 0.97 v[i-1], v[0] -= 0.97 v[0]; times the Povey window; padded to 512;
//   power spectrum; triangles on the mel scale; log(max(., FLT_EPSILON)).
// fbank_whisper: frame f = samples [160 f - 200, 160 f + 200), sample -j read as sample j; times the Hann window;
//   400-point power spectrum; Slaney mel; log10(max(., 1e-10)). (The clamp to 8 below the clip's maximum
//   and the scaling (x + 4)/4 need the whole clip and are the caller's.)
// The signal is what the recogniser hears: s[j] = blend clean[j + delay] + (1 - blend) raw[j + lead],
// where lead counts the samples before the stream's time 0 and delay is lead (+ DTLN's 384 when blend > 0).
//
// The 400-point DFT: with n = 25 a + b, X[k] = sum_b W^(b k) A[b][k mod 16], A[b][c] = sum_a x[25 a + b] W16^(a c);
// A[b][16 - c] is the conjugate of A[b][c], so nine of sixteen are computed: 33,000 multiply-adds, no bit reversal.
//
// LAYOUT.  raw, clean [slots][RING]; mel table [bins] of (first bin, count, offset into weights, 0); out[rows][bins].
// Rows whose frame is not complete in this hop are not written: frames ready after S samples are
// floor((S - 280)/160) + 1 (Kaldi), floor((S - 200)/160) + 1 (Whisper), S = (hop + 1) 128 - delay.
// The oldest raw sample that is read is 912 behind the newest (400 + 128 + 384): RING covers it.
//
// FLOP a frame: 1.7e4 + mel 1e3 (Kaldi), 7e4 (Whisper).  Bytes: 400 floats in, `bins` out.
// TOLERANCE: 1e-3 absolute against kaldi-native-fbank, 1e-4 against float64 above the floor.
// grid B, block 128. Reductions by shuffles and shared memory, no atomics.
#include "common.cuh"

namespace {
constexpr int SHIFT = 160, LENGTH = 400, THREADS = 128;

struct Signal {
    const float* raw;
    const float* clean;
    float blend;
    int delay, lead;
    __device__ float operator()(int j) const {
        float v = 0.0f;
        if (blend > 0.0f) v += blend * clean[(j + delay) & (RING - 1)];
        if (blend < 1.0f) v += (1.0f - blend) * raw[(j + lead) & (RING - 1)];
        return v;
    }
};

// The frame that this hop completes, or -1. `reach`: samples from 160 f to the frame's end.
__device__ int frame_due(int hop, int delay, int reach) {
    const int now = (hop + 1) * HOP - delay, before = now - HOP;
    const int ready = now < reach ? 0 : (now - reach) / SHIFT + 1, had = before < reach ? 0 : (before - reach) / SHIFT + 1;
    return ready > had ? ready - 1 : -1;
}

__device__ float mel(const float* power, const int4* table, const float* weights, int bin) {
    const int4 m = table[bin];
    float sum = 0.0f;
    for (int i = 0; i < m.y; ++i) sum += weights[m.z + i] * power[m.x + i];
    return sum;
}
}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
fbank_kaldi(const int* __restrict__ header, int capacity, const float* __restrict__ raw, const float* __restrict__ clean,
            float blend, int delay, int lead, const float* __restrict__ window, const float2* __restrict__ tw,
            const int4* __restrict__ table, const float* __restrict__ weights, int bins, float* __restrict__ out) {
    constexpr int N = WINDOW / 2;
    __shared__ float2 buffer[2][N];
    __shared__ float v[LENGTH], power[BINS], scratch[THREADS / 32];
    const Step s{header, capacity};
    const int row = blockIdx.x, t = threadIdx.x;
    if (row >= s.rows()) return;
    const int frame = frame_due(s.hop(row), delay, SHIFT / 2 + LENGTH / 2);
    if (frame < 0) return;
    const size_t slot = s.slot(row);
    const Signal signal{raw + slot * RING, clean + slot * RING, blend, delay, lead};
    const int first = frame * SHIFT + SHIFT / 2 - LENGTH / 2;
    float sum = 0.0f;
    for (int i = t; i < LENGTH; i += THREADS) {
        const int j = first + i;
        sum += v[i] = signal(j < 0 ? -j - 1 : j);
    }
    const float mean = block_sum<THREADS>(sum, scratch) * (1.0f / LENGTH);
    for (int i = t; i < N; i += THREADS) {
        float w[2];
        for (int e = 0; e < 2; ++e) {
            const int at = 2 * i + e;
            w[e] = at < LENGTH ? window[at] * (v[at] - mean - 0.97f * (v[at ? at - 1 : 0] - mean)) : 0.0f;
        }
        buffer[0][i] = make_float2(w[0], w[1]);
    }
    const float2* z = fft<N, THREADS>(buffer[0], buffer[1], tw, t);
    for (int k = t; k < BINS; k += THREADS) {
        const float2 x = real_bin<N>(z, tw, k);
        power[k] = x.x * x.x + x.y * x.y;
    }
    __syncthreads();
    for (int b = t; b < bins; b += THREADS)
        out[(size_t)row * bins + b] = logf(fmaxf(mel(power, table, weights, b), 1.1920928955078125e-07f));
}

extern "C" __global__ void __launch_bounds__(THREADS)
fbank_whisper(const int* __restrict__ header, int capacity, const float* __restrict__ raw,
              const float* __restrict__ clean, float blend, int delay, int lead, const float* __restrict__ window,
              const float2* __restrict__ tw400, const int4* __restrict__ table, const float* __restrict__ weights,
              int bins, float* __restrict__ out) {
    constexpr int A = 16, B = 25;
    __shared__ float2 w[LENGTH], part[B][A / 2 + 1];
    __shared__ float v[LENGTH], power[LENGTH / 2 + 1];
    const Step s{header, capacity};
    const int row = blockIdx.x, t = threadIdx.x;
    if (row >= s.rows()) return;
    const int frame = frame_due(s.hop(row), delay, LENGTH / 2);
    if (frame < 0) return;
    const size_t slot = s.slot(row);
    const Signal signal{raw + slot * RING, clean + slot * RING, blend, delay, lead};
    for (int i = t; i < LENGTH; i += THREADS) {
        const int j = frame * SHIFT - LENGTH / 2 + i;
        v[i] = window[i] * signal(j < 0 ? -j : j);
        w[i] = tw400[i];
    }
    __syncthreads();
    for (int i = t; i < B * (A / 2 + 1); i += THREADS) {
        const int b = i % B, c = i / B;
        float2 sum = make_float2(0, 0);
#pragma unroll
        for (int a = 0; a < A; ++a) {
            const float2 u = w[(a * c % A) * B];
            sum.x += v[B * a + b] * u.x;
            sum.y += v[B * a + b] * u.y;
        }
        part[b][c] = sum;
    }
    __syncthreads();
    for (int k = t; k <= LENGTH / 2; k += THREADS) {
        const int c = k % A;
        float re = 0.0f, im = 0.0f;
        for (int b = 0; b < B; ++b) {
            float2 p = part[b][c <= A / 2 ? c : A - c];
            if (c > A / 2) p.y = -p.y;
            const float2 u = w[b * k % LENGTH];
            re += p.x * u.x - p.y * u.y;
            im += p.x * u.y + p.y * u.x;
        }
        power[k] = re * re + im * im;
    }
    __syncthreads();
    for (int b = t; b < bins; b += THREADS)
        out[(size_t)row * bins + b] = log10f(fmaxf(mel(power, table, weights, b), 1e-10f));
}
