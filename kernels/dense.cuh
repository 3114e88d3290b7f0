// One matrix product for every layer of DTLN: out = epilogue([x ; h] . W), rows are streams.
//
// LAYOUT.  A row of the left operand is k1 values of `x` (row-major, stride k1) followed by k2 values of the
// slot's hidden state (k2 is UNITS or 0). W is packed [columns/4][K][4] float32 for the FP32 kernels and
// [columns/8][K][8] for the 16-bit ones, K = k1 + k2, zero-padded to a multiple of 128 columns. The columns
// of an LSTM are interleaved: column 4 u + g is gate g of unit u, g in (input, forget, cell, output), so one
// thread holds all four gates of a unit and finishes the cell without another pass.
//
// PRECONDITIONS.  k1 and k2 are multiples of 32; x, W, bias 16-byte aligned.
//
// HIDDEN STATE is double-buffered by the parity of the slot's hop: hidden[2][slots][UNITS]. A block may read
// the old state of a slot while another block writes the new one. The cell state is read and written by one
// thread only. Both stay FP32 in every mode.
//
// THREE WAYS, one epilogue:
//   dense_gemv    one warp a group of four columns, R rows; reads W once.  For up to 64 streams.
//   dense_f32     BM x BN tile, TM x TN a thread, double-buffered shared memory, FP32 FMA.
//   dense_16      tensor cores (wmma 16x16x16), FP16 or BF16 operands, FP32 accumulation.
//
// FLOP a row: 2 K columns.  Bytes a row: 4 (K + columns) of activations; W comes from L2.
// TOLERANCE: FP32 against float64 1e-5 relative to the largest output; FP16 2e-3; BF16 2e-2.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include "common.cuh"

enum Finish {
    LSTM = 0,       // gates -> cell and hidden state, out[row][unit] = h
    SPECTRUM = 1,   // mask: spectrum[row][col] *= sigmoid(v + bias)
    PLAIN = 2,      // out[row][col] = v
    FEATURES = 3,   // mask: out[row][col] = other[row][col] * sigmoid(v + bias)
    OVERLAP = 4,    // overlap-add into the slot's window; the oldest HOP samples leave
};

// Mirrored by cosyd.gpu.dtln.LAYER; the sizes are compared when the module is loaded.
struct Layer {
    const int* header;
    const float* x;
    const void* w;
    const float* bias;
    float* hidden;        // [2][slots][UNITS]
    float* cell;          // [slots][UNITS]
    const float* other;   // FEATURES: [rows][columns];  OVERLAP: raw[slots][RING]
    float* out;           // OVERLAP: what the recogniser hears, [rows][HOP];  SPECTRUM: float2 [rows][SPEC_STRIDE]
    float* window;        // OVERLAP: [slots][WINDOW]
    float* ring;          // OVERLAP: the denoised signal, [slots][RING]
    int capacity, slots, k1, k2, columns, finish;
    float blend;          // OVERLAP: share of the denoised signal in `out`
    int pad;
};
extern "C" __device__ const int cosyd_layer_bytes = sizeof(Layer);

__device__ inline const float* hidden_row(const Layer& l, const Step& s, int row, int ahead) {
    return l.hidden + ((size_t)((s.hop(row) + ahead) & 1) * l.slots + s.slot(row)) * UNITS;
}

__device__ inline void finish_lstm(const Layer& l, const Step& s, int row, int col, float4 v) {
    const int unit = col >> 2;
    const float4 b = reinterpret_cast<const float4*>(l.bias)[unit];
    float* cell = l.cell + (size_t)s.slot(row) * UNITS + unit;
    const float c = sigmoid(v.y + b.y) * *cell + sigmoid(v.x + b.x) * tanhf(v.z + b.z);
    const float h = sigmoid(v.w + b.w) * tanhf(c);
    *cell = c;
    const_cast<float*>(hidden_row(l, s, row, 1))[unit] = h;
    l.out[(size_t)row * UNITS + unit] = h;
}

__device__ inline void finish_spectrum(const Layer& l, int row, int col, const float* v) {
    float2* spectrum = reinterpret_cast<float2*>(l.out) + (size_t)row * SPEC_STRIDE;
#pragma unroll
    for (int j = 0; j < 4; ++j)
        if (col + j < l.columns) {
            const float m = sigmoid(v[j] + l.bias[col + j]);
            const float2 z = spectrum[col + j];
            spectrum[col + j] = make_float2(z.x * m, z.y * m);
        }
}

