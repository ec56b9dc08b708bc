/* A text generator: what a model of the Llama family says after each line of standard input. */
#include "../checkpoint/checkpoint.h"
#include "../shared/command.h"
#include "../shared/lines.h"
#include "../tokens/tokenizer.h"
#include "sequences.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: generate [OPTION]... MODEL <PROMPTS\n"
    "\n"
    "Prints what comes after each line of standard input: of one as it comes, of several in a line each, in which \\n stands for\n"
    "further ones. MODEL is a folder with a decoder of the Llama family (Llama, Mistral and Mixtral without sliding window,\n"
    "Qwen2, Qwen3 and its mixtures of experts) as Hugging Face has them: config.json and model.safetensors, whole or in shards;\n"
    "or it is a GGUF file with tensors in F32, F16, BF16, Q8_0, Q4_0, Q5_0, Q4_K, Q5_K, Q6_K, IQ4_NL and MXFP4. Text becomes\n"
    "tokens as the metadata of the GGUF file say, or tokenizer.json if it is byte-level (Llama 3, Qwen2); for others there is\n"
    "--ids.\n"
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
    "  --prompts=KIND     computes prompts in f32, bf16, bf16-amx or i8, and what comes after them by --steps: bf16-amx is many\n"
    "                     times as fast on a CPU with AMX and slower on others, bf16 is faster where heed takes avx512bf16 by\n"
    "                     itself, i8 where weights are int8 or, in a GGUF file, in blocks; the text may be another\n"
    "                     one, but is the same on all CPUs [f32]\n"
    "  --steps=KIND       computes the tokens after prompts in f32 or i8 [f32]\n"
    "  --cache=TYPE       what keys and values are kept in: f32, bf16, f16, or int8 with a scale for each token and head [f32]\n"
    "  --threads=N        [as many as the machine has]\n"
    "  --batch=N          lines that are computed together [8]; the text is the same\n"
    "  --chunk=N          tokens of prompts that are computed together [256]; the text is the same\n"
    "  --page-seed=S      pages of keys and values lie in an order drawn so [as they come]; the text is the same\n";

enum { MOST = 1 << 20 };

struct options {
    const char *model, *draft, *weights, *prompts, *steps, *cache;
    bool ids, encode, logits;
    struct generation generation;
};

/* What becomes of tokens. */
struct output {
    const struct options *options;
    const struct config *config;
    const struct vocabulary *vocabulary; /* NULL: tokens are numbers */
    struct texts *texts;
    int64_t prompts, tokens; /* tokens: so far, of all */
    struct progress progress;
};

/* Of prompts; NULL: f32. */
static enum heed_compute prompts_of(const char *text) {
    static const char *const names[] = {
        [HEED_COMPUTE_F32] = "f32", [HEED_COMPUTE_BF16] = "bf16", [HEED_COMPUTE_BF16_AMX] = "bf16-amx", [HEED_COMPUTE_I8] = "i8"};
    return text ? find_name("prompts", text, names, sizeof names / sizeof *names, "f32, bf16, bf16-amx or i8") : HEED_COMPUTE_F32;
}

static enum heed_compute steps_of(const char *text) {
    static const char *const names[] = {[HEED_COMPUTE_F32] = "f32", [HEED_COMPUTE_I8] = "i8"};
    return text ? find_name("steps", text, names, sizeof names / sizeof *names, "f32 or i8") : HEED_COMPUTE_F32;
}

static enum heed_type cache_of(const char *text) {
    static const char *const names[] = {[HEED_F32] = "f32", [HEED_BF16] = "bf16", [HEED_F16] = "f16", [HEED_I8] = "int8"};
    return text ? find_name("cache", text, names, sizeof names / sizeof *names, "f32, bf16, f16 or int8") : HEED_F32;
}

static struct options parse(int argc, char **argv) {
    struct options made = {.generation = {.tokens = 128, .slots = 8, .chunk = 256, .proposals = 4, .sampling = {.top_p = 1}}};
    struct generation *generation = &made.generation;
    struct sampling *sampling = &generation->sampling;
    int64_t threads = 0;
    const struct choice choices[] = {{"tokens", .integer = &generation->tokens, .least = 1, .most = MOST},
                                     {"temperature", .number = &sampling->temperature, .least = 0, .most = 1000},
                                     {"top-k", .integer = &sampling->top_k, .least = 1, .most = MOST},
                                     {"top-p", .number = &sampling->top_p, .least = 0, .most = 1},
                                     {"seed", .integer = &sampling->seed, .least = 0, .most = INT64_MAX},
                                     {"draft", .text = &made.draft},
                                     {"draft-tokens", .integer = &generation->proposals, .least = 1, .most = 64},
                                     {"ids", .flag = &made.ids},
                                     {"encode", .flag = &made.encode},
                                     {"logits", .flag = &made.logits},
                                     {"weights", .text = &made.weights},
                                     {"prompts", .text = &made.prompts},
                                     {"steps", .text = &made.steps},
                                     {"cache", .text = &made.cache},
                                     {"threads", .integer = &threads, .least = 1, .most = 1024},
                                     {"batch", .integer = &generation->slots, .least = 1, .most = 1024},
                                     {"chunk", .integer = &generation->chunk, .least = 1, .most = MOST},
                                     {"page-seed", .integer = &generation->page_seed, .least = 1, .most = INT64_MAX},
                                     {.name = NULL}};
    made.model = read_options(argc, argv, usage, choices);
    generation->exec.threads = (int)threads;
    generation->prompts = prompts_of(made.prompts);
    generation->steps = steps_of(made.steps);
    generation->cache = cache_of(made.cache);
    if (!made.draft)
        generation->proposals = 0;
    return made;
}

