/* The command line of heed run: a table of its options, each with what reads its value. */
#include "run.h"
#include "tool.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Each reads the value of the option `name` into its field; TOOL_OK, or TOOL_USAGE after a message. */

static int parse_text(const char *name, const char *text, void *field) {
    (void)name;
    *(const char **)field = text;
    return TOOL_OK;
}

static int parse_flag(const char *name, const char *text, void *field) {
    (void)name, (void)text;
    *(bool *)field = true;
    return TOOL_OK;
}

/* A whole number that ends at `end`. */
static bool read_whole(const char *text, char end, int64_t *number, const char **rest) {
    char *after;
    errno = 0;
    long long value = strtoll(text, &after, 10);
    if (after == text || *after != end || errno)
        return false;
    *number = value;
    *rest = after;
    return true;
}

static int parse_up_to(const char *name, const char *text, int64_t largest, int64_t *count) {
    const char *end;
    if (!read_whole(text, '\0', count, &end) || *count < 1 || *count > largest)
        return tool_usage("--%s is %s, must be a whole number from 1 to %lld", name, text, (long long)largest);
    return TOOL_OK;
}

static int parse_count(const char *name, const char *text, void *field) { return parse_up_to(name, text, INT32_MAX, field); }

static int parse_threads(const char *name, const char *text, void *field) {
    int64_t count = 0;
    int status = parse_up_to(name, text, 1024, &count);
    *(int *)field = (int)count;
    return status;
}

static int parse_factor(const char *name, const char *text, void *field) {
    char *end;
    float value = strtof(text, &end);
    if (end == text || *end || !isfinite(value) || value == 0)
        return tool_usage("--%s is %s, must be a finite number that is not 0", name, text);
    *(float *)field = value;
    return TOOL_OK;
}

static int parse_positive(const char *name, const char *text, void *field) {
    int status = parse_factor(name, text, field);
    if (status == TOOL_OK && *(float *)field < 0)
        return tool_usage("--%s is %s, must be above 0", name, text);
    return status;
}

static int parse_position(const char *name, const char *text, void *field) {
    struct run_position *position = field;
    const char *end;
    if (!text || strcmp(text, "top-left") == 0)
        position->alignment = HEED_ALIGN_TOP_LEFT;
    else if (strcmp(text, "bottom-right") == 0)
        position->alignment = HEED_ALIGN_BOTTOM_RIGHT;
    else if (read_whole(text, '\0', &position->offset, &end))
        position->alignment = HEED_ALIGN_OFFSETS;
    else
        return tool_usage("--%s is %s, must be top-left, bottom-right or the position of the first query", name, text);
    return TOOL_OK;
}

static int parse_causal(const char *name, const char *text, void *field) {
    struct run_position *position = field;
    position->causal = true;
    return parse_position(name, text, field);
}

static int parse_window(const char *name, const char *text, void *field) {
    struct heed_window *window = field;
    const char *comma, *end;
    if (!read_whole(text, ',', &window->left, &comma) || !read_whole(comma + 1, '\0', &window->right, &end) || window->left < -1 ||
        window->right < -1)
        return tool_usage("--%s is %s, must be LEFT,RIGHT: two whole numbers, -1 for no limit", name, text);
    window->on = true;
    return TOOL_OK;
}

static int parse_alibi(const char *name, const char *text, void *field) {
    (void)name;
    *(struct run_alibi *)field = (struct run_alibi){true, text};
    return TOOL_OK;
}

static int parse_stage(const char *name, const char *text, void *field) {
    static const char *const stages[] = {
        [HEED_SCORES_RAW] = "raw", [HEED_SCORES_CAPPED] = "capped", [HEED_SCORES_BIASED] = "biased"};
    for (int i = 0; i <= HEED_SCORES_BIASED; i++)
        if (strcmp(text, stages[i]) == 0) {
            *(struct run_stage *)field = (struct run_stage){true, (enum heed_score_stage)i};
            return TOOL_OK;
        }
    return tool_usage("--%s is %s, must be raw, capped or biased", name, text);
}