// The emitted sample with index i of the denoised signal trails the raw one by WINDOW - HOP.
__device__ inline void finish_overlap(const Layer& l, const Step& s, int row, int col, const float* v) {
    const int slot = s.slot(row), now = s.hop(row) * HOP;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int i = now + col + j;
        float* sum = l.window + (size_t)slot * WINDOW + (i & (WINDOW - 1));
        const float y = (col + j < WINDOW - HOP ? *sum : 0.0f) + v[j];
        if (col + j >= HOP) {
            *sum = y;
        } else {
            const float raw = l.other[(size_t)slot * RING + ((i - (WINDOW - HOP)) & (RING - 1))];
            l.ring[(size_t)slot * RING + (i & (RING - 1))] = y;
            l.out[(size_t)row * HOP + col + j] = l.blend * y + (1.0f - l.blend) * raw;
        }
    }
}

// v: columns col .. col+3 of the product for a row < n; col is a multiple of 4.
__device__ inline void finish(const Layer& l, const Step& s, int row, int col, float4 v) {
    const float a[4] = {v.x, v.y, v.z, v.w};
    if (l.finish == LSTM) {
        finish_lstm(l, s, row, col, v);
    } else if (l.finish == SPECTRUM) {
        finish_spectrum(l, row, col, a);
    } else if (l.finish == OVERLAP) {
        finish_overlap(l, s, row, col, a);
    } else if (l.finish == PLAIN) {
        reinterpret_cast<float4*>(l.out)[((size_t)row * l.columns + col) >> 2] = v;
    } else {
        const size_t at = ((size_t)row * l.columns + col) >> 2;
        const float4 f = reinterpret_cast<const float4*>(l.other)[at];
        const float4 b = reinterpret_cast<const float4*>(l.bias)[col >> 2];
        reinterpret_cast<float4*>(l.out)[at] = make_float4(f.x * sigmoid(a[0] + b.x), f.y * sigmoid(a[1] + b.y),
                                                           f.z * sigmoid(a[2] + b.z), f.w * sigmoid(a[3] + b.w));
    }
}

// Where a thread finds element k of its row of [x ; h]; rows past n read as zero.
struct RowOf {
    const float* x;
    const float* h;
    RowOf() = default;
    __device__ RowOf(const Layer& l, const Step& s, int row, int n) : x(nullptr), h(nullptr) {
        if (row >= n) return;
        x = l.x + (size_t)row * l.k1;
        if (l.k2) h = hidden_row(l, s, row, 0);
    }
    __device__ float4 load(int k, int k1) const {
        if (!x) return make_float4(0, 0, 0, 0);
        return *reinterpret_cast<const float4*>(k < k1 ? x + k : h + (k - k1));
    }
};

// grid (columns/16, ceil(B/R)), block 128, dynamic shared memory R * K floats, K <= 32 * GEMV_STEPS.
// A warp asks for all its weights before it waits for anything: with so few rows the time is one trip to memory.
constexpr int GEMV_STEPS = 16;

template <int R>
__device__ void dense_gemv(const Layer& l) {
    extern __shared__ float4 gemv_x[];
    const Step s{l.header, l.capacity};
    const int k = l.k1 + l.k2, lane = threadIdx.x & 31, group = blockIdx.x * 4 + (threadIdx.x >> 5);
    const bool busy = 4 * group < l.columns;
    const float4* w = reinterpret_cast<const float4*>(l.w) + (size_t)group * k;
    float4 weights[GEMV_STEPS];
#pragma unroll
    for (int j = 0; j < GEMV_STEPS; ++j)
        weights[j] = busy && lane + 32 * j < k ? w[lane + 32 * j] : make_float4(0, 0, 0, 0);
    const int n = s.rows(), first = blockIdx.y * R;
    if (first >= n) return;
    for (int r = 0; r < R; ++r) {
        const RowOf row(l, s, first + r, n);
        for (int i = threadIdx.x; i < k / 4; i += blockDim.x) gemv_x[r * (k / 4) + i] = row.load(4 * i, l.k1);
    }
    __syncthreads();
    if (!busy) return;
    const float* x = reinterpret_cast<const float*>(gemv_x);
    float4 acc[R];
#pragma unroll
    for (int r = 0; r < R; ++r) acc[r] = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int j = 0; j < GEMV_STEPS; ++j) {
        if (32 * j >= k) break;
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const float v = x[r * k + 32 * j + lane];
            acc[r].x += v * weights[j].x;
            acc[r].y += v * weights[j].y;
            acc[r].z += v * weights[j].z;
            acc[r].w += v * weights[j].w;
        }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const float4 v = make_float4(warp_sum(acc[r].x), warp_sum(acc[r].y), warp_sum(acc[r].z), warp_sum(acc[r].w));
        if (lane == r && first + r < n) finish(l, s, first + r, 4 * group, v);
    }
}