static void open_models(struct options *options) {
    struct generation *generation = &options->generation;
    const enum heed_type type = options->weights ? type_of_weights(options->weights) : HEED_F32;
    const enum heed_type *weights = options->weights ? &type : NULL;
    generation->model = model_open(options->model, weights, &generation->exec);
    if (!options->draft)
        return;
    generation->draft = model_open(options->draft, weights, &generation->exec);
    const int64_t tokens = model_config(generation->model)->vocabulary, drafted = model_config(generation->draft)->vocabulary;
    if (drafted != tokens)
        fail("--draft=%s: has %" PRId64 " tokens, %s has %" PRId64, options->draft, drafted, options->model, tokens);
}

/* A line of numbers. */
static struct prompt read_ids(const char *line, int64_t bytes, int64_t number, int64_t vocabulary) {
    struct prompt prompt = {.tokens = allocate(bytes / 2 + 1, sizeof *prompt.tokens)};
    const char *last = line + bytes;
    char *end;
    for (; (line += strspn(line, " \t\r")) < last; line = end) {
        const long long token = strtoll(line, &end, 10);
        if (end == line || token < 0 || token >= vocabulary)
            fail("line %" PRId64 ": %s: must be numbers of tokens, from 0 to %" PRId64, number, line, vocabulary - 1);
        prompt.tokens[prompt.count++] = (int32_t)token;
    }
    return prompt;
}

static struct prompt read_text(const char *line, int64_t bytes, const struct vocabulary *vocabulary) {
    struct prompt prompt = {.tokens = allocate(2 * bytes + MOST_FIRST + 1, sizeof *prompt.tokens)};
    prompt.count = tokenizer_encode(vocabulary, line, bytes, prompt.tokens);
    return prompt;
}

static struct prompt *read_prompts(const struct config *config, const struct vocabulary *vocabulary, int64_t *count) {
    struct prompt *prompts = NULL;
    int64_t bytes;
    *count = 0;
    for (const char *line; (line = next_line(&bytes)); ++*count) {
        prompts = grow(prompts, *count, sizeof *prompts);
        prompts[*count] = vocabulary ? read_text(line, bytes, vocabulary) : read_ids(line, bytes, *count + 1, config->vocabulary);
        const int64_t tokens = prompts[*count].count;
        if (tokens < 1 || tokens >= config->positions)
            fail("line %" PRId64 ": has %" PRId64 " tokens, must have from 1 to %" PRId64, *count + 1, tokens,
                 config->positions - 1);
    }
    return prompts;
}

/* Of several texts, each is one line. */
static void print_text(const struct output *output, int32_t token, FILE *stream) {
    const struct vocabulary *vocabulary = output->vocabulary;
    const struct text piece = vocabulary->piece[token];
    for (size_t i = 0; i < piece.bytes && !vocabulary->hidden[token]; i++)
        if (piece.data[i] == '\n' && output->prompts > 1)
            fputs("\\n", stream);
        else
            fputc(piece.data[i], stream);
}

static void print_token(void *context, int64_t prompt, int32_t token, const float *logits) {
    struct output *output = context;
    FILE *stream = texts_stream(output->texts, prompt);
    if (output->options->logits)
        print_numbers(stream, logits, output->config->vocabulary);
    else if (config_stops(output->config, token))
        ; /* says nothing */
    else if (output->vocabulary)
        print_text(output, token, stream);
    else
        fprintf(stream, "%" PRId32 " ", token);
    if (stream == stdout)
        fflush(stdout);
    output->tokens++;
    progress_show(&output->progress, "%" PRId64 " tokens, %.1f per second", output->tokens,
                  (double)output->tokens / progress_seconds(&output->progress));
}

static void end_text(void *context, int64_t prompt) {
    struct output *output = context;
    if (!output->options->logits)
        fputc('\n', texts_stream(output->texts, prompt));
    texts_end(output->texts, prompt);
}

int main(int argc, char **argv) {
    program_name = "generate";
    struct options options = parse(argc, argv);
    struct generation *generation = &options.generation;
    open_models(&options);
    struct output output = {.options = &options, .config = model_config(generation->model)};
    if (!options.ids)
        output.vocabulary = vocabulary_open(options.model, model_checkpoint(generation->model), output.config->vocabulary);
    const struct prompt *prompts = read_prompts(output.config, output.vocabulary, &output.prompts);
    if (options.encode) {
        for (int64_t i = 0; i < output.prompts; i++)
            print_ids(stdout, prompts[i].tokens, prompts[i].count);
    } else if (output.prompts > 0) {
        output.texts = texts_open(output.prompts);
        output.progress = progress_start(false);
        generation->context = &output;
        generation->token = print_token;
        generation->end = end_text;
        generate(generation, prompts, output.prompts);
        progress_end(&output.progress);
    }
    end_output();
    return EXIT_SUCCESS;
}
