/* A sentence encoder: lines of text to vectors, or ranked by how near they are to a query. */
#define _POSIX_C_SOURCE 200809L

#include "../checkpoint/checkpoint.h"
#include "../checkpoint/command.h"
#include "model.h"
#include "wordpiece.h"

#include <errno.h>
#include <getopt.h>
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

struct options {
    const char *folder, *query;
    bool tokens;
    enum heed_type weights;
    int64_t max_tokens, batch;
    struct heed_exec exec;
};

struct ranked {
    char *line;
    size_t bytes;
    int64_t number; /* from 0 */
    double cosine;
};

/* Lines on their way: those of a batch have tokens but no vectors yet. */
struct encoder {
    struct options options;
    struct wordpiece *wordpiece;
    struct model *model;
    int64_t width, most_tokens, sentences, done;
    int32_t *tokens;
    int64_t *starts;
    float *vectors, *query;
    struct ranked *ranked;
    struct progress progress;
};

static struct options read_options(int argc, char **argv) {
    static const struct option known[] = {
        {"similar", 1, NULL, 's'},    {"tokens", 0, NULL, 't'}, {"weights", 1, NULL, 'w'}, {"threads", 1, NULL, 'n'},
        {"max-tokens", 1, NULL, 'm'}, {"batch", 1, NULL, 'b'},  {"help", 0, NULL, 'h'},    {NULL, 0, NULL, 0}};
    struct options options = {.batch = 512};
    for (int option; (option = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        if (option == 's')
            options.query = optarg;
        else if (option == 't')
            options.tokens = true;
        else if (option == 'w')
            options.weights = option_weights(optarg);
        else if (option == 'n')
            options.exec.threads = (int)option_integer("threads", optarg, 1, 1024);
        else if (option == 'm')
            options.max_tokens = option_integer("max-tokens", optarg, LEAST_TOKENS, INT32_MAX);
        else if (option == 'b')
            options.batch = option_integer("batch", optarg, 1, MOST_BATCH);
        else
            exit((fputs(usage, option == 'h' ? stdout : stderr), option == 'h' ? 0 : 2));
    }
    if (optind + 1 != argc)
        exit((fputs(usage, stderr), 2));
    options.folder = argv[optind];
    return options;
}

static void print_vector(const float *vector, int64_t width) {
    for (int64_t i = 0; i < width; i++)
        printf("%.9g%c", (double)vector[i], i + 1 < width ? ' ' : '\n');
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
            encoder->ranked[encoder->done + i].cosine = dot(vector, encoder->query, encoder->width);
        else
            print_vector(vector, encoder->width);
    }
    encoder->done += encoder->sentences;
    encoder->sentences = 0;
    progress_show(&encoder->progress, "%" PRId64 " lines, %.0f per second", encoder->done,
                  (double)encoder->done / progress_seconds(&encoder->progress));
}

static void print_tokens(const int32_t *tokens, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        printf("%" PRId32 "%c", tokens[i], i + 1 < count ? ' ' : '\n');
}

/* The tokens go behind those of the batch, which is done first if it would become too long. */
static void add_line(struct encoder *encoder, const char *line, size_t bytes) {
    int64_t *end = encoder->starts + encoder->sentences;
    const int64_t count = wordpiece_encode(encoder->wordpiece, line, bytes, encoder->most_tokens, encoder->tokens + *end);
    if (encoder->options.tokens) {
        print_tokens(encoder->tokens, count);
        return;
    }
    if (encoder->sentences > 0 && *end + count > encoder->options.batch) {
        const int32_t *tokens = encoder->tokens + *end;
        finish_batch(encoder);
        memmove(encoder->tokens, tokens, (size_t)count * sizeof *tokens);
    }
    encoder->sentences++;
    encoder->starts[encoder->sentences] = encoder->starts[encoder->sentences - 1] + count;
}

static void remember(struct encoder *encoder, const char *line, size_t bytes) {
    const int64_t number = encoder->done + encoder->sentences;
    if ((number & (number - 1)) == 0) /* room for twice as many whenever it is full */
        encoder->ranked = realloc(encoder->ranked, (size_t)(number ? 2 * number : 1) * sizeof *encoder->ranked);
    char *copy = malloc(bytes + 1);
    if (!encoder->ranked || !copy)
        fail("out of memory for line %" PRId64, number + 1);
    memcpy(copy, line, bytes);
    encoder->ranked[number] = (struct ranked){copy, bytes, number, 0};
}

static void read_lines(struct encoder *encoder) {
    char *line = NULL;
    size_t room = 0;
    for (ssize_t bytes; (bytes = getline(&line, &room, stdin)) >= 0;) {
        bytes -= bytes > 0 && line[bytes - 1] == '\n';
        if (encoder->query)
            remember(encoder, line, (size_t)bytes);
        add_line(encoder, line, (size_t)bytes);
    }
    if (ferror(stdin))
        fail("standard input: %s", strerror(errno));
    free(line);
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
        fwrite(ranked[i].line, 1, ranked[i].bytes, stdout);
        printf("\n");
    }
}

static struct encoder open_encoder(const struct options *options) {
    struct encoder encoder = {.options = *options, .wordpiece = wordpiece_open(options->folder)};
    encoder.model = model_open(options->folder, options->weights, &options->exec);
    const struct model_sizes sizes = model_sizes(encoder.model);
    const int64_t wanted = wordpiece_most_tokens(encoder.wordpiece);
    if (wordpiece_size(encoder.wordpiece) > sizes.vocabulary)
        fail("%s: vocab.txt has %" PRId64 " tokens, but vocab_size in config.json is %" PRId64, options->folder,
             wordpiece_size(encoder.wordpiece), sizes.vocabulary);
    if (options->max_tokens > sizes.positions)
        fail("--max-tokens=%" PRId64 ": %s has positions for %" PRId64, options->max_tokens, options->folder, sizes.positions);
    encoder.most_tokens = options->max_tokens ? options->max_tokens : wanted < sizes.positions ? wanted : sizes.positions;
    encoder.width = sizes.width;
    const int64_t room = options->batch > encoder.most_tokens ? options->batch : encoder.most_tokens;
    const int64_t sentences = room / LEAST_TOKENS;
    model_make_room(encoder.model, room);
    encoder.tokens = allocate(room + encoder.most_tokens, sizeof *encoder.tokens); /* of a batch, and of the line after it */
    encoder.starts = allocate(sentences + 1, sizeof *encoder.starts);
    encoder.starts[0] = 0;
    encoder.vectors = allocate(sentences * sizes.width, sizeof *encoder.vectors);
    return encoder;
}

static void set_query(struct encoder *encoder, const char *query) {
    float *vector = allocate(encoder->width, sizeof *vector);
    encoder->starts[1] = wordpiece_encode(encoder->wordpiece, query, strlen(query), encoder->most_tokens, encoder->tokens);
    model_encode(encoder->model, encoder->tokens, encoder->starts, 1, vector);
    encoder->query = vector;
}

int main(int argc, char **argv) {
    program_name = "embed";
    const struct options options = read_options(argc, argv);
    static struct encoder encoder;
    encoder = open_encoder(&options);
    if (options.query && !options.tokens)
        set_query(&encoder, options.query);
    encoder.progress = progress_start(encoder.query);
    read_lines(&encoder);
    if (encoder.query)
        print_ranking(encoder.ranked, encoder.done);
    if (fflush(stdout) != 0 || ferror(stdout))
        fail("standard output: %s", strerror(errno));
    return EXIT_SUCCESS;
}
