/* See task.h.  Settings are looked for in three places, of which the first one that has them counts. */
#define _POSIX_C_SOURCE 200809L

#include "task.h"
#include "../checkpoint/checkpoint.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PLACES = 3 };

struct places {
    struct settings place[PLACES];
};

static double number_in(const struct places *places, const char *field, double least, double most, double otherwise) {
    for (int i = PLACES - 1; i >= 0; i--)
        otherwise = settings_number(&places->place[i], field, least, most, otherwise);
    return otherwise;
}

static int64_t integer_in(const struct places *places, const char *field, int64_t least, int64_t most, int64_t otherwise) {
    for (int i = PLACES - 1; i >= 0; i--)
        otherwise = settings_integer(&places->place[i], field, least, most, otherwise);
    return otherwise;
}

/* true, false or "never" */
static enum stopping stopping_in(const struct places *places) {
    for (int i = 0; i < PLACES; i++) {
        const json_t *value = json_object_get(places->place[i].json, "early_stopping");
        if (json_is_string(value) && strcmp(json_string_value(value), "never") == 0)
            return STOP_NEVER;
        if (value && !json_is_null(value))
            return settings_flag(&places->place[i], "early_stopping", false) ? STOP_EARLY : STOP_HEURISTIC;
    }
    return STOP_HEURISTIC;
}

/* The parameters of the translation into that language, by its code or its name in the prefix. */
static struct settings find_parameters(const struct settings *config, const char *language, const char *prefix) {
    static const char task[] = "translation_en_to_";
    const size_t length = sizeof task - 1;
    struct settings found = *config;
    const char *name;
    json_t *parameters;
    found.json = NULL;
    json_object_foreach(json_object_get(config->json, "task_specific_params"), name, parameters) {
        const char *says = json_string_value(json_object_get(parameters, "prefix"));
        if (strncmp(name, task, length) == 0 &&
            (strcasecmp(name + length, language) == 0 || (says && strcasecmp(says, prefix) == 0)))
            found.json = parameters;
    }
    return found;
}

struct task task_read(const char *folder, const char *language) {
    struct task task;
    const struct settings config = settings_open(folder, "config.json");
    const int most_prefix = (int)sizeof task.prefix;
    if (snprintf(task.prefix, sizeof task.prefix, "translate English to %s: ", language) >= most_prefix)
        fail("--to=%s: is too long", language);
    const struct places places = {
        {find_parameters(&config, language, task.prefix), settings_open(folder, "generation_config.json"), config}};
    const char *prefix = settings_string(&places.place[0], "prefix", NULL);
    if (prefix && snprintf(task.prefix, sizeof task.prefix, "%s", prefix) >= most_prefix)
        fail("%s: prefix is too long", config.path);
    const int64_t most_length = integer_in(&places, "max_length", 2, MOST_TOKENS, 21); /* with the start */
    task.search = (struct search_settings){.beams = integer_in(&places, "num_beams", 1, MOST_BEAMS, 1),
                                           .most_tokens = integer_in(&places, "max_new_tokens", 1, MOST_TOKENS, most_length - 1),
                                           .length_penalty = number_in(&places, "length_penalty", -100, 100, 1),
                                           .stopping = stopping_in(&places),
                                           .start = (int32_t)integer_in(&places, "decoder_start_token_id", 0, INT32_MAX, 0),
                                           .end = (int32_t)integer_in(&places, "eos_token_id", 0, INT32_MAX, 1)};
    return task;
}
