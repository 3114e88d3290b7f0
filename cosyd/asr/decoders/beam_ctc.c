/* A chunk of the CTC prefix beam search (ctc_beam.py). */
#include "beam_core.h"

#include <math.h>
#include <string.h>

/* A hypothesis as it would be after a frame. `parent`: the place that it continues. */
struct candidate {
    struct ctc_prefix prefix;
    double rank;
    int64_t parent;
};

struct search {
    const struct ctc_beams *b;
    int64_t row;
    struct ctc_prefix *now;
    double total[BEAM_MOST];
    int64_t father[BEAM_MOST]; /* which other hypothesis is this one without its last token; -1: none */
};

static bool alive(const struct ctc_prefix *p)
{
    return isfinite(p->blank) || isfinite(p->label);
}

/* Of the likeliest alignment: where it enters the last token, and the highest log-probability there. */
static int64_t entry(const struct ctc_prefix *p, float *peak)
{
    bool blank = p->blank > p->label;
    *peak = blank ? p->blank_peak : p->label_peak;
    return blank ? p->blank_frame : p->label_frame;
}

static void pass_blank(struct search *s, double log_prob)
{
    for (int64_t i = 0; i < s->b->width; i++) {
        struct ctc_prefix *p = s->now + i;
        if (!alive(p))
            continue;
        p->blank_frame = entry(p, &p->blank_peak);
        p->blank = beam_log_add(p->blank, p->label) + log_prob;
        p->label = -INFINITY;
        p->fresh = 0;
    }
}

static void find_fathers(struct search *s)
{
    for (int64_t j = 0; j < s->b->width; j++) {
        s->father[j] = -1;
        s->total[j] = beam_log_add(s->now[j].blank, s->now[j].label);
        if (s->now[j].last < 0 || !alive(s->now + j))
            continue;
        for (int64_t i = 0; i < s->b->width; i++)
            if (alive(s->now + i) && s->now[i].hash == s->now[j].before)
                s->father[j] = i;
    }
}

/* Log-probability of hypothesis i where `token` may follow: after a blank if it is the last one again. */
static double source(const struct search *s, int64_t i, int64_t token)
{
    return s->now[i].last == token ? s->now[i].blank : s->total[i];
}

static struct candidate stay(const struct search *s, int64_t i, const float *scores, int64_t frame)
{
    struct ctc_prefix p = s->now[i];
    float again = p.last >= 0 ? scores[p.last] : -INFINITY;
    double stayed = p.label + again, born = -INFINITY;
    if (s->father[i] >= 0)
        born = source(s, s->father[i], p.last) + again;
    p.blank_frame = entry(s->now + i, &p.blank_peak);
    p.blank = s->total[i] + scores[s->b->blank_id];
    p.label = beam_log_add(stayed, born);
    if (born > stayed) {
        p.label_frame = frame;
        p.label_peak = again;
    } else if (again > p.label_peak) {
        p.label_peak = again;
    }
    p.fresh = 0;
    return (struct candidate){p, beam_log_add(p.blank, p.label) + p.bonus, i};
}

static int64_t insert(struct candidate *best, int64_t have, int64_t k, const struct candidate *one)
{
    if (!(one->rank > -INFINITY) || (have == k && !(one->rank > best[k - 1].rank)))
        return have;
    int64_t at = have < k ? have++ : k - 1;
    for (; at > 0 && best[at - 1].rank < one->rank; at--)
        best[at] = best[at - 1];
    best[at] = *one;
    return have;
}

static bool is_there(const struct search *s, int64_t i, int64_t token)
{
    for (int64_t j = 0; j < s->b->width; j++)
        if (s->father[j] == i && s->now[j].last == token)
            return true;
    return false;
}

/* Hypothesis i and `token` after it. */
static struct candidate longer(const struct search *s, int64_t i, int64_t token, float score, int64_t frame)
{
    const struct ctc_prefix *from = s->now + i;
    const struct beam_graph *graph = s->b->graphs + s->row;
    struct ctc_prefix p = {.blank = -INFINITY, .label = source(s, i, token) + score, .before = from->hash,
                           .last = token, .phrase = from->phrase, .label_frame = frame, .label_peak = score,
                           .fresh = 1};
    if (graph->arcs)
        p.phrase = beam_graph_step(graph, p.phrase, token, &p.boost);
    p.bonus = from->bonus + p.boost;
    return (struct candidate){p, p.label + p.bonus, i};
}

static int64_t extend(const struct search *s, const float *scores, int64_t frame, struct candidate *best,
                      int64_t have)
{
    int64_t tokens[BEAM_MOST], width = s->b->width;
    int64_t k = beam_top(scores, s->b->vocabulary, s->b->candidates, s->b->blank_id, tokens);
    for (int64_t i = 0; i < width; i++) {
        if (!alive(s->now + i))
            continue;
        for (int64_t c = 0; c < k; c++) {
            struct candidate one = longer(s, i, tokens[c], scores[tokens[c]], frame);
            if (have == width && !(one.rank > best[width - 1].rank))
                continue;
            if (!is_there(s, i, tokens[c]))
                have = insert(best, have, width, &one);
        }
    }
    return have;
}

/* What the place `i` holds now; a token that another follows is final. */
static void take(const struct search *s, const struct candidate *c, struct ctc_prefix *place,
                 struct beam_note *note)
{
    const struct ctc_prefix *from = s->now + c->parent;
    *place = c->prefix;
    if (place->fresh)
        place->hash = beam_extend_hash(place->before, place->last);
    *note = (struct beam_note){.parent = c->parent, .token = from->last, .boost = from->boost,
                               .emitted = place->fresh && from->last >= 0};
    note->frame = entry(from, &note->log_prob);
}

static void advance(struct search *s, const float *scores, int64_t frame)
{
    const struct ctc_beams *b = s->b;
    struct candidate best[BEAM_MOST];
    struct ctc_prefix next[BEAM_MOST];
    int64_t have = 0, number = b->seen[s->row] + frame;
    struct beam_note *notes = b->notes + (frame * b->rows + s->row) * b->width;
    find_fathers(s);
    for (int64_t i = 0; i < b->width; i++) {
        if (!alive(s->now + i))
            continue;
        struct candidate c = stay(s, i, scores, number);
        have = insert(best, have, b->width, &c);
    }
    have = extend(s, scores, number, best, have);
    for (int64_t i = 0; i < b->width; i++) {
        if (i < have)
            take(s, best + i, next + i, notes + i);
        else
            next[i] = (struct ctc_prefix){.blank = -INFINITY, .label = -INFINITY, .last = -1};
    }
    memcpy(s->now, next, sizeof *next * (size_t)b->width);
}

void ctc_chunk(const struct ctc_beams *b, const float *scores, int64_t frames, const int64_t *counts,
               int64_t begin, int64_t end, double skip)
{
    struct search s = {.b = b};
    for (s.row = 0; s.row < b->rows; s.row++) {
        s.now = b->prefixes + s.row * b->width;
        for (int64_t frame = begin; frame < end && frame < counts[s.row]; frame++) {
            const float *at = scores + (s.row * frames + frame) * b->vocabulary;
            if (at[b->blank_id] >= skip)
                pass_blank(&s, at[b->blank_id]);
            else
                advance(&s, at, frame);
        }
    }
}
