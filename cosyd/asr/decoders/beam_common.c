/* What both searches need: sums of exponentials, the best of many, hashes, context graphs. */
#include "beam_core.h"

#include <math.h>
#include <string.h>

/*
 * e^x for x <= 0, within 2 units of the last place: x = n ln 2 + r, e^r by a polynomial (Cephes, Moshier), and
 * 2^n put together from bits. Without branches, so that compilers make it work on many numbers at once.
 */
static inline float exp_below_zero(float x)
{
    x = x < -87.0f ? -87.0f : x;
    float shifted = x * 1.44269504089f + 12582912.0f; /* 1.5 * 2^23: rounds to a whole number */
    float n = shifted - 12582912.0f;
    float r = x - n * 0.693359375f;
    r += n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t bits = ((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

float beam_log_sum_exp(const float *logits, int64_t n, float scale)
{
    float top[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            top[j] = logits[i + j] > top[j] ? logits[i + j] : top[j];
    for (; i < n; i++)
        top[0] = logits[i] > top[0] ? logits[i] : top[0];
    float highest = top[0];
    for (int j = 1; j < 8; j++)
        highest = top[j] > highest ? top[j] : highest;
    float sums[8] = {0};
    for (i = 0; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            sums[j] += exp_below_zero((logits[i + j] - highest) * scale);
    for (; i < n; i++)
        sums[0] += exp_below_zero((logits[i] - highest) * scale);
    float sum = 0;
    for (int j = 0; j < 8; j++)
        sum += sums[j];
    return highest * scale + logf(sum);
}

double beam_log_add(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    return isfinite(low) ? high + log1p(exp(low - high)) : high;
}

uint64_t beam_extend_hash(uint64_t hash, int64_t token)
{
    uint64_t mixed = (hash ^ ((uint64_t)token + 0x9E3779B97F4A7C15u)) * 0xBF58476D1CE4E5B9u;
    return mixed ^ (mixed >> 29);
}

static int64_t find_arc(const struct beam_graph *graph, int64_t state, int64_t token)
{
    int64_t key = state * graph->span + (token < graph->span - 1 ? token : graph->span - 1);
    int64_t low = 0, high = graph->arcs;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (graph->keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < graph->arcs && graph->keys[low] == key ? low : -1;
}

int64_t beam_graph_step(const struct beam_graph *graph, int64_t state, int64_t token, float *boost)
{
    int64_t arc = find_arc(graph, state, token);
    if (arc >= 0) {
        *boost = graph->delta[arc];
        return graph->lands[graph->to[arc]];
    }
    arc = find_arc(graph, 0, token);
    *boost = (arc >= 0 ? graph->delta[arc] : 0.0f) - graph->node_score[state];
    return graph->lands[arc >= 0 ? graph->to[arc] : 0];
}

int64_t beam_top(const float *values, int64_t n, int64_t k, int64_t skip, int64_t *found)
{
    int64_t have = 0;
    float least = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (have == k && !(values[i] > least))
            continue;
        if (i == skip)
            continue;
        int64_t at = have < k ? have++ : k - 1;
        for (; at > 0 && values[found[at - 1]] < values[i]; at--)
            found[at] = found[at - 1];
        found[at] = i;
        least = values[found[have - 1]];
    }
    return have;
}

void beam_unwind(const struct beam_note *notes, int64_t frames, int64_t rows, int64_t width,
                 struct beam_note *events, int64_t *counts, int64_t *origins)
{
    int64_t all = rows * width;
    for (int64_t i = 0; i < all; i++) {
        int64_t place = i % width, first = i - place, found = 0;
        for (int64_t frame = frames - 1; frame >= 0; frame--) {
            const struct beam_note *note = notes + frame * all + first + place;
            if (note->emitted)
                events[i * frames + found++] = *note;
            place = note->parent;
        }
        for (int64_t a = i * frames, b = a + found - 1; a < b; a++, b--) {
            struct beam_note swapped = events[a];
            events[a] = events[b];
            events[b] = swapped;
        }
        counts[i] = found;
        origins[i] = place;
    }
}
