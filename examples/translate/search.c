/* See search.h.  The order in which scores are rounded to floats is that of generate(), for it decides between near ones. */
#include "search.h"
#include "../shared/layers.h"
#include "../shared/lines.h"

#include <math.h>

/* A translation, or what may become one: a row of the step that said its last token, and that token. */
struct candidate {
    float score;
    int32_t row, token;
};

struct translation {
    float score;
    int64_t count; /* of its tokens */
    struct candidate last;
};

struct line {
    int64_t number;
    int64_t found; /* translations, the best one first */
    struct translation *best;
};

struct search {
    struct search_settings settings;
    struct model *model;
    struct heed_exec exec;
    int64_t vocabulary, rows; /* rows: the most that a step has */
    int64_t step;
    int32_t *tokens, *parents;          /* [most_tokens, rows]: what the rows of each step were given, and their parents */
    float *scores, *next_scores;        /* [rows]: of this step and the next one */
    float *shares;                      /* [rows, vocabulary]: softmax of logits */
    struct candidate *of_row, *of_line; /* [2 * beams]: the best ones */
    struct line *line;                  /* those that go on */
    int32_t *said;                      /* [most_tokens] */
};

/* Puts a candidate into a list of the best ones, if it is better than the last of them; the first of equal ones wins. */
static void offer(struct candidate *list, int64_t count, struct candidate candidate) {
    if (!(candidate.score > list[count - 1].score))
        return;
    int64_t i = count - 1;
    for (; i > 0 && candidate.score > list[i - 1].score; i--)
        list[i] = list[i - 1];
    list[i] = candidate;
}

static void clear(struct candidate *list, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        list[i] = (struct candidate){.score = -INFINITY};
}

/* Hands out a translation: its last token, and those that its row and the rows before it were given. */
static void finish(const struct search *search, const struct line *line, const struct translation *translation) {
    int32_t row = translation->last.row;
    search->said[translation->count - 1] = translation->last.token;
    for (int64_t step = translation->count - 1; step > 0; step--) {
        search->said[step - 1] = search->tokens[step * search->rows + row];
        row = search->parents[step * search->rows + row];
    }
    search->settings.done(search->settings.context, line->number, search->said, translation->count);
}

static void go_on(struct search *search, int64_t row, const struct candidate *from) {
    const int64_t at = (search->step + 1) * search->rows + row;
    search->tokens[at] = from->token;
    search->parents[at] = from->row;
    search->next_scores[row] = from->score;
}

static bool ends(const struct search *search, const struct candidate *candidate) {
    return candidate->token == search->settings.end || search->step + 1 == search->settings.most_tokens;
}

/* Returns whether the line goes on, then as row `to` of the next step. */
static bool advance_greedy(struct search *search, const float *logits, struct line *line, int64_t from, int64_t to) {
    const struct candidate best = {0, (int32_t)from, likeliest(logits + from * search->vocabulary, search->vocabulary)};
    if (!ends(search, &best)) {
        go_on(search, to, &best);
        return true;
    }
    finish(search, line, &(struct translation){0, search->step + 1, best});
    return false;
}

/* The best continuations of all beams of a line: twice as many as beams, as each beam may end in one way. */
static void find_continuations(const struct search *search, const float *logits, int64_t from, int64_t rows) {
    const int64_t count = 2 * search->settings.beams;
    clear(search->of_line, count);
    for (int64_t row = from; row < from + rows; row++) {
        clear(search->of_row, count);
        for (int64_t i = 0; i < search->vocabulary; i++)
            offer(search->of_row, count, (struct candidate){logits[row * search->vocabulary + i], (int32_t)row, (int32_t)i});
        const float most = search->of_row[0].score;
        const float log_sum = -logf(search->shares[row * search->vocabulary + search->of_row[0].token]);
        for (int64_t i = 0; i < count; i++) {
            search->of_row[i].score = search->of_row[i].score - most - log_sum + search->scores[row];
            offer(search->of_line, count, search->of_row[i]);
        }
    }
}

/* Scores are divided by a power of the length. */
static float by_length(const struct search *search, float score, int64_t length) {
    return score / (float)pow((double)length, search->settings.length_penalty);
}

