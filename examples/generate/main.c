/* A text generator: what a model of the Llama family says after each line of standard input. */
#define _POSIX_C_SOURCE 200809L

#include "../checkpoint/checkpoint.h"
#include "../checkpoint/command.h"
#include "../tokens/tokenizer.h"
#include "sequences.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: generate [OPTION]... MODEL <PROMPTS\n"
    "\n"
    "Prints what comes after each line of standard input: of one as it comes, of several in a line each, in which \\n stands for\n"
    "further ones. MODEL is a folder with a decoder of the Llama family (Llama, Mistral without sliding window, Qwen2) as Hugging\n"
    "Face has them: config.json and model.safetensors, whole or in shards; or it is a GGUF file with tensors in F32, F16, BF16,\n"
    "Q8_0 and Q4_0. Text becomes tokens as the metadata of the GGUF file say, or tokenizer.json if it is byte-level (Llama 3,\n"
    "Qwen2); for others there is --ids.\n"
    "\n"
    "  --tokens=N         prints so many tokens at most [128]\n"
    "  --temperature=T    draws tokens, the more freely the larger T is; 0: always the likeliest [0]\n"
    "  --top-k=K          draws from the K likeliest tokens [all]\n"
    "  --top-p=P          draws from the likeliest tokens whose probabilities come to P [1]\n"
    "  --seed=S           of the draws [0]\n"
    "  --draft=MODEL      a smaller model with the same tokens, which proposes tokens that MODEL then looks at all at once: the\n"
    "                     text is the same at temperature 0, and as likely as without at others\n"
    "  --draft-tokens=N   proposes so many [4]\n"
    "  --ids              lines are numbers of tokens, in and out\n"
    "  --encode           prints the numbers of the tokens of each line instead\n"
    "  --logits           prints the logits of each token instead, a line for each\n"
    "  --weights=TYPE     what weights are kept in: f32, bf16, or int8 in blocks of 32 [as MODEL has them]\n"
    "  --threads=N        [as many as the machine has]\n"
    "  --batch=N          lines that are computed together [8]; the text is the same\n"
    "  --chunk=N          tokens of prompts that are computed together [256]; the text is the same\n";

enum { MOST = 1 << 20 };

struct options {
    const char *model, *draft;
    bool ids, encode, logits, typed;
    enum heed_type weights;
    struct generation generation;
};

/* Texts come out in the order of the lines; of those before whose turn it is, what there is so far is kept. */
struct output {
    const struct options *options;
    const struct config *config;
    const struct vocabulary *vocabulary; /* NULL: tokens are numbers */
    struct progress progress;
    int64_t count, turn, tokens; /* of prompts; the one that is being printed; of all so far */
    FILE **stream;               /* [count] */
    char **text;
    size_t *bytes;
    bool *ended;
};

static void set_option(struct options *options, int option, const char *value) {
    struct generation *generation = &options->generation;
    if (option == 'i')
        options->ids = true;
    else if (option == 'e')
        options->encode = true;
    else if (option == 'l')
        options->logits = true;
    else if (option == 't')
        generation->tokens = option_integer("tokens", value, 1, MOST);
    else if (option == 'T')
        generation->sampling.temperature = option_number("temperature", value, 0, 1e3);
    else if (option == 'k')
        generation->sampling.top_k = option_integer("top-k", value, 1, MOST);
    else if (option == 'p')
        generation->sampling.top_p = option_number("top-p", value, 0, 1);
    else if (option == 's')
        generation->sampling.seed = (uint64_t)option_integer("seed", value, 0, INT64_MAX);
    else if (option == 'd')
        options->draft = value;
    else if (option == 'D')
        generation->proposals = option_integer("draft-tokens", value, 1, 64);
    else if (option == 'w')
        options->weights = option_weights(value);
    else if (option == 'n')
        generation->exec.threads = (int)option_integer("threads", value, 1, 1024);
    else if (option == 'b')
        generation->slots = option_integer("batch", value, 1, 1024);
    else if (option == 'c')
        generation->chunk = option_integer("chunk", value, 1, MOST);
    else
        exit((fputs(usage, option == 'h' ? stdout : stderr), option == 'h' ? 0 : 2));
    options->typed |= option == 'w';
}

