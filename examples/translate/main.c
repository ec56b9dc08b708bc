/* A translator: lines of English in, lines of French out, or of another language that the model knows. */
#define _POSIX_C_SOURCE 200809L /* isatty */

#include "../checkpoint/checkpoint.h"
#include "../shared/command.h"
#include "../shared/lines.h"
#include "pieces.h"
#include "task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: translate [OPTION]... MODEL <LINES\n"
    "\n"
    "Prints a translation of each line of standard input. MODEL is a folder with a T5 checkpoint as Hugging Face has them:\n"
    "config.json, model.safetensors, spiece.model and, if it is there, generation_config.json.\n"
    "\n"
    "  --to=LANGUAGE     into which MODEL has learnt to translate [French]\n"
    "  --beams=N         translations of a line that are followed at once; 1 is greedy search [what MODEL says]\n"
    "  --max-tokens=N    of a translation [what MODEL says]\n"
    "  --weights=TYPE    what weights are kept in: f32 [default], bf16, or int8 in blocks of 32\n"
    "  --threads=N       [as many as the machine has]\n"
    "  --batch=N         lines that are translated together [8, or 1 from a terminal]; the translations are the same\n"
    "  --ids             prints the numbers of the tokens instead\n"
    "  --logits          prints the logits of greedy search instead: a line for each step and each line that goes on\n";

enum { MOST_BATCH = 1 << 16 };

/* Lines on their way; a number of 0 leaves it to the model. */
struct translator {
    const char *folder, *language, *weights;
    bool ids, logits;
    int64_t batch, beams, most_tokens;
    struct heed_exec exec;
    struct task task;
    struct pieces *pieces;
    struct search *search;
    int32_t *tokens;
    int64_t room, *starts;     /* room: for tokens */
    int64_t lines, done, said; /* lines of the batch; of all, lines that are translated, and tokens of them */
    int64_t before;            /* lines before the batch */
    struct texts *texts;
    struct progress progress;
};

static struct translator parse(int argc, char **argv) {
    struct translator made = {.language = "French", .weights = "f32", .batch = isatty(STDIN_FILENO) ? 1 : 8};
    int64_t threads = 0;
    const struct choice choices[] = {{"to", .text = &made.language},
                                     {"beams", .integer = &made.beams, .least = 1, .most = MOST_BEAMS},
                                     {"max-tokens", .integer = &made.most_tokens, .least = 1, .most = MOST_TOKENS},
                                     {"weights", .text = &made.weights},
                                     {"threads", .integer = &threads, .least = 1, .most = 1024},
                                     {"batch", .integer = &made.batch, .least = 1, .most = MOST_BATCH},
                                     {"ids", .flag = &made.ids},
                                     {"logits", .flag = &made.logits},
                                     {.name = NULL}};
    made.folder = read_options(argc, argv, usage, choices);
    made.exec.threads = (int)threads;
    return made;
}

static struct pieces *open_pieces(const char *folder, int64_t vocabulary) {
    char path[4096];
    size_t bytes = 0;
    if (snprintf(path, sizeof path, "%s/spiece.model", folder) >= (int)sizeof path)
        fail("the name of folder %s is too long", folder);
    char *file = file_read(path, &bytes);
    if (!file)
        fail("%s: no such file", path);
    spiece_check(path, file, bytes);
    struct pieces *pieces = pieces_open(file, bytes);
    if (!pieces)
        fail("%s: is not a model of SentencePiece", path);
    if (pieces_size(pieces) > vocabulary)
        fail("%s: has %" PRId64 " pieces, but vocab_size in config.json is %" PRId64, path, pieces_size(pieces), vocabulary);
    release(file);
    return pieces;
}