static int parse_type(const char *name, const char *text, void *field) {
    static const char *const types[] = {[HEED_F32] = "f32", [HEED_BF16] = "bf16", [HEED_F16] = "f16"};
    for (int i = 0; i <= HEED_F16; i++)
        if (strcmp(text, types[i]) == 0) {
            *(enum heed_type *)field = (enum heed_type)i;
            return TOOL_OK;
        }
    return tool_usage("--%s is %s, must be f32, bf16 or f16", name, text);
}

static int parse_compute(const char *name, const char *text, void *field) {
    static const char *const kinds[] = {
        [HEED_COMPUTE_F32] = "f32", [HEED_COMPUTE_BF16] = "bf16", [HEED_COMPUTE_BF16_AMX] = "bf16-amx"};
    for (int i = 0; i <= HEED_COMPUTE_BF16_AMX; i++)
        if (strcmp(text, kinds[i]) == 0) {
            *(enum heed_compute *)field = (enum heed_compute)i;
            return TOOL_OK;
        }
    return tool_usage("--%s is %s, must be f32, bf16 or bf16-amx", name, text);
}

#define FIELD(member) offsetof(struct run_options, member)
static const struct {
    const char *name;
    int has_value; /* as getopt_long has it */
    int (*parse)(const char *name, const char *text, void *field);
    size_t field;
} table[] = {
    {"query", required_argument, parse_text, FIELD(query)},
    {"key", required_argument, parse_text, FIELD(key)},
    {"value", required_argument, parse_text, FIELD(value)},
    {"output", required_argument, parse_text, FIELD(output)},
    {"output-type", required_argument, parse_type, FIELD(output_type)},
    {"compute", required_argument, parse_compute, FIELD(compute)},
    {"weights", required_argument, parse_text, FIELD(weights)},
    {"lse", required_argument, parse_text, FIELD(lse)},
    {"scores", required_argument, parse_text, FIELD(scores)},
    {"score-stage", required_argument, parse_stage, FIELD(score_stage)},
    {"heads", required_argument, parse_count, FIELD(heads)},
    {"kv-heads", required_argument, parse_count, FIELD(kv_heads)},
    {"causal", optional_argument, parse_causal, FIELD(position)},
    {"align", required_argument, parse_position, FIELD(position)},
    {"window", required_argument, parse_window, FIELD(window)},
    {"key-lengths", required_argument, parse_text, FIELD(key_lengths)},
    {"mask", required_argument, parse_text, FIELD(mask)},
    {"scale", required_argument, parse_factor, FIELD(scale)},
    {"softcap", required_argument, parse_positive, FIELD(softcap)},
    {"bias", required_argument, parse_text, FIELD(bias)},
    {"alibi", optional_argument, parse_alibi, FIELD(alibi)},
    {"sinks", required_argument, parse_text, FIELD(sinks)},
    {"explain", no_argument, parse_flag, FIELD(explain)},
    {"isa", required_argument, parse_text, FIELD(exec.isa)},
    {"threads", required_argument, parse_threads, FIELD(exec.threads)},
};
enum { OPTIONS = sizeof table / sizeof *table, FIRST_OPTION = 256 };

static bool same(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

static int check_options(const struct run_options *options) {
    const struct {
        const char *name, *path;
    } needed[] = {{"--query", options->query},
                  {"--key", options->key},
                  {"--value", options->value},
                  {"-o", options->explain ? "" : options->output}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!needed[i].path)
            return tool_usage("run needs %s FILE", needed[i].name);
    if (options->kv_heads && !options->heads)
        return tool_usage("--kv-heads needs --heads");
    if (options->score_stage.given && !options->scores)
        return tool_usage("--score-stage needs --scores");
    const char *const written[] = {options->output, options->weights, options->lse, options->scores};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            if (same(written[i], written[j]))
                return tool_usage("-o, --weights, --lse and --scores must be different files");
    return TOOL_OK;
}

static int parse_option(int option, const char *text, struct run_options *options) {
    const int index = option - FIRST_OPTION;
    if (option == 'o')
        return parse_text("output", text, &options->output);
    return table[index].parse(table[index].name, text, (char *)options + table[index].field);
}

int run_parse(int argc, char **argv, struct run_options *options) {
    struct option long_options[OPTIONS + 1] = {{0}};
    for (int i = 0; i < OPTIONS; i++)
        long_options[i] = (struct option){table[i].name, table[i].has_value, NULL, FIRST_OPTION + i};
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
