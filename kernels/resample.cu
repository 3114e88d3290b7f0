// Device frames to 16 kHz mono without a constant part, in one pass.
//
// MATHEMATICS.  Mix: the mean of the mapped channels, x.  Resample: output k of the stream is
//   r[k] = sum_j taps[p][j] x[b - width/2 + 1 + j],   b = floor(k down / up),  p = (k down) mod up,
// a windowed sinc designed by cosyd.frontend.resample.design (the CPU stage uses the same taps; 16 kHz has
// the single tap 1).  DC removal: y[k] = r[k] - r[k-1] + pole y[k-1], with r[-1] = r[0], y[-1] = 0.
//
// The recursion is a scan: lane i of the first warp runs its HOP/32 samples from rest, the lanes' ends are
// combined by Kogge-Stone with powers of the pole, and each lane adds its start times pole^m.
//
// LAYOUT.  pcm[rows][stride] bytes, a row's frames from its start, 4-byte aligned, unless the header says where else
// they lie (aligned like a sample). history[slots][history_max]:
// the `width` mixed samples before this hop's first frame. taps: bank of [width][up], transposed so that the
// threads of a warp, which have different p, read one line. raw[slots][RING]: the result at its absolute index
// modulo RING. dc[slots][2]: last r, last y.
//
// WHOLE RATIOS (48, 96, 32 kHz: up = 1) have the same taps for every output. The samples are dealt out over `down`
// lines, x_p[i] = x[i down + p], so that the filter becomes `down` filters of stride one; a thread makes four
// neighbouring outputs from a quarter of each line with 16-byte loads: 16 multiply-adds for two of them instead of one.
// Other ratios take one output a thread.
//
// PRECONDITIONS.  header frames = floor((phase + HOP down) / up) where phase = ((hop HOP - 1) down) mod up, and
// history was primed by the host when the stream joined; width <= history_max. Up to 32 channels.
// Dynamic shared memory: HOP floats and the larger of width + frames and down (LINE + TAPS) + 4 HOP.
//
// FLOP a row: 2 HOP width (48 kHz: 62,000).  Bytes: the PCM once, history twice, HOP floats out.
// TOLERANCE: 2e-6 absolute against float64 for signals in +-1.
// grid B, block HOP.
#include "pcm.cuh"

constexpr int WARPS = HOP / 32;
constexpr int EACH_WARP = 24;                // taps of a line that one warp takes
constexpr int TAPS = WARPS * EACH_WARP;      // most taps of a line: 96
constexpr int LINE = HOP + TAPS + 4;         // samples of a line, zeros at its end

// Where mixed sample i (0: the oldest of the history) lies in shared memory.
struct Samples {
    float* x;
    int down;  // 0: one line
    __device__ float* at(int i) const { return down ? x + (i % down) * LINE + i / down - 1 : x + i; }
    // The first `down` samples lie before the first output's window when there are lines.
    __device__ void put(int i, float v) const {
        if (i >= down) *at(i) = v;
    }
};

// One output a thread. x: history and mixed new samples.
__device__ static float resampled(const Stream& st, const float* __restrict__ taps, const float* x, int phase) {
    const int time = phase + (threadIdx.x + 1) * st.down;
    if (st.width == 1) return x[time / st.up];
    const float* window = x + time / st.up;
    const float* h = taps + st.taps + time % st.up;
    float sum = 0.0f;
#pragma unroll 8
    for (int j = 0; j < st.width; ++j) sum += h[j * st.up] * window[j];
    return sum;
}

// All threads: clears the lines and deals out the taps, h_p[q] = taps[q down + p], zero beyond the last.
__device__ static void prepare_lines(const Stream& st, const float* __restrict__ taps, float* x, float* h) {
    for (int i = threadIdx.x; i < st.down * LINE; i += HOP) x[i] = 0.0f;
    for (int i = threadIdx.x; i < st.down * TAPS; i += HOP) {
        const int j = i % TAPS * st.down + i / TAPS;
        h[i] = j < st.width ? taps[st.taps + j] : 0.0f;
    }
}

