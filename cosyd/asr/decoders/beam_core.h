/*
 * The beam searches of transducer_beam.py and ctc_beam.py, frame by frame and hypothesis by hypothesis.
 *
 * All arrays are C-contiguous and the caller's. A row is a stream, `width` its places for hypotheses; a place
 * whose probabilities are all 0 is free. Nothing here allocates memory or touches Python.
 */
#ifndef COSYD_BEAM_CORE_H
#define COSYD_BEAM_CORE_H

#include <stdbool.h>
#include <stdint.h>

#define BEAM_MOST 512 /* places of a stream, and candidates of a frame */

/* A context graph (context_graph.py): sorted keys state * span + token, and what their arcs do. */
struct beam_graph {
    const int64_t *keys;
    const int64_t *to;
    const float *delta;
    const int64_t *lands;
    const float *node_score;
    int64_t arcs; /* 0: no graph */
    int64_t span;
};

/* What a place holds after a frame (history.py), [frames, rows, width]: which place it continues, and the token
 * that is final since, if any. */
struct beam_note {
    int64_t parent, token, frame;
    float log_prob, boost;
    int64_t emitted;
};

struct transducer_hypothesis {
    double score; /* log-probability with boosts; -inf: free */
    uint64_t hash;
    int64_t length, blanks, phrase;
    int64_t fresh; /* out: the context is new, decoder_out is to be computed */
};

struct transducer_beams {
    int64_t rows, width, beam, context_size, joined, vocabulary;
    int64_t unk; /* -1: none */
    struct transducer_hypothesis *hypotheses;
    int64_t *contexts;
    float *decoder_out;
    const struct beam_graph *graphs;
    struct beam_note *notes;
    const int64_t *seen; /* frames before the chunk, of each row */
};

struct ctc_prefix {
    double blank, label; /* log-probability of the alignments that end in a blank, and in the last token */
    double bonus;        /* what hotwords and language model gave */
    uint64_t hash, before; /* of all tokens, and of all but the last */
    int64_t last;          /* last token; -1: none */
    int64_t phrase;
    int64_t blank_frame, label_frame; /* where the likeliest alignment of either kind enters the last token */
    float blank_peak, label_peak;     /* and its highest log-probability there */
    float boost;                      /* what hotwords gave for the last token */
    int32_t fresh;                    /* out: the last token is new */
};

struct ctc_beams {
    int64_t rows, width, candidates, vocabulary, blank_id;
    struct ctc_prefix *prefixes;
    const struct beam_graph *graphs;
    struct beam_note *notes;
    const int64_t *seen;
};

/* log of the sum of e^(scale * logit). */
float beam_log_sum_exp(const float *logits, int64_t n, float scale);
double beam_log_add(double a, double b);
/* Of a sequence of tokens with one more; two that differ have equal ones once in 2^64. */
uint64_t beam_extend_hash(uint64_t hash, int64_t token);
int64_t beam_graph_step(const struct beam_graph *graph, int64_t state, int64_t token, float *boost);
/* The k highest of n values but the one at `skip`, highest first; of equal ones the first. Returns how many. */
int64_t beam_top(const float *values, int64_t n, int64_t k, int64_t skip, int64_t *found);

/*
 * What the joiner is to see of frame `frame` in the `count` rows `live`: a row for each hypothesis, of
 * `encoder_out` [rows, frames, encoded] and of its decoder_out. Returns how many there are.
 */
int64_t transducer_pack(const struct transducer_beams *beams, const int64_t *live, int64_t count, int64_t frame,
                        const float *encoder_out, int64_t frames, int64_t encoded, float *to_encoder,
                        float *to_decoder);

/*
 * Frame `frame` of the chunk in the `count` rows `live`. `logits`: of their hypotheses in order.
 * `scratch`: room for a row of decoder_out and for one of contexts. Returns how many places have a new context,
 * and in `fresh` which, counted through all rows.
 */
int64_t transducer_step(const struct transducer_beams *beams, const int64_t *live, int64_t count, int64_t frame,
                     const float *logits, float penalty, float temperature, void *scratch, int64_t *fresh);

/*
 * Frames `begin` to `end` of a chunk: `scores` [rows, frames, vocabulary], of which row i has `counts[i]`.
 * Frames whose blank has at least the log-probability `skip` are passed over.
 */
void ctc_chunk(const struct ctc_beams *beams, const float *scores, int64_t frames, const int64_t *counts,
               int64_t begin, int64_t end, double skip);

/*
 * What each place has emitted in the chunk: `events` [rows, width, frames], the first `counts` [rows, width] of
 * each, first to last, and `origins` [rows, width], the place before the chunk that it comes from.
 */
void beam_unwind(const struct beam_note *notes, int64_t frames, int64_t rows, int64_t width,
                 struct beam_note *events, int64_t *counts, int64_t *origins);

#endif
