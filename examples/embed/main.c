/* A sentence encoder: lines of text to vectors, or ranked by how near they are to a query. */
#include "../checkpoint/checkpoint.h"
#include "../shared/command.h"
#include "../shared/lines.h"
#include "model.h"
#include "wordpiece.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: embed [OPTION]... MODEL <LINES\n"
    "\n"
    "Prints a vector of length 1 for each line of standard input, its numbers separated by blanks. MODEL is a folder with a BERT\n"
    "sentence encoder as Hugging Face has them: config.json, model.safetensors, vocab.txt and, if they are there,\n"
    "tokenizer_config.json, sentence_bert_config.json and 1_Pooling/config.json.\n"
    "\n"
    "  --similar=QUERY   prints the lines instead, the ones most similar to QUERY first, each behind its cosine and a bar\n"
    "  --tokens          prints the numbers of the tokens instead\n"
    "  --weights=TYPE    what weights are kept in: f32 [default], bf16, or int8 in blocks of 32\n"
    "  --threads=N       [as many as the machine has]\n"
    "  --max-tokens=N    cuts longer lines [what MODEL says]\n"
    "  --batch=N         tokens that are computed together, a line at least [512]; the vectors are the same\n";

enum { LEAST_TOKENS = 2, MOST_BATCH = 1 << 20, BAR = 20 };

struct ranked {
    char *line;
    int64_t bytes, number; /* number: from 0 */
    double cosine;
};

/* Lines on their way: those of a batch have tokens but no vectors yet. */
struct encoder {
    const char *folder, *query, *weights;
    bool print_tokens;
    int64_t batch, most_tokens; /* of a batch; of a line, 0: what the model says */
    struct heed_exec exec;
    struct wordpiece *wordpiece;
    struct model *model;
    int64_t width, sentences, done;
    int32_t *tokens;
    int64_t *starts;
    float *vectors, *direction; /* direction: the vector of the query */
    struct ranked *ranked;
    struct progress progress;
};

static struct encoder parse(int argc, char **argv) {
    struct encoder made = {.weights = "f32", .batch = 512};
    int64_t threads = 0;
    const struct choice choices[] = {{"similar", .text = &made.query},
                                     {"tokens", .flag = &made.print_tokens},
                                     {"weights", .text = &made.weights},
                                     {"threads", .integer = &threads, .least = 1, .most = 1024},
                                     {"max-tokens", .integer = &made.most_tokens, .least = LEAST_TOKENS, .most = INT32_MAX},
                                     {"batch", .integer = &made.batch, .least = 1, .most = MOST_BATCH},
                                     {.name = NULL}};
    made.folder = read_options(argc, argv, usage, choices);
    made.exec.threads = (int)threads;
    return made;
}

static double dot(const float *a, const float *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

static void finish_batch(struct encoder *encoder) {
    model_encode(encoder->model, encoder->tokens, encoder->starts, encoder->sentences, encoder->vectors);
    for (int64_t i = 0; i < encoder->sentences; i++) {
        const float *vector = encoder->vectors + i * encoder->width;
        if (encoder->query)
            encoder->ranked[encoder->done + i].cosine = dot(vector, encoder->direction, encoder->width);
        else
            print_numbers(stdout, vector, encoder->width);
    }
    encoder->done += encoder->sentences;
    encoder->sentences = 0;
    progress_show(&encoder->progress, "%" PRId64 " lines, %.0f per second", encoder->done,
                  (double)encoder->done / progress_seconds(&encoder->progress));
}

/* The tokens go behind those of the batch, which is done first if it would become too long. */
static void add_line(struct encoder *encoder, const char *line, int64_t bytes) {
    int64_t *end = encoder->starts + encoder->sentences;
    int32_t *tokens = encoder->tokens + *end;
    const int64_t count = wordpiece_encode(encoder->wordpiece, line, (size_t)bytes, encoder->most_tokens, tokens);
    if (encoder->print_tokens) {
        print_ids(stdout, tokens, count);
        return;
    }
    if (encoder->sentences > 0 && *end + count > encoder->batch) {
        finish_batch(encoder);
        memmove(encoder->tokens, tokens, (size_t)count * sizeof *tokens);
    }
    encoder->sentences++;
    encoder->starts[encoder->sentences] = encoder->starts[encoder->sentences - 1] + count;
}

static void remember(struct encoder *encoder, const char *line, int64_t bytes) {
    const int64_t number = encoder->done + encoder->sentences;
    char *copy = allocate(bytes, 1);
    memcpy(copy, line, (size_t)bytes);
    encoder->ranked = grow(encoder->ranked, number, sizeof *encoder->ranked);
    encoder->ranked[number] = (struct ranked){copy, bytes, number, 0};
}

static void read_lines(struct encoder *encoder) {
    int64_t bytes;
    for (const char *line; (line = next_line(&bytes));) {
        if (encoder->query)
            remember(encoder, line, bytes);
        add_line(encoder, line, bytes);
    }
    if (encoder->sentences > 0)
        finish_batch(encoder);
    progress_end(&encoder->progress);
}

static int by_cosine(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->cosine != y->cosine)
        return x->cosine < y->cosine ? 1 : -1;
    return x->number < y->number ? -1 : 1;
}

