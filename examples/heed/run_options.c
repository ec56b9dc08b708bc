/* The command line of heed run. */
#include "run.h"
#include "tool.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUERY = 256, KEY, VALUE, OUTPUT, WEIGHTS, LSE, HEADS, KV_HEADS, CAUSAL, SCALE, ISA, THREADS };

static const struct option long_options[] = {{"query", required_argument, NULL, QUERY},
                                             {"key", required_argument, NULL, KEY},
                                             {"value", required_argument, NULL, VALUE},
                                             {"output", required_argument, NULL, OUTPUT},
                                             {"weights", required_argument, NULL, WEIGHTS},
                                             {"lse", required_argument, NULL, LSE},
                                             {"heads", required_argument, NULL, HEADS},
                                             {"kv-heads", required_argument, NULL, KV_HEADS},
                                             {"causal", optional_argument, NULL, CAUSAL},
                                             {"scale", required_argument, NULL, SCALE},
                                             {"isa", required_argument, NULL, ISA},
                                             {"threads", required_argument, NULL, THREADS},
                                             {NULL, 0, NULL, 0}};

static int parse_count(const char *name, const char *text, int64_t largest, int64_t *count) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < 1 || value > largest)
        return tool_usage("--%s is %s, must be a whole number from 1 to %lld", name, text, (long long)largest);
    *count = value;
    return TOOL_OK;
}

static int parse_causal(const char *text, struct run_options *options) {
    options->causal = true;
    if (!text || strcmp(text, "top-left") == 0)
        options->alignment = HEED_ALIGN_TOP_LEFT;
    else if (strcmp(text, "bottom-right") == 0)
        options->alignment = HEED_ALIGN_BOTTOM_RIGHT;
    else
        return tool_usage("--causal is %s, must be top-left or bottom-right", text);
    return TOOL_OK;
}

static int parse_scale(const char *text, float *scale) {
    char *end;
    float value = strtof(text, &end);
    if (end == text || *end || !isfinite(value) || value == 0)
        return tool_usage("--scale is %s, must be a finite number that is not 0", text);
    *scale = value;
    return TOOL_OK;
}

static int parse_threads(const char *text, int *threads) {
    int64_t count = 0;
    int status = parse_count("threads", text, 1024, &count);
    *threads = (int)count;
    return status;
}

static int parse_option(int option, char *text, struct run_options *options) {
    const char **paths[] = {&options->query, &options->key, &options->value, &options->output, &options->weights, &options->lse};
    if (option >= QUERY && option <= LSE) {
        *paths[option - QUERY] = text;
        return TOOL_OK;
    }
    switch (option) {
    case 'o':
        options->output = text;
        return TOOL_OK;
    case HEADS:
        return parse_count("heads", text, INT32_MAX, &options->heads);
    case KV_HEADS:
        return parse_count("kv-heads", text, INT32_MAX, &options->kv_heads);
    case CAUSAL:
        return parse_causal(text, options);
    case SCALE:
        return parse_scale(text, &options->scale);
    case THREADS:
        return parse_threads(text, &options->exec.threads);
    default:
        options->exec.isa = text;
        return TOOL_OK;
    }
}

static bool same(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

static int check_options(const struct run_options *options) {
    const struct {
        const char *name, *path;
    } needed[] = {{"--query", options->query}, {"--key", options->key}, {"--value", options->value}, {"-o", options->output}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!needed[i].path)
            return tool_usage("run needs %s FILE", needed[i].name);
    if (options->kv_heads && !options->heads)
        return tool_usage("--kv-heads needs --heads");
    if (same(options->output, options->weights) || same(options->output, options->lse) || same(options->weights, options->lse))
        return tool_usage("-o, --weights and --lse must be different files");
    return TOOL_OK;
}

int run_parse(int argc, char **argv, struct run_options *options) {
    *options = (struct run_options){0};
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":o:", long_options, NULL)) != -1;) {
        if (option == '?')
            return tool_usage("run does not know, or not with a value, %s", argv[optind - 1]);
        if (option == ':')
            return tool_usage("%s needs a value", argv[optind - 1]);
        int status = parse_option(option, optarg, options);
        if (status != TOOL_OK)
            return status;
    }
    if (optind < argc)
        return tool_usage("run takes no argument without an option, but was given %s", argv[optind]);
    return check_options(options);
}