static void print(struct translator *translator, int64_t line, const int32_t *tokens, int64_t count) {
    FILE *stream = texts_stream(translator->texts, line);
    if (translator->ids) {
        print_ids(stream, tokens, count);
    } else {
        char *text = pieces_decode(translator->pieces, tokens, count);
        if (!text)
            fail("out of memory for a translation of %" PRId64 " tokens", count);
        fprintf(stream, "%s\n", text);
        free(text);
    }
    texts_end(translator->texts, line);
}

static void receive(void *context, int64_t line, const int32_t *tokens, int64_t count) {
    struct translator *translator = context;
    if (!translator->logits)
        print(translator, translator->before + line, tokens, count);
    translator->done++;
    translator->said += count;
    progress_show(&translator->progress, "%" PRId64 " lines, %.1f tokens per second", translator->done,
                  (double)translator->said / progress_seconds(&translator->progress));
}

static void finish_batch(struct translator *translator) {
    search_batch(translator->search, translator->tokens, translator->starts, translator->lines);
    translator->before += translator->lines;
    translator->lines = 0;
}

/* The tokens of prefix, line and end go behind those of the batch. */
static void add_line(struct translator *translator, const char *line, int64_t bytes) {
    int32_t *ids = NULL;
    const int64_t count = pieces_encode(translator->pieces, translator->task.prefix, line, (size_t)bytes, &ids);
    int64_t *start = &translator->starts[translator->lines++];
    start[1] = *start + count + 1;
    if (count >= 0 && start[1] > translator->room) {
        translator->room = 2 * start[1];
        translator->tokens = realloc(translator->tokens, (size_t)translator->room * sizeof *ids);
    }
    if (count < 0 || !translator->tokens)
        fail("out of memory for line %" PRId64, translator->before + translator->lines);
    memcpy(translator->tokens + *start, ids, (size_t)count * sizeof *ids);
    translator->tokens[start[1] - 1] = translator->task.search.end;
    free(ids);
}

/* What the options say, instead of the checkpoint. */
static void choose(struct search_settings *settings, struct translator *translator) {
    if (translator->beams)
        settings->beams = translator->beams;
    if (translator->logits)
        settings->beams = 1;
    if (translator->most_tokens)
        settings->most_tokens = translator->most_tokens;
    settings->print_logits = translator->logits;
    settings->done = receive;
    settings->context = translator;
}

static void check_vocabulary(const struct search_settings *settings, const char *folder, int64_t vocabulary) {
    if (settings->start >= vocabulary || settings->end >= vocabulary)
        fail("%s: vocab_size is %" PRId64 ", too small for the tokens of start, %" PRId32 ", and end, %" PRId32, folder, vocabulary,
             settings->start, settings->end);
    if (2 * settings->beams > vocabulary)
        fail("%s: vocab_size is %" PRId64 ", too small for %" PRId64 " beams", folder, vocabulary, settings->beams);
}

static void open_translator(struct translator *translator) {
    struct search_settings *settings = &translator->task.search;
    const enum heed_type weights = type_of_weights(translator->weights);
    translator->task = task_read(translator->folder, translator->language);
    struct model *model = model_open(translator->folder, weights, &translator->exec);
    choose(settings, translator);
    check_vocabulary(settings, translator->folder, model_vocabulary(model));
    translator->pieces = open_pieces(translator->folder, model_vocabulary(model));
    translator->search = search_open(settings, model, translator->batch, &translator->exec);
    translator->starts = allocate(translator->batch + 1, sizeof *translator->starts);
    translator->starts[0] = 0;
    translator->texts = texts_open(translator->batch);
    translator->progress = progress_start(false);
}

int main(int argc, char **argv) {
    program_name = "translate";
    struct translator translator = parse(argc, argv);
    open_translator(&translator);
    int64_t bytes;
    for (const char *line; (line = next_line(&bytes));) {
        add_line(&translator, line, bytes);
        if (translator.lines == translator.batch)
            finish_batch(&translator);
    }
    if (translator.lines > 0)
        finish_batch(&translator);
    progress_end(&translator.progress);
    end_output();
    return EXIT_SUCCESS;
}