static struct options read_options(int argc, char **argv) {
    static const struct option known[] = {
        {"tokens", 1, NULL, 't'}, {"temperature", 1, NULL, 'T'}, {"top-k", 1, NULL, 'k'},        {"top-p", 1, NULL, 'p'},
        {"seed", 1, NULL, 's'},   {"draft", 1, NULL, 'd'},       {"draft-tokens", 1, NULL, 'D'}, {"ids", 0, NULL, 'i'},
        {"encode", 0, NULL, 'e'}, {"logits", 0, NULL, 'l'},      {"weights", 1, NULL, 'w'},      {"threads", 1, NULL, 'n'},
        {"batch", 1, NULL, 'b'},  {"chunk", 1, NULL, 'c'},       {"help", 0, NULL, 'h'},         {NULL, 0, NULL, 0}};
    struct options options = {.generation = {.tokens = 128, .slots = 8, .chunk = 256, .proposals = 4, .sampling = {.top_p = 1}}};
    for (int option; (option = getopt_long(argc, argv, "h", known, NULL)) != -1;)
        set_option(&options, option, optarg);
    if (optind + 1 != argc)
        exit((fputs(usage, stderr), 2));
    options.model = argv[optind];
    if (!options.draft)
        options.generation.proposals = 0;
    return options;
}

/* A line of numbers. */
static struct prompt read_ids(const char *line, int64_t number, int64_t vocabulary) {
    struct prompt prompt = {.tokens = allocate((int64_t)strlen(line) / 2 + 1, sizeof *prompt.tokens)};
    char *end;
    for (; *(line += strspn(line, " \t\r\n")); line = end) {
        const long long token = strtoll(line, &end, 10);
        if (end == line || token < 0 || token >= vocabulary)
            fail("line %" PRId64 ": %.*s: must be numbers of tokens, from 0 to %" PRId64, number, (int)strcspn(line, "\n"), line,
                 vocabulary - 1);
        prompt.tokens[prompt.count++] = (int32_t)token;
    }
    return prompt;
}

static struct prompt read_text(const char *line, int64_t bytes, const struct vocabulary *vocabulary) {
    struct prompt prompt = {.tokens = allocate(2 * bytes + MOST_FIRST + 1, sizeof *prompt.tokens)};
    prompt.count = tokenizer_encode(vocabulary, line, bytes - (bytes > 0 && line[bytes - 1] == '\n'), prompt.tokens);
    return prompt;
}

static struct prompt *read_prompts(const struct config *config, const struct vocabulary *vocabulary, int64_t *count) {
    struct prompt *prompts = NULL;
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    for (*count = 0; (bytes = getline(&line, &room, stdin)) >= 0; ++*count) {
        if ((*count & (*count - 1)) == 0) /* room for twice as many whenever it is full */
            prompts = realloc(prompts, (size_t)(*count ? 2 * *count : 1) * sizeof *prompts);
        if (!prompts)
            fail("out of memory for line %" PRId64, *count + 1);
        const struct prompt prompt = prompts[*count] =
            vocabulary ? read_text(line, bytes, vocabulary) : read_ids(line, *count + 1, config->vocabulary);
        if (prompt.count < 1 || prompt.count >= config->positions)
            fail("line %" PRId64 ": has %" PRId64 " tokens, must have from 1 to %" PRId64, *count + 1, prompt.count,
                 config->positions - 1);
    }
    if (ferror(stdin))
        fail("standard input: %s", strerror(errno));
    free(line);
    return prompts;
}

static void print_prompts(const struct prompt *prompts, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < prompts[i].count; j++)
            printf("%" PRId32 "%c", prompts[i].tokens[j], j + 1 < prompts[i].count ? ' ' : '\n');
}

static FILE *open_stream(struct output *output, int64_t prompt) {
    if (prompt == output->turn)
        return stdout;
    FILE *stream = output->stream[prompt];
    if (!stream)
        stream = output->stream[prompt] = open_memstream(&output->text[prompt], &output->bytes[prompt]);
    if (!stream)
        fail("out of memory for the text after line %" PRId64, prompt + 1);
    return stream;
}

