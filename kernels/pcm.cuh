// Interleaved little-endian PCM as devices deliver it, and what the host says of each slot's stream.
#pragma once
#include "common.cuh"

enum Format { S16 = 0, S32 = 1, F32 = 2, S24 = 3 };  // S24: packed, three bytes

// Mirrored by cosyd.gpu.streams.STREAM: one a slot, written when a stream joins.
struct Stream {
    int taps;          // first float of this ratio's filter in the bank
    int width;         // taps an output
    int up, down;      // output k lies at input time k * down / up
    int channels;      // interleaved
    int format;
    unsigned mapped;   // bit c: channel c is part of the mix (their mean)
    int pad;
};
extern "C" __device__ const int cosyd_stream_bytes = sizeof(Stream);

// Sample `index` (frame * channels + channel) as float in +-1; NaN and infinities become 0.
__device__ inline float pcm_sample(const unsigned char* __restrict__ pcm, int format, int index) {
    if (format == S16) return reinterpret_cast<const short*>(pcm)[index] * (1.0f / 32768.0f);
    if (format == S32) return reinterpret_cast<const int*>(pcm)[index] * (1.0f / 2147483648.0f);
    if (format == S24) {
        const unsigned char* b = pcm + 3 * (size_t)index;
        const int v = (int)((unsigned)b[0] << 8 | (unsigned)b[1] << 16 | (unsigned)b[2] << 24);
        return v * (1.0f / 2147483648.0f);
    }
    const float v = reinterpret_cast<const float*>(pcm)[index];
    return isfinite(v) ? v : 0.0f;
}
