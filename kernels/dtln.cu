// DTLN (Westhausen and Meyer 2020), both stages, one hop of many streams.
//
// MATHEMATICS.  frame = the newest 512 samples.  Stage 1: X = rfft(frame); m = sigmoid(D lstm(lstm(|X|)) + d);
// y = irfft(m X).  Stage 2: f = C y (learned basis, 256); g = layer norm of f over its 256 values
// (variance + 1e-7, gain, bias); e = f * sigmoid(E lstm(lstm(g)) + e0); z = B e (512).  z is overlap-added into
// the slot's window; the 128 samples that no later frame touches are the output, 384 samples after the input.
//
// KERNELS of a hop, in this order (the products are dense.cuh's):
//   dtln_analysis   frame -> spectrum, magnitude          dense  magnitude -> LSTM 1
//   dense  LSTM 2                                         dense  mask, in place on the spectrum
//   dtln_synthesis  spectrum -> y                         dense  learned basis
//   dtln_normalise  layer norm                            dense  LSTM 3, LSTM 4
//   dense  mask on the features                           dense  inverse basis, overlap-add, output
//
// LAYOUT.  raw[slots][RING] holds the 16 kHz signal at absolute index modulo RING, the hop that is being
// worked on included. spectrum[rows][SPEC_STRIDE] float2, magnitude[rows][MAG_STRIDE] zero-padded,
// y[rows][512], features and normalised [rows][256].
//
// FLOP a hop and stream: 1.97e6 in the products (2 * 983,000 multiply-adds), 3e4 in the transforms.
// Bytes a hop and stream: about 44 kB of activations and state; 3.9 MB of FP32 weights once a step (L2).
// TOLERANCE: output against float64, FP32: 1e-5 absolute for speech in +-1; FP16/BF16: see docs/gpu.md.
#include "dense.cuh"

// grid ceil(B/4), block 256: four rows, 64 threads each.
extern "C" __global__ void __launch_bounds__(256)
dtln_analysis(const int* __restrict__ header, int capacity, const float* __restrict__ raw,
              const float2* __restrict__ tw, float2* __restrict__ spectrum, float* __restrict__ magnitude) {
    __shared__ float2 buffer[4][2][WINDOW / 2];
    const Step s{header, capacity};
    const int n = s.rows(), team = threadIdx.x >> 6, t = threadIdx.x & 63, row = blockIdx.x * 4 + team;
    if (blockIdx.x * 4 >= n) return;
    float2 *x = buffer[team][0], *y = buffer[team][1];
    if (row < n) {
        const float* from = raw + (size_t)s.slot(row) * RING;
        const int first = (s.hop(row) + 1) * HOP - WINDOW;
        for (int i = t; i < WINDOW / 2; i += 64)
            x[i] = *reinterpret_cast<const float2*>(from + ((first + 2 * i) & (RING - 1)));
    }
    const float2* z = fft<WINDOW / 2, 64>(x, y, tw, t);
    if (row >= n) return;
    for (int k = t; k < MAG_STRIDE; k += 64) {
        float m = 0.0f;
        if (k < BINS) {
            const float2 v = real_bin<WINDOW / 2>(z, tw, k);
            spectrum[(size_t)row * SPEC_STRIDE + k] = v;
            m = sqrtf(v.x * v.x + v.y * v.y);
        }
        magnitude[(size_t)row * MAG_STRIDE + k] = m;
    }
}

// grid ceil(B/4), block 256.
extern "C" __global__ void __launch_bounds__(256)
dtln_synthesis(const int* __restrict__ header, int capacity, const float2* __restrict__ tw,
               const float2* __restrict__ spectrum, float* __restrict__ frame) {
    constexpr int N = WINDOW / 2;
    __shared__ float2 buffer[4][2][N];
    const Step s{header, capacity};
    const int n = s.rows(), team = threadIdx.x >> 6, t = threadIdx.x & 63, row = blockIdx.x * 4 + team;
    if (blockIdx.x * 4 >= n) return;
    float2 *x = buffer[team][0], *y = buffer[team][1];
    if (row < n) {
        const float2* from = spectrum + (size_t)row * SPEC_STRIDE;
        for (int k = t; k < N; k += 64) {
            const float2 a = from[k], b = from[N - k], w = tw[k];
            const float2 even = make_float2(0.5f * (a.x + b.x), 0.5f * (a.y - b.y));
            const float2 d = make_float2(0.5f * (a.x - b.x), 0.5f * (a.y + b.y));
            const float2 odd = make_float2(d.x * w.x + d.y * w.y, d.y * w.x - d.x * w.y);
            x[k] = make_float2(even.x - odd.y, -(even.y + odd.x));  // conjugate of even + i odd
        }
    }
    const float2* z = fft<N, 64>(x, y, tw, t);
    if (row >= n) return;
    float2* to = reinterpret_cast<float2*>(frame + (size_t)row * WINDOW);
    for (int i = t; i < N; i += 64) to[i] = make_float2(z[i].x * (1.0f / N), z[i].y * (-1.0f / N));
}

// Layer norm over WIDTH values, two passes so that a large mean costs no precision.
// grid ceil(B/8), block 256: a warp a row.
extern "C" __global__ void __launch_bounds__(256)
dtln_normalise(const int* __restrict__ header, int capacity, const float* __restrict__ features,
               const float* __restrict__ gain, const float* __restrict__ bias, float epsilon,
               float* __restrict__ normalised) {
    constexpr int WIDTH = WINDOW / 2, EACH = WIDTH / 32;
    const Step s{header, capacity};
    const int row = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (row >= s.rows()) return;
    const float* x = features + (size_t)row * WIDTH;
    float v[EACH], sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; ++i) sum += v[i] = x[lane + 32 * i];
    const float mean = warp_sum(sum) * (1.0f / WIDTH);
#pragma unroll
    for (int i = 0; i < EACH; ++i) squares += (v[i] - mean) * (v[i] - mean);
    const float scale = 1.0f / sqrtf(warp_sum(squares) * (1.0f / WIDTH) + epsilon);
#pragma unroll
    for (int i = 0; i < EACH; ++i)
        normalised[(size_t)row * WIDTH + lane + 32 * i] = (v[i] - mean) * scale * gain[lane + 32 * i] + bias[lane + 32 * i];
}

// The products. One code path a mode and size; cosyd/gpu/dtln.py chooses by the bucket.
extern "C" __global__ void __launch_bounds__(128) dense_gemv_1(const Layer layer) { dense_gemv<1>(layer); }
extern "C" __global__ void __launch_bounds__(128) dense_gemv_8(const Layer layer) { dense_gemv<8>(layer); }
extern "C" __global__ void __launch_bounds__(128) dense_f32_small(const Layer layer) { dense_f32<32, 64, 4, 4>(layer); }
extern "C" __global__ void __launch_bounds__(256, 2) dense_f32_large(const Layer layer) { dense_f32<128, 128, 8, 8>(layer); }
extern "C" __global__ void __launch_bounds__(128) dense_f16_small(const Layer layer) { dense_16<__half, 2, 2, 2>(layer); }
extern "C" __global__ void __launch_bounds__(256, 2) dense_f16_large(const Layer layer) { dense_16<__half, 4, 2, 4>(layer); }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // Turing has no BF16
extern "C" __global__ void __launch_bounds__(128) dense_bf16_small(const Layer layer) { dense_16<__nv_bfloat16, 2, 2, 2>(layer); }
extern "C" __global__ void __launch_bounds__(256, 2) dense_bf16_large(const Layer layer) { dense_16<__nv_bfloat16, 4, 2, 4>(layer); }
#endif
