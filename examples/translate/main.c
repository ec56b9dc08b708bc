/* A translator: lines of English in, lines of French out, or of another language that the model knows. */
#define _POSIX_C_SOURCE 200809L

#include "../checkpoint/checkpoint.h"
#include "../checkpoint/command.h"
#include "pieces.h"
#include "task.h"

#include <errno.h>
#include <getopt.h>
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

struct options {
    const char *folder, *language;
    bool ids, logits;
    enum heed_type weights;
    int64_t batch, beams, most_tokens; /* 0: what the model says */
    struct heed_exec exec;
};

/* Lines on their way, and translations that wait for those of the lines before them. */
struct translator {
    struct options options;
    struct task task;
    struct pieces *pieces;
    struct search *search;
    int32_t *tokens;
    int64_t room, *starts;              /* room: for tokens */
    int64_t lines, printed, done, said; /* of the batch: lines, and those printed; of all: lines, and tokens of translations */
    char **text;
    struct progress progress;
};

static struct options read_options(int argc, char **argv) {
    static const struct option known[] = {{"to", 1, NULL, 't'},      {"beams", 1, NULL, 'k'}, {"max-tokens", 1, NULL, 'm'},
                                          {"weights", 1, NULL, 'w'}, {"ids", 0, NULL, 'i'},   {"threads", 1, NULL, 'n'},
                                          {"batch", 1, NULL, 'b'},   {"help", 0, NULL, 'h'},  {"logits", 0, NULL, 'l'},
                                          {NULL, 0, NULL, 0}};
    struct options options = {.language = "French", .batch = isatty(STDIN_FILENO) ? 1 : 8};
    for (int option; (option = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        if (option == 't')
            options.language = optarg;
        else if (option == 'k')
            options.beams = option_integer("beams", optarg, 1, MOST_BEAMS);
        else if (option == 'm')
            options.most_tokens = option_integer("max-tokens", optarg, 1, MOST_TOKENS);
        else if (option == 'w')
            options.weights = option_weights(optarg);
        else if (option == 'n')
            options.exec.threads = (int)option_integer("threads", optarg, 1, 1024);
        else if (option == 'b')
            options.batch = option_integer("batch", optarg, 1, MOST_BATCH);
        else if (option == 'i')
            options.ids = true;
        else if (option == 'l')
            options.logits = true;
        else
            exit((fputs(usage, option == 'h' ? stdout : stderr), option == 'h' ? 0 : 2));
    }
    if (optind + 1 != argc)
        exit((fputs(usage, stderr), 2));
    options.folder = argv[optind];
    return options;
}

static struct pieces *open_pieces(const char *folder, int64_t vocabulary) {
    char path[4096];
    size_t bytes = 0;
    if (snprintf(path, sizeof path, "%s/spiece.model", folder) >= (int)sizeof path)
        fail("the name of folder %s is too long", folder);
    char *file = file_read(path, &bytes);
    struct pieces *pieces = file ? pieces_open(file, bytes) : NULL;
    if (!pieces)
        fail("%s: %s", path, file ? "is not a model of SentencePiece" : "no such file");
    if (pieces_size(pieces) > vocabulary)
        fail("%s: has %" PRId64 " pieces, but vocab_size in config.json is %" PRId64, path, pieces_size(pieces), vocabulary);
    free(file);
    return pieces;
}

/* The numbers of tokens, as text. */
static char *numbers_of(const int32_t *tokens, int64_t count) {
    const size_t most = sizeof " 2147483647";
    char *text = malloc((size_t)count * most), *end = text;
    for (int64_t i = 0; text && i < count; i++)
        end += snprintf(end, most, "%s%" PRId32, i > 0 ? " " : "", tokens[i]);
    return text;
}

/* Prints the translations that no other one has to come before. */
static void receive(void *context, int64_t line, const int32_t *tokens, int64_t count) {
    struct translator *translator = context;
    translator->done++;
    translator->said += count;
    if (translator->options.logits)
        return;
    char *text = translator->options.ids ? numbers_of(tokens, count) : pieces_decode(translator->pieces, tokens, count);
    if (!text)
        fail("out of memory for a translation of %" PRId64 " tokens", count);
    for (translator->text[line] = text; translator->printed < translator->lines && translator->text[translator->printed];) {
        char **next = &translator->text[translator->printed++];
        puts(*next);
        free(*next);
        *next = NULL;
    }
    fflush(stdout);
    progress_show(&translator->progress, "%" PRId64 " lines, %.1f tokens per second", translator->done,
                  (double)translator->said / progress_seconds(&translator->progress));
}

static void finish_batch(struct translator *translator) {
    translator->printed = 0;
    search_batch(translator->search, translator->tokens, translator->starts, translator->lines);
    translator->lines = 0;
}

/* The tokens of prefix, line and end go behind those of the batch. */
static void add_line(struct translator *translator, const char *line, size_t bytes) {
    const size_t prefix = strlen(translator->task.prefix);
    char *text = allocate((int64_t)(prefix + bytes), 1);
    int32_t *ids = NULL;
    memcpy(text, translator->task.prefix, prefix);
    memcpy(text + prefix, line, bytes);
    const int64_t count = pieces_encode(translator->pieces, text, prefix + bytes, &ids);
    int64_t *start = &translator->starts[translator->lines++];
    if (count >= 0 && *start + count + 1 > translator->room) {
        translator->room = 2 * (*start + count + 1);
        translator->tokens = realloc(translator->tokens, (size_t)translator->room * sizeof *ids);
    }
    if (count < 0 || !translator->tokens)
        fail("out of memory for line %" PRId64, translator->done + translator->lines);
    memcpy(translator->tokens + *start, ids, (size_t)count * sizeof *ids);
    translator->tokens[*start + count] = translator->task.search.end;
    start[1] = *start + count + 1;
    free(ids);
    free(text);
}

static void read_lines(struct translator *translator) {
    char *line = NULL;
    size_t room = 0;
    for (ssize_t bytes; (bytes = getline(&line, &room, stdin)) >= 0;) {
        bytes -= bytes > 0 && line[bytes - 1] == '\n';
        add_line(translator, line, (size_t)bytes);
        if (translator->lines == translator->options.batch)
            finish_batch(translator);
    }
    if (ferror(stdin))
        fail("standard input: %s", strerror(errno));
    free(line);
    if (translator->lines > 0)
        finish_batch(translator);
    progress_end(&translator->progress);
}

/* What the options say, instead of the checkpoint. */
static void choose(struct search_settings *settings, const struct options *options) {
    if (options->beams)
        settings->beams = options->beams;
    if (options->logits)
        settings->beams = 1;
    if (options->most_tokens)
        settings->most_tokens = options->most_tokens;
    settings->print_logits = options->logits;
}

static void check_vocabulary(const struct search_settings *settings, const char *folder, int64_t vocabulary) {
    if (settings->start >= vocabulary || settings->end >= vocabulary)
        fail("%s: vocab_size is %" PRId64 ", too small for the tokens of start, %" PRId32 ", and end, %" PRId32, folder, vocabulary,
             settings->start, settings->end);
    if (2 * settings->beams > vocabulary)
        fail("%s: vocab_size is %" PRId64 ", too small for %" PRId64 " beams", folder, vocabulary, settings->beams);
}

static void open_translator(struct translator *translator, const struct options *options) {
    *translator = (struct translator){.options = *options, .task = task_read(options->folder, options->language)};
    struct model *model = model_open(options->folder, options->weights, &options->exec);
    struct search_settings *settings = &translator->task.search;
    choose(settings, options);
    settings->done = receive;
    settings->context = translator;
    check_vocabulary(settings, options->folder, model_vocabulary(model));
    translator->pieces = open_pieces(options->folder, model_vocabulary(model));
    translator->search = search_open(settings, model, options->batch, &options->exec);
    translator->starts = allocate(options->batch + 1, sizeof *translator->starts);
    translator->starts[0] = 0;
    translator->text = allocate(options->batch, sizeof *translator->text);
    memset(translator->text, 0, (size_t)options->batch * sizeof *translator->text);
}

int main(int argc, char **argv) {
    program_name = "translate";
    const struct options options = read_options(argc, argv);
    static struct translator translator;
    open_translator(&translator, &options);
    translator.progress = progress_start(false);
    read_lines(&translator);
    if (fflush(stdout) != 0 || ferror(stdout))
        fail("standard output: %s", strerror(errno));
    return EXIT_SUCCESS;
}