// Four outputs of one warp's share of the taps, to partial[warp][HOP].
__device__ static void filter_lines(const Stream& st, const float* x, const float* h, float* partial) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int p = 0; p < st.down; ++p) {
        const float4* v = reinterpret_cast<const float4*>(x + p * LINE + 4 * lane + warp * EACH_WARP);
        const float4* c = reinterpret_cast<const float4*>(h + p * TAPS + warp * EACH_WARP);
        float4 a = v[0];
#pragma unroll
        for (int k = 0; k < EACH_WARP / 4; ++k) {
            const float4 b = v[k + 1], w = c[k];
            sum.x += w.x * a.x + w.y * a.y + w.z * a.z + w.w * a.w;
            sum.y += w.x * a.y + w.y * a.z + w.z * a.w + w.w * b.x;
            sum.z += w.x * a.z + w.y * a.w + w.z * b.x + w.w * b.y;
            sum.w += w.x * a.w + w.y * b.x + w.z * b.y + w.w * b.z;
            a = b;
        }
    }
    reinterpret_cast<float4*>(partial + warp * HOP)[lane] = sum;
}

// The first warp filters r[0..HOP) in place.
__device__ static void remove_dc(float* r, float* state, bool fresh, float pole) {
    constexpr int EACH = HOP / 32;
    const int lane = threadIdx.x;
    float* mine = r + lane * EACH;
    float before = lane ? mine[-1] : fresh ? r[0] : state[0], y[EACH], run = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const float v = mine[i];
        y[i] = run = v - before + pole * run;
        before = v;
    }
    float power = 1.0f;
#pragma unroll
    for (int i = 0; i < EACH; ++i) power *= pole;
    const float first = fresh ? 0.0f : state[1];
    float end = lane ? run : run + power * first, step = power;
    for (int d = 1; d < 32; d <<= 1) {
        const float other = __shfl_up_sync(FULL, end, d);
        if (lane >= d) end += step * other;
        step *= step;
    }
    float start = __shfl_up_sync(FULL, end, 1);
    if (lane == 0) start = first;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        start *= pole;
        mine[i] = y[i] + start;
    }
    if (lane == 31) {
        state[0] = before;
        state[1] = end;
    }
}

extern "C" __global__ void __launch_bounds__(HOP)
resample(const int* __restrict__ header, int capacity, const unsigned char* __restrict__ pcm, int stride,
         const Stream* __restrict__ streams, const float* __restrict__ taps, float* __restrict__ history,
         int history_max, float pole, int remove, float* __restrict__ dc, float* __restrict__ raw) {
    extern __shared__ float4 shared[];
    float* r = reinterpret_cast<float*>(shared);
    const Step s{header, capacity};
    const int row = blockIdx.x, t = threadIdx.x;
    if (row >= s.rows()) return;
    const int slot = s.slot(row), frames = s.frames(row), hop = s.hop(row);
    const Stream st = streams[slot];
    const bool lines = st.up == 1 && st.width > 1 && st.width <= st.down * TAPS;
    const Samples x{r + HOP, lines ? st.down : 0};
    float *h = x.x + st.down * LINE, *partial = h + st.down * TAPS;
    if (lines) {
        prepare_lines(st, taps, x.x, h);
        __syncthreads();
    }
    const unsigned char* from = s.pcm(pcm, stride, row);
    float* kept = history + (size_t)slot * history_max;
    for (int i = t; i < st.width; i += HOP) x.put(i, kept[i]);
    const float share = 1.0f / __popc(st.mapped);
    for (int i = t; i < frames; i += HOP) {
        float sum = 0.0f;
        for (unsigned left = st.mapped; left; left &= left - 1)
            sum += pcm_sample(from, st.format, i * st.channels + __ffs(left) - 1);
        x.put(st.width + i, sum * share);
    }
    __syncthreads();
    if (lines) {
        filter_lines(st, x.x, h, partial);
        __syncthreads();
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) sum += partial[w * HOP + t];
        r[t] = sum;
    } else {
        r[t] = resampled(st, taps, x.x, s.phase(row));
    }
    for (int i = t; i < st.width; i += HOP) kept[i] = *x.at(frames + i);
    __syncthreads();
    if (remove && t < 32) remove_dc(r, dc + 2 * slot, hop == 0, pole);
    __syncthreads();
    raw[(size_t)slot * RING + ((hop * HOP + t) & (RING - 1))] = r[t];
}

// Without a denoiser the recogniser hears the raw hop: raw[slots][RING] -> out[rows][HOP]. grid B, block HOP.
extern "C" __global__ void __launch_bounds__(HOP)
copy_raw(const int* __restrict__ header, int capacity, const float* __restrict__ raw, float* __restrict__ out) {
    const Step s{header, capacity};
    const int row = blockIdx.x, t = threadIdx.x;
    if (row >= s.rows()) return;
    out[(size_t)row * HOP + t] = raw[(size_t)s.slot(row) * RING + ((s.hop(row) * HOP + t) & (RING - 1))];
}