static void print_text(const struct output *output, int32_t token, FILE *stream) {
    const struct vocabulary *vocabulary = output->vocabulary;
    if (!vocabulary)
        fprintf(stream, "%" PRId32 " ", token);
    for (int64_t i = 0; vocabulary && !vocabulary->hidden[token] && i < vocabulary->piece[token].bytes; i++) {
        const char byte = vocabulary->piece[token].data[i];
        if (byte == '\n' && output->count > 1)
            fputs("\\n", stream);
        else
            fputc(byte, stream);
    }
}

static void print_token(void *context, int64_t prompt, int32_t token, const float *logits) {
    struct output *output = context;
    FILE *stream = open_stream(output, prompt);
    const int64_t vocabulary = output->config->vocabulary;
    for (int64_t i = 0; i < vocabulary && output->options->logits; i++)
        fprintf(stream, "%.9g%c", (double)logits[i], i + 1 < vocabulary ? ' ' : '\n');
    if (!output->options->logits && !config_stops(output->config, token))
        print_text(output, token, stream);
    if (stream == stdout)
        fflush(stdout);
    output->tokens++;
    progress_show(&output->progress, "%" PRId64 " tokens, %.1f per second", output->tokens,
                  (double)output->tokens / progress_seconds(&output->progress));
}

/* The texts that follow, as far as there is anything of them. */
static void end_text(void *context, int64_t prompt) {
    struct output *output = context;
    if (!output->options->logits)
        fputc('\n', open_stream(output, prompt));
    output->ended[prompt] = true;
    while (output->turn < output->count && output->ended[output->turn]) {
        if (++output->turn == output->count || !output->stream[output->turn])
            continue;
        fclose(output->stream[output->turn]);
        fwrite(output->text[output->turn], 1, output->bytes[output->turn], stdout);
        free(output->text[output->turn]);
    }
    fflush(stdout);
}

static struct output open_output(const struct options *options, const struct config *config, int64_t count) {
    struct output output = {.options = options, .config = config, .count = count};
    output.stream = calloc((size_t)count + 1, sizeof *output.stream);
    output.text = calloc((size_t)count + 1, sizeof *output.text);
    output.bytes = calloc((size_t)count + 1, sizeof *output.bytes);
    output.ended = calloc((size_t)count + 1, sizeof *output.ended);
    if (!output.stream || !output.text || !output.bytes || !output.ended)
        fail("out of memory for %" PRId64 " lines", count);
    output.progress = progress_start(false);
    return output;
}

int main(int argc, char **argv) {
    program_name = "generate";
    struct options options = read_options(argc, argv);
    struct generation *generation = &options.generation;
    const enum heed_type *weights = options.typed ? &options.weights : NULL;
    generation->model = model_open(options.model, weights, &generation->exec);
    generation->draft = options.draft ? model_open(options.draft, weights, &generation->exec) : NULL;
    const struct config *config = model_config(generation->model);
    if (options.draft && model_config(generation->draft)->vocabulary != config->vocabulary)
        fail("--draft=%s: has %" PRId64 " tokens, %s has %" PRId64, options.draft, model_config(generation->draft)->vocabulary,
             options.model, config->vocabulary);
    int64_t count = 0;
    const struct vocabulary *vocabulary =
        options.ids ? NULL : vocabulary_open(options.model, model_checkpoint(generation->model), config->vocabulary);
    const struct prompt *prompts = read_prompts(config, vocabulary, &count);
    if (options.encode)
        print_prompts(prompts, count);
    if (count < generation->slots)
        generation->slots = count > 0 ? count : 1;
    struct output output = open_output(&options, config, count);
    output.vocabulary = vocabulary;
    generation->context = &output;
    generation->token = print_token;
    generation->end = end_text;
    generate(generation, prompts, options.encode ? 0 : count);
    progress_end(&output.progress);
    if (fflush(stdout) != 0 || ferror(stdout))
        fail("standard output: %s", strerror(errno));
    return EXIT_SUCCESS;
}
