// Beams of a microphone array: what is noise, the weights against it, one channel out of many.
//
// MATHEMATICS.
//   beam_noise    R = keep R + (1 - share) x x^H a bin, and how much was heard: h = keep h + (1 - share)
//   beam_weights  with L the mean of R's diagonal and t = h / (h + trust): S = t R / L + (1 - t) A + loading I
//                 (A: the coherence assumed before anything was heard); w = S^-1 d / (d^H S^-1 d), by
//                 elimination without pivots, as S is Hermitian and positive definite
//   beam_apply    y(f) = sum_m (now + ramp (next - now))* x: over the hops of a block weights turn evenly
// LAYOUT.  spectra[rows][mics][bins] float2, share[rows][bins]; R[slots][bins][mics][mics] float2,
// heard[slots][bins], assumed[bins][mics][mics] float2, steering[rows][bins][mics] float2,
// now and next[slots][bins][mics] float2, out[rows][bins] float2.
// PRECONDITIONS.  mics <= 16; slots cleared before their first hop; beam_weights: mics threads of a warp.
// FLOP a row and bin: noise 8 mics², weights 8 mics³ / 3, apply 8 mics. Bytes: R twice, the spectra once.
// TOLERANCE: noise and apply 1e-5 relative, weights 1e-4 relative at loading >= 1e-3; response 1 to 1e-5.
// beam_noise, beam_apply: grid (bins / 128 rounded up, B), block 128. beam_weights: grid (bins, B), block 32.
#include "common.cuh"

constexpr int MOST_MICS = 16;

__device__ inline float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ inline float2 conj_times(float2 a, float2 b) {  // a* b
    return make_float2(a.x * b.x + a.y * b.y, a.x * b.y - a.y * b.x);
}

extern "C" __global__ void __launch_bounds__(128)
beam_noise(const int* __restrict__ header, int capacity, const float2* __restrict__ spectra,
           const float* __restrict__ share, int mics, int bins, float keep, float2* __restrict__ noise,
           float* __restrict__ heard) {
    const Step s{header, capacity};
    const int row = blockIdx.y, f = blockIdx.x * 128 + threadIdx.x;
    if (row >= s.rows() || f >= bins) return;
    const int slot = s.slot(row);
    const float part = 1.0f - share[(size_t)row * bins + f];
    float2 x[MOST_MICS];
    for (int m = 0; m < mics; ++m) x[m] = spectra[((size_t)row * mics + m) * bins + f];
    float2* r = noise + ((size_t)slot * bins + f) * mics * mics;
    for (int i = 0; i < mics; ++i)
        for (int j = 0; j < mics; ++j) {
            const float2 product = conj_times(x[j], x[i]);  // x_i x_j*
            float2 value = r[i * mics + j];
            value.x = keep * value.x + part * product.x;
            value.y = keep * value.y + part * product.y;
            r[i * mics + j] = value;
        }
    float* h = heard + (size_t)slot * bins + f;
    *h = keep * *h + part;
}

extern "C" __global__ void __launch_bounds__(32)
beam_weights(const int* __restrict__ header, int capacity, const float2* __restrict__ noise,
             const float* __restrict__ heard, const float2* __restrict__ assumed,
             const float2* __restrict__ steering, int mics, int bins, float trust, float loading,
             float2* __restrict__ next) {
    const Step s{header, capacity};
    const int f = blockIdx.x, row = blockIdx.y, lane = threadIdx.x;
    if (row >= s.rows()) return;
    const int slot = s.slot(row);
    __shared__ float2 a[MOST_MICS][MOST_MICS + 2];  // the matrix, its right side as column mics
    const float2* r = noise + ((size_t)slot * bins + f) * mics * mics;
    const float own = lane < mics ? r[lane * mics + lane].x : 0.0f;
    const float level = warp_sum(own) / mics, h = heard[(size_t)slot * bins + f];
    const float t = level > 1e-20f ? h / (h + trust) : 0.0f, scale = level > 1e-20f ? t / level : 0.0f;
    const float2* d = steering + ((size_t)row * bins + f) * mics;
    if (lane < mics) {
        for (int j = 0; j < mics; ++j) {
            const float2 learned = r[lane * mics + j], prior = assumed[((size_t)f * mics + lane) * mics + j];
            a[lane][j] = make_float2(scale * learned.x + (1.0f - t) * prior.x,
                                     scale * learned.y + (1.0f - t) * prior.y);
        }
        a[lane][lane].x += loading;
        a[lane][mics] = d[lane];
    }
    __syncwarp();
    for (int k = 0; k < mics; ++k) {  // Gauss-Jordan: every lane its row
        const float inverse = 1.0f / a[k][k].x;
        if (lane < mics && lane != k) {
            const float2 q = make_float2(a[lane][k].x * inverse, a[lane][k].y * inverse);
            for (int j = k; j <= mics; ++j) {
                const float2 p = times(q, a[k][j]);
                a[lane][j].x -= p.x;
                a[lane][j].y -= p.y;
            }
        }
        __syncwarp();
    }
    float2 v = make_float2(0, 0), gain = make_float2(0, 0);
    if (lane < mics) {
        const float inverse = 1.0f / a[lane][lane].x;
        v = make_float2(a[lane][mics].x * inverse, a[lane][mics].y * inverse);
        gain = conj_times(d[lane], v);
    }
    const float total = warp_sum(gain.x);  // d^H S^-1 d is real
    if (lane < mics) next[((size_t)slot * bins + f) * mics + lane] = make_float2(v.x / total, v.y / total);
}

extern "C" __global__ void __launch_bounds__(128)
beam_apply(const int* __restrict__ header, int capacity, const float2* __restrict__ spectra,
           const float2* __restrict__ now, const float2* __restrict__ next, int mics, int bins, float ramp,
           float2* __restrict__ out) {
    const Step s{header, capacity};
    const int row = blockIdx.y, f = blockIdx.x * 128 + threadIdx.x;
    if (row >= s.rows() || f >= bins) return;
    const size_t from = ((size_t)s.slot(row) * bins + f) * mics;
    float2 y = make_float2(0, 0);
    for (int m = 0; m < mics; ++m) {
        const float2 a = now[from + m], b = next[from + m];
        const float2 w = make_float2(a.x + ramp * (b.x - a.x), a.y + ramp * (b.y - a.y));
        const float2 p = conj_times(w, spectra[((size_t)row * mics + m) * bins + f]);
        y.x += p.x;
        y.y += p.y;
    }
    out[(size_t)row * bins + f] = y;
}