static void print_ranking(struct ranked *ranked, int64_t count) {
    static const char full[] = "####################";
    if (count > 0)
        qsort(ranked, (size_t)count, sizeof *ranked, by_cosine);
    for (int64_t i = 0; i < count; i++) {
        const double share = ranked[i].cosine > 0 ? ranked[i].cosine : 0;
        printf("%7.4f  %-*.*s  ", ranked[i].cosine, BAR, (int)(share * BAR + 0.5), full);
        fwrite(ranked[i].line, 1, (size_t)ranked[i].bytes, stdout);
        printf("\n");
    }
}

static void open_encoder(struct encoder *encoder) {
    const enum heed_type weights = type_of_weights(encoder->weights);
    encoder->wordpiece = wordpiece_open(encoder->folder);
    encoder->model = model_open(encoder->folder, weights, &encoder->exec);
    const struct model_sizes sizes = model_sizes(encoder->model);
    const int64_t wanted = wordpiece_most_tokens(encoder->wordpiece);
    if (wordpiece_size(encoder->wordpiece) > sizes.vocabulary)
        fail("%s: vocab.txt has %" PRId64 " tokens, but vocab_size in config.json is %" PRId64, encoder->folder,
             wordpiece_size(encoder->wordpiece), sizes.vocabulary);
    if (encoder->most_tokens > sizes.positions)
        fail("--max-tokens=%" PRId64 ": %s has positions for %" PRId64, encoder->most_tokens, encoder->folder, sizes.positions);
    if (encoder->most_tokens == 0)
        encoder->most_tokens = wanted < sizes.positions ? wanted : sizes.positions;
    encoder->width = sizes.width;
    const int64_t room = encoder->batch > encoder->most_tokens ? encoder->batch : encoder->most_tokens;
    const int64_t sentences = room / LEAST_TOKENS;
    model_make_room(encoder->model, room);
    encoder->tokens = allocate(room + encoder->most_tokens, sizeof *encoder->tokens); /* of a batch, and of the line after it */
    encoder->starts = allocate(sentences + 1, sizeof *encoder->starts);
    encoder->starts[0] = 0;
    encoder->vectors = allocate(sentences * sizes.width, sizeof *encoder->vectors);
}

static void encode_query(struct encoder *encoder) {
    const size_t bytes = strlen(encoder->query);
    encoder->direction = allocate(encoder->width, sizeof *encoder->direction);
    encoder->starts[1] = wordpiece_encode(encoder->wordpiece, encoder->query, bytes, encoder->most_tokens, encoder->tokens);
    model_encode(encoder->model, encoder->tokens, encoder->starts, 1, encoder->direction);
}

int main(int argc, char **argv) {
    program_name = "embed";
    struct encoder encoder = parse(argc, argv);
    open_encoder(&encoder);
    if (encoder.print_tokens)
        encoder.query = NULL;
    if (encoder.query)
        encode_query(&encoder);
    encoder.progress = progress_start(encoder.query);
    read_lines(&encoder);
    if (encoder.query)
        print_ranking(encoder.ranked, encoder.done);
    end_output();
    return EXIT_SUCCESS;
}