static void keep(const struct search *search, struct line *line, const struct candidate *last) {
    const int64_t count = search->step + 1;
    const float score = by_length(search, last->score, count);
    int64_t i = line->found;
    if (i < search->settings.beams)
        line->found++;
    else if (score > line->best[i - 1].score)
        i--;
    else
        return;
    for (; i > 0 && score > line->best[i - 1].score; i--)
        line->best[i] = line->best[i - 1];
    line->best[i] = (struct translation){score, count, *last};
}

/* Whether the best beam may still become better than the worst of as many translations as are wanted. */
static bool may_improve(const struct search *search, const struct line *line, float score) {
    if (line->found < search->settings.beams)
        return true;
    const bool longer = search->settings.stopping == STOP_NEVER && search->settings.length_penalty > 0;
    return search->settings.stopping != STOP_EARLY &&
           by_length(search, score, longer ? search->settings.most_tokens : search->step + 1) > line->best[line->found - 1].score;
}

static bool advance_beams(struct search *search, const float *logits, struct line *line, int64_t from, int64_t rows, int64_t to) {
    const int64_t beams = search->settings.beams;
    int64_t kept = 0;
    find_continuations(search, logits, from, rows);
    for (int64_t i = 0; i < 2 * beams; i++)
        if (!ends(search, &search->of_line[i])) {
            if (kept < beams)
                go_on(search, to + kept++, &search->of_line[i]);
        } else if (i < beams)
            keep(search, line, &search->of_line[i]);
    if (kept == beams && may_improve(search, line, search->next_scores[to]))
        return true;
    finish(search, line, &line->best[0]);
    return false;
}

/* One step of the lines that go on; returns how many of them still do. */
static int64_t advance(struct search *search, int64_t lines) {
    const int64_t beams = search->settings.beams, rows = search->step == 0 ? 1 : beams, at = search->step * search->rows;
    const int32_t *parents = search->step == 0 ? NULL : search->parents + at;
    const float *logits = model_step(search->model, lines, rows, search->tokens + at, parents);
    int64_t left = 0;
    if (beams > 1)
        softmax(&search->exec, lines * rows, search->vocabulary, 1, logits, search->shares);
    for (int64_t i = 0; i < lines && search->settings.print_logits; i++)
        print_numbers(stdout, logits + i * search->vocabulary, search->vocabulary);
    for (int64_t i = 0; i < lines; i++) {
        struct line *line = &search->line[i];
        if (beams > 1 ? advance_beams(search, logits, line, i * rows, rows, left * beams)
                      : advance_greedy(search, logits, line, i, left)) {
            const struct line other = search->line[left]; /* one that is done, or itself */
            search->line[left++] = *line;
            *line = other;
        }
    }
    float *scores = search->scores;
    search->scores = search->next_scores;
    search->next_scores = scores;
    search->step++;
    return left;
}

struct search *search_open(const struct search_settings *settings, struct model *model, int64_t lines,
                           const struct heed_exec *exec) {
    struct search *search = allocate(1, sizeof *search);
    const int64_t beams = settings->beams, rows = lines * beams, history = settings->most_tokens * rows;
    *search =
        (struct search){.settings = *settings, .model = model, .exec = *exec, .vocabulary = model_vocabulary(model), .rows = rows};
    search->tokens = allocate(history, sizeof *search->tokens);
    search->parents = allocate(history, sizeof *search->parents);
    search->scores = allocate(rows, sizeof *search->scores);
    search->next_scores = allocate(rows, sizeof *search->next_scores);
    search->shares = allocate(beams > 1 ? rows * search->vocabulary : 0, sizeof *search->shares);
    search->of_row = allocate(2 * beams, sizeof *search->of_row);
    search->of_line = allocate(2 * beams, sizeof *search->of_line);
    search->line = allocate(lines, sizeof *search->line);
    search->said = allocate(settings->most_tokens, sizeof *search->said);
    for (int64_t i = 0; i < lines; i++)
        search->line[i].best = allocate(beams, sizeof *search->line[i].best);
    return search;
}

void search_batch(struct search *search, const int32_t *tokens, const int64_t *starts, int64_t lines) {
    model_begin(search->model, tokens, starts, lines, search->settings.beams, search->settings.most_tokens);
    search->step = 0;
    for (int64_t i = 0; i < lines; i++) {
        search->line[i].number = i;
        search->line[i].found = 0;
        search->tokens[i] = search->settings.start;
        search->scores[i] = 0;
    }
    while (lines > 0)
        lines = advance(search, lines);
}
