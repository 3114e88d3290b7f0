// Steered response power with phase transform of a microphone array: how much comes from each direction.
//
// MATHEMATICS.  For spectra X of one hop, phases p_m(f) = X_m(f) / |X_m(f)| (0 where |X| < 1e-9), weights
// w(f) = share(f)² and the steering vector d_u(f) of direction u,
//   P_u = sum_f w (|sum_m d_um(f)* p_m(f)|² - sum_m |p_m(f)|² - (1 - w) N_u(f)) / 2 / pairs
// which is the sum over the pairs of microphones of their correlations at the lags of u, exactly: |sum|² is all
// pairs twice and each microphone with itself. N_u(f) = d_u^H G d_u - M is what noise of coherence G adds:
// phases of a mixture are, on average, w of the voice's and 1 - w of the noise's, and a noise from one place
// would else be found where it is. No noise where the pointer is null. Power and weight are smoothed over
// hops, s = keep s + P, and the quotient is given.
// LAYOUT.  spectra[rows][mics][bins] float2, share[rows][bins], table[used][mics][directions] float2 (bins
// first .. first + used - 1), noise[slots][used][directions] or null, power[slots][directions],
// weight[slots]; out[rows][directions].
// PRECONDITIONS.  mics <= 16, used <= 512; slots cleared before their first hop.
// FLOP a row and direction: 8 mics used. Bytes: the table once a row from L2, 8 mics used directions.
// TOLERANCE: 2e-5 absolute, powers are at most 1.
// grid B, block 128, shared memory (mics used 8 + used 4) bytes.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(128)
srp_phat(const int* __restrict__ header, int capacity, const float2* __restrict__ spectra,
         const float* __restrict__ share, const float2* __restrict__ table, const float* __restrict__ noise,
         int mics, int bins, int first, int used, int directions, float keep, float* __restrict__ power,
         float* __restrict__ weight, float* __restrict__ out) {
    const Step s{header, capacity};
    const int row = blockIdx.x;
    if (row >= s.rows()) return;
    const int slot = s.slot(row);
    extern __shared__ float phase_and_weight[];
    float2* phase = reinterpret_cast<float2*>(phase_and_weight);  // [used][mics]
    float* w = phase_and_weight + 2 * mics * used;
    __shared__ float scratch[4];
    float own = 0.0f;
    for (int f = threadIdx.x; f < used; f += 128) {
        const float part = share[(size_t)row * bins + first + f];
        w[f] = part * part;
        own += part * part;
        for (int m = 0; m < mics; ++m) {
            const float2 x = spectra[((size_t)row * mics + m) * bins + first + f];
            const float size = sqrtf(x.x * x.x + x.y * x.y), scale = size < 1e-9f ? 0.0f : 1.0f / size;
            phase[f * mics + m] = make_float2(x.x * scale, x.y * scale);
        }
    }
    const float added = block_sum<128>(own, scratch);  // its barriers also publish phase and w
    const float total = keep * weight[slot] + added;
    __syncthreads();
    if (threadIdx.x == 0) weight[slot] = total;
    const float pairs = 0.5f * mics * (mics - 1);
    for (int u = threadIdx.x; u < directions; u += 128) {
        float sum = 0.0f;
        for (int f = 0; f < used; ++f) {
            float re = 0.0f, im = 0.0f, self = 0.0f;
            for (int m = 0; m < mics; ++m) {
                const float2 d = table[((size_t)f * mics + m) * directions + u], p = phase[f * mics + m];
                re += d.x * p.x + d.y * p.y;
                im += d.x * p.y - d.y * p.x;
                self += p.x * p.x + p.y * p.y;
            }
            float value = re * re + im * im - self;
            if (noise) value -= (1.0f - w[f]) * noise[((size_t)slot * used + f) * directions + u];
            sum += w[f] * value;
        }
        float* kept = power + (size_t)slot * directions + u;
        *kept = keep * *kept + 0.5f * sum / pairs;
        out[(size_t)row * directions + u] = total > 0.0f ? *kept / total : 0.0f;
    }
}
