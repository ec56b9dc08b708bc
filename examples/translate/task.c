/* See task.h.  Settings are looked for in three places, of which the first one that has them counts. */
#define _GNU_SOURCE /* strcasestr */

#include "task.h"
#include "../checkpoint/checkpoint.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PLACES = 3 };

/* The first of the places where the field is. */
static const struct settings *place_of(const struct settings place[PLACES], const char *field) {
    for (int i = 0; i < PLACES - 1; i++) {
        const json_t *value = json_object_get(place[i].json, field);
        if (value && !json_is_null(value))
            return &place[i];
    }
    return &place[PLACES - 1];
}

static int64_t integer_in(const struct settings place[PLACES], const char *field, int64_t least, int64_t most, int64_t otherwise) {
    return settings_integer(place_of(place, field), field, least, most, otherwise);
}

/* true, false or "never" */
static enum stopping stopping_in(const struct settings place[PLACES]) {
    const char *field = "early_stopping";
    const struct settings *settings = place_of(place, field);
    const char *word = json_string_value(json_object_get(settings->json, field));
    if (word && strcmp(word, "never") == 0)
        return STOP_NEVER;
    return settings_flag(settings, field, false) ? STOP_EARLY : STOP_HEURISTIC;
}

/* Whether a task, "translation_en_to_fr", is called so, or its language is: by its code, or in its prefix, "translate English to
 * French: ". */
static bool is_called(const char *task, const json_t *parameters, const char *language) {
    const char *code = strstr(task, "_to_"), *prefix = json_string_value(json_object_get(parameters, "prefix"));
    char ending[128];
    snprintf(ending, sizeof ending, " to %s:", language);
    return strcasecmp(task, language) == 0 || (code && strcasecmp(code + 4, language) == 0) ||
           (prefix && strcasestr(prefix, ending));
}

/* The parameters of the one task that is called so; none if the checkpoint has no tasks. */
static struct settings find_parameters(const struct settings *config, const char *language) {
    const struct settings tasks = settings_object(config, "task_specific_params");
    char names[1024] = "";
    const char *name, *found = NULL;
    json_t *parameters;
    bool twice = false;
    json_object_foreach(tasks.json, name, parameters) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name);
        if (is_called(name, parameters, language)) {
            twice = found;
            found = name;
        }
    }
    if (json_object_size(tasks.json) > 0 && (!found || twice))
        fail("%s: has %s for --to=%s, its tasks are %s", tasks.path, twice ? "more than one task" : "no task", language, names);
    return settings_object(&tasks, found ? found : "");
}

/* What would make other tokens follow, and is not done here. */
static void check_rest(const struct settings *settings) {
    static const struct {
        const char *field;
        double neutral;
    } known[] = {{"min_length", 0},           {"min_new_tokens", 0},
                 {"no_repeat_ngram_size", 0}, {"encoder_no_repeat_ngram_size", 0},
                 {"repetition_penalty", 1},   {"encoder_repetition_penalty", 1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        settings_number(settings, known[i].field, known[i].neutral, known[i].neutral, known[i].neutral);
    if (settings_flag(settings, "do_sample", false))
        fail("%s: do_sample is true, must be false", settings->path);
}

struct task task_read(const char *folder, const char *language) {
    struct task task;
    const struct settings config = settings_open(folder, "config.json");
    const int most_prefix = (int)sizeof task.prefix;
    if (snprintf(task.prefix, sizeof task.prefix, "translate English to %s: ", language) >= most_prefix)
        fail("--to=%s: is too long", language);
    const struct settings place[PLACES] = {find_parameters(&config, language), settings_open(folder, "generation_config.json"),
                                           config};
    for (int i = 0; i < PLACES; i++)
        check_rest(&place[i]);
    const char *prefix = settings_string(&place[0], "prefix", NULL);
    if (prefix && snprintf(task.prefix, sizeof task.prefix, "%s", prefix) >= most_prefix)
        fail("%s: prefix is too long", config.path);
    const int64_t most_length = integer_in(place, "max_length", 2, MOST_TOKENS, 21); /* with the start */
    const struct settings *penalty = place_of(place, "length_penalty");
    task.search = (struct search_settings){.beams = integer_in(place, "num_beams", 1, MOST_BEAMS, 1),
                                           .most_tokens = integer_in(place, "max_new_tokens", 1, MOST_TOKENS, most_length - 1),
                                           .length_penalty = settings_number(penalty, "length_penalty", -100, 100, 1),
                                           .stopping = stopping_in(place),
                                           .start = (int32_t)integer_in(place, "decoder_start_token_id", 0, INT32_MAX, 0),
                                           .end = (int32_t)integer_in(place, "eos_token_id", 0, INT32_MAX, 1)};
    return task;
}
