// Level, clipping and silence of every channel of a hop, on the frames as the device delivered them.
//
// MATHEMATICS.  Over the hop's frames of channel c: sum of squares, largest magnitude, how many samples are
// at full scale (|x| >= 1 - 2^-15), how many are silent (|x| < silence).
// LAYOUT.  out[rows][channels_max][4] float; channels that a stream does not have are 0.
// PRECONDITIONS.  As resample.cu; channels beyond channels_max are left out.
// FLOP a sample: 5.  Bytes: the PCM once.  TOLERANCE: sum 1e-6 relative; the rest exact.
// grid B, block 128: a warp takes every fourth channel.
#include "pcm.cuh"

extern "C" __global__ void __launch_bounds__(128)
stats(const int* __restrict__ header, int capacity, const unsigned char* __restrict__ pcm, int stride,
      const Stream* __restrict__ streams, float silence, int channels_max, float4* __restrict__ out) {
    const Step s{header, capacity};
    const int row = blockIdx.x, lane = threadIdx.x & 31;
    if (row >= s.rows()) return;
    const Stream st = streams[s.slot(row)];
    const unsigned char* from = s.pcm(pcm, stride, row);
    const int frames = s.frames(row);
    for (int c = threadIdx.x >> 5; c < channels_max; c += 4) {
        float4 v = make_float4(0, 0, 0, 0);
        if (c < st.channels)
            for (int i = lane; i < frames; i += 32) {
                const float x = pcm_sample(from, st.format, i * st.channels + c), a = fabsf(x);
                v.x += x * x;
                v.y = fmaxf(v.y, a);
                v.z += a >= 1.0f - 1.0f / 32768.0f;
                v.w += a < silence;
            }
        v = make_float4(warp_sum(v.x), warp_max(v.y), warp_sum(v.z), warp_sum(v.w));
        if (lane == 0) out[(size_t)row * channels_max + c] = v;
    }
}
