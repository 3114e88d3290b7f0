/* A frame of the transducer's beam search (transducer_beam.py). */
#include "beam_core.h"

#include <math.h>
#include <string.h>

struct choice {
    float score;
    int64_t parent, token;
};

/* Puts one more among the `have` best so far, at most `k`; returns how many there are now. */
static int64_t insert(struct choice *best, int64_t have, int64_t k, struct choice one)
{
    if (have == k && !(one.score > best[k - 1].score))
        return have;
    int64_t at = have < k ? have++ : k - 1;
    for (; at > 0 && best[at - 1].score < one.score; at--)
        best[at] = best[at - 1];
    best[at] = one;
    return have;
}

/* The best continuations of a row's hypotheses, whose logits follow each other. */
static int64_t choose(const struct transducer_beams *b, const struct transducer_hypothesis *now,
                      const float *logits, float penalty, float *total, struct choice *best)
{
    int64_t have = 0;
    for (int64_t i = 0; i < b->width; i++) {
        if (!isfinite(now[i].score))
            continue;
        double others = beam_log_sum_exp(logits + 1, b->vocabulary - 1, 1.0f);
        total[i] = (float)beam_log_add(others, logits[0]);
        float all = (float)beam_log_add(others, logits[0] - penalty);
        float score = (float)now[i].score; /* single precision, as in the reference: near ties fall alike */
        have = insert(best, have, b->beam, (struct choice){logits[0] - penalty - all + score, i, 0});
        for (int64_t token = 1; token < b->vocabulary; token++) {
            float value = logits[token] - all + score;
            if (have < b->beam || value > best[have - 1].score)
                have = insert(best, have, b->beam, (struct choice){value, i, token});
        }
        logits += b->vocabulary;
    }
    return have;
}

/* Each place gets what its choice's parent has. */
static void gather(void *values, int64_t size, const struct choice *best, int64_t have, void *scratch)
{
    for (int64_t i = 0; i < have; i++)
        memcpy((char *)scratch + i * size, (char *)values + best[i].parent * size, (size_t)size);
    memcpy(values, scratch, (size_t)(have * size));
}

static void emit(const struct transducer_beams *b, int64_t at, int64_t token)
{
    struct transducer_hypothesis *h = b->hypotheses + at;
    int64_t *context = b->contexts + at * b->context_size;
    memmove(context, context + 1, (size_t)(b->context_size - 1) * sizeof *context);
    context[b->context_size - 1] = token;
    h->hash = beam_extend_hash(h->hash, token);
    h->length++;
    h->blanks = 0;
}

static float token_log_prob(const struct transducer_beams *b, const float *logits, int64_t token, float total,
                            float temperature)
{
    if (temperature != 1.0f)
        total = beam_log_sum_exp(logits, b->vocabulary, 1.0f / temperature);
    return logits[token] / temperature - total;
}

/* Hypotheses that say the same become one: the first of them, which is the likeliest. */
static void settle(struct transducer_hypothesis *row, int64_t i, double score)
{
    for (int64_t twin = 0; twin < i; twin++)
        if (isfinite(row[twin].score) && row[twin].hash == row[i].hash) {
            row[twin].score = beam_log_add(row[twin].score, score);
            return;
        }
    row[i].score = score;
}

static int64_t step_row(const struct transducer_beams *b, int64_t row, int64_t frame, const float *logits,
                        float penalty, float temperature, void *scratch)
{
    int64_t at = row * b->width, hypotheses = 0;
    struct transducer_hypothesis *now = b->hypotheses + at, old[BEAM_MOST];
    struct choice best[BEAM_MOST];
    float total[BEAM_MOST];
    int64_t order[BEAM_MOST];
    for (int64_t i = 0; i < b->width; i++)
        order[i] = isfinite(now[i].score) ? hypotheses++ : -1;
    int64_t have = choose(b, now, logits, penalty, total, best);
    memcpy(old, now, sizeof *now * (size_t)b->width);
    gather(b->decoder_out + at * b->joined, b->joined * (int64_t)sizeof(float), best, have, scratch);
    gather(b->contexts + at * b->context_size, b->context_size * (int64_t)sizeof(int64_t), best, have, scratch);
    for (int64_t i = 0; i < b->width; i++) {
        now[i].score = -INFINITY;
        now[i].fresh = 0;
    }
    for (int64_t i = 0; i < have; i++) {
        const struct choice *c = best + i;
        const float *of_parent = logits + order[c->parent] * b->vocabulary;
        struct beam_note *note = b->notes + (frame * b->rows + row) * b->width + i;
        now[i] = old[c->parent];
        now[i].score = -INFINITY;
        bool emitted = c->token != 0 && c->token != b->unk;
        *note = (struct beam_note){.parent = c->parent, .token = c->token, .emitted = emitted};
        if (emitted) {
            note->frame = b->seen[row] + frame;
            note->log_prob = token_log_prob(b, of_parent, c->token, total[c->parent], temperature);
            if (b->graphs[row].arcs)
                now[i].phrase = beam_graph_step(b->graphs + row, now[i].phrase, c->token, &note->boost);
            emit(b, at + i, c->token);
        } else {
            now[i].blanks++;
        }
        settle(now, i, (double)(c->score + note->boost));
        now[i].fresh = emitted && isfinite(now[i].score);
    }
    return hypotheses;
}

int64_t transducer_pack(const struct transducer_beams *b, const int64_t *live, int64_t count, int64_t frame,
                        const float *encoder_out, int64_t frames, int64_t encoded, float *to_encoder,
                        float *to_decoder)
{
    int64_t packed = 0;
    for (int64_t r = 0; r < count; r++)
        for (int64_t i = 0; i < b->width; i++) {
            int64_t at = live[r] * b->width + i;
            if (!isfinite(b->hypotheses[at].score))
                continue;
            memcpy(to_encoder + packed * encoded, encoder_out + (live[r] * frames + frame) * encoded,
                   (size_t)encoded * sizeof(float));
            memcpy(to_decoder + packed * b->joined, b->decoder_out + at * b->joined,
                   (size_t)b->joined * sizeof(float));
            packed++;
        }
    return packed;
}

int64_t transducer_step(const struct transducer_beams *b, const int64_t *live, int64_t count, int64_t frame,
                        const float *logits, float penalty, float temperature, void *scratch, int64_t *fresh)
{
    int64_t found = 0;
    for (int64_t r = 0; r < count; r++) {
        logits += b->vocabulary * step_row(b, live[r], frame, logits, penalty, temperature, scratch);
        for (int64_t i = 0; i < b->width; i++)
            if (b->hypotheses[live[r] * b->width + i].fresh)
                fresh[found++] = live[r] * b->width + i;
    }
    return found;
}