// grid (ceil(B/BM), ceil(columns/BN)), block (BM/TM)*(BN/TN).
template <int BM, int BN, int TM, int TN>
__device__ void dense_f32(const Layer& l) {
    constexpr int BK = 16, TY = BM / TM, TX = BN / TN, THREADS = TY * TX;
    constexpr int LA = BM * BK / 4 / THREADS, LB = BN * BK / 4 / THREADS;
    static_assert(LA * THREADS * 4 == BM * BK && LB * THREADS * 4 == BN * BK, "tiles divide evenly");
    __shared__ __align__(16) float as[2][BK][BM + 4];
    __shared__ __align__(16) float bs[2][BK][BN + 4];
    const Step s{l.header, l.capacity};
    const int n = s.rows(), row0 = blockIdx.x * BM, col0 = blockIdx.y * BN;
    if (row0 >= n) return;
    const int t = threadIdx.x, tx = t % TX, ty = t / TX, k = l.k1 + l.k2;
    const float4* w = reinterpret_cast<const float4*>(l.w) + (size_t)(col0 / 4) * k;
    RowOf rows[LA];
#pragma unroll
    for (int i = 0; i < LA; ++i) rows[i] = RowOf(l, s, row0 + (t + i * THREADS) / 4, n);
    float4 ra[LA], rb[LB];
    float acc[TM][TN] = {};

    auto fetch = [&](int k0) {
#pragma unroll
        for (int i = 0; i < LA; ++i) ra[i] = rows[i].load(k0 + 4 * (t % 4), l.k1);
#pragma unroll
        for (int i = 0; i < LB; ++i) {
            const int e = t + i * THREADS;
            rb[i] = w[(size_t)(e / BK) * k + k0 + e % BK];
        }
    };
    auto stash = [&](int b) {
#pragma unroll
        for (int i = 0; i < LA; ++i) {
            const int e = t + i * THREADS, r = e / 4, kk = 4 * (e % 4);
            as[b][kk][r] = ra[i].x;
            as[b][kk + 1][r] = ra[i].y;
            as[b][kk + 2][r] = ra[i].z;
            as[b][kk + 3][r] = ra[i].w;
        }
#pragma unroll
        for (int i = 0; i < LB; ++i) {
            const int e = t + i * THREADS;
            *reinterpret_cast<float4*>(&bs[b][e % BK][4 * (e / BK)]) = rb[i];
        }
    };

    fetch(0);
    stash(0);
    __syncthreads();
    for (int k0 = 0, b = 0; k0 < k; k0 += BK, b ^= 1) {
        const bool more = k0 + BK < k;
        if (more) fetch(k0 + BK);
#pragma unroll
        for (int kk = 0; kk < BK; ++kk) {
            float a[TM], c[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4)
                *reinterpret_cast<float4*>(a + i) = *reinterpret_cast<const float4*>(&as[b][kk][i * TY + 4 * ty]);
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                *reinterpret_cast<float4*>(c + j) = *reinterpret_cast<const float4*>(&bs[b][kk][j * TX + 4 * tx]);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * c[j];
        }
        if (more) stash(b ^ 1);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int row = row0 + (i / 4) * 4 * TY + 4 * ty + i % 4, col = col0 + j * TX + 4 * tx;
            if (row < n && col < l.columns)
                finish(l, s, row, col, make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]));
        }
}

// Values beyond FP16's range would become infinite; speech in +-1 stays below 512.
__device__ inline void convert(float4 v, __half* to) {
    const float top = 65504.0f;
    to[0] = __float2half_rn(fminf(fmaxf(v.x, -top), top));
    to[1] = __float2half_rn(fminf(fmaxf(v.y, -top), top));
    to[2] = __float2half_rn(fminf(fmaxf(v.z, -top), top));
    to[3] = __float2half_rn(fminf(fmaxf(v.w, -top), top));
}
__device__ inline void convert(float4 v, __nv_bfloat16* to) {
    to[0] = __float2bfloat16_rn(v.x);
    to[1] = __float2bfloat16_rn(v.y);
    to[2] = __float2bfloat16_rn(v.z);
    to[3] = __float2bfloat16_rn(v.w);
}

// A warp makes a 32 x 16*FN tile; WM x WN warps a block. grid (ceil(B/(32 WM)), ceil(columns/(16 FN WN))).
template <class T, int WM, int WN, int FN>
__device__ void dense_16(const Layer& l) {
    namespace wm = nvcuda::wmma;
    constexpr int BM = 32 * WM, BN = 16 * FN * WN, BK = 32, THREADS = 32 * WM * WN;
    constexpr int LA = BM * BK / 4 / THREADS, LB = BN * BK / 8 / THREADS;
    static_assert(LA * THREADS * 4 == BM * BK && LB * THREADS * 8 == BN * BK, "tiles divide evenly");
    __shared__ __align__(32) T as[2][BM][BK + 8];
    __shared__ __align__(32) T bs[2][BK][BN + 8];
    __shared__ __align__(32) float patch[WM * WN][16][20];
    const Step s{l.header, l.capacity};
    const int n = s.rows(), row0 = blockIdx.x * BM, col0 = blockIdx.y * BN;
    if (row0 >= n) return;
    const int t = threadIdx.x, warp = t >> 5, lane = t & 31, wy = warp / WN, wx = warp % WN, k = l.k1 + l.k2;
    const uint4* w = reinterpret_cast<const uint4*>(l.w) + (size_t)(col0 / 8) * k;
    RowOf rows[LA];
#pragma unroll
    for (int i = 0; i < LA; ++i) rows[i] = RowOf(l, s, row0 + (t + i * THREADS) / (BK / 4), n);
    float4 ra[LA];
    uint4 rb[LB];

    auto fetch = [&](int k0) {
#pragma unroll
        for (int i = 0; i < LA; ++i) ra[i] = rows[i].load(k0 + 4 * (t % (BK / 4)), l.k1);
#pragma unroll
        for (int i = 0; i < LB; ++i) {
            const int e = t + i * THREADS;
            rb[i] = w[(size_t)(e / BK) * k + k0 + e % BK];
        }
    };
    auto stash = [&](int b) {
#pragma unroll
        for (int i = 0; i < LA; ++i) {
            const int e = t + i * THREADS;
            __align__(8) T v[4];
            convert(ra[i], v);
            *reinterpret_cast<uint2*>(&as[b][e / (BK / 4)][4 * (e % (BK / 4))]) = *reinterpret_cast<uint2*>(v);
        }
#pragma unroll
        for (int i = 0; i < LB; ++i) {
            const int e = t + i * THREADS;
            *reinterpret_cast<uint4*>(&bs[b][e % BK][8 * (e / BK)]) = rb[i];
        }
    };

    wm::fragment<wm::accumulator, 16, 16, 16, float> acc[2][FN];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < FN; ++j) wm::fill_fragment(acc[i][j], 0.0f);
    fetch(0);
    stash(0);
    __syncthreads();
    for (int k0 = 0, b = 0; k0 < k; k0 += BK, b ^= 1) {
        const bool more = k0 + BK < k;
        if (more) fetch(k0 + BK);
#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
            wm::fragment<wm::matrix_a, 16, 16, 16, T, wm::row_major> a[2];
            wm::fragment<wm::matrix_b, 16, 16, 16, T, wm::row_major> c;
#pragma unroll
            for (int i = 0; i < 2; ++i) wm::load_matrix_sync(a[i], &as[b][32 * wy + 16 * i][kk], BK + 8);
#pragma unroll
            for (int j = 0; j < FN; ++j) {
                wm::load_matrix_sync(c, &bs[b][kk][16 * (FN * wx + j)], BN + 8);
#pragma unroll
                for (int i = 0; i < 2; ++i) wm::mma_sync(acc[i][j], a[i], c, acc[i][j]);
            }
        }
        if (more) stash(b ^ 1);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < FN; ++j) {
            wm::store_matrix_sync(&patch[warp][0][0], acc[i][j], 20, wm::mem_row_major);
            __syncwarp();
#pragma unroll
            for (int e = lane; e < 64; e += 32) {
                const int row = row0 + 32 * wy + 16 * i + e / 4, col = col0 + 16 * (FN * wx + j) + 4 * (e % 4);
                if (row < n && col < l.columns)
                    finish(l, s, row, col, *reinterpret_cast<const float4*>(&patch[warp][e / 4][4 * (e % 4)]));
            }
            __syncwarp();
        }
}
