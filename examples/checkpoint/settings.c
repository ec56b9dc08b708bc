/* Settings in JSON.  See checkpoint.h. */
#include "checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct settings settings_open(const char *folder, const char *name) {
    struct settings settings = {.json = NULL};
    if (snprintf(settings.path, sizeof settings.path, "%s/%s", folder, name) >= (int)sizeof settings.path)
        fail("the name of folder %s is too long", folder);
    size_t bytes = 0;
    char *text = file_read(settings.path, &bytes);
    if (!text)
        return settings;
    json_error_t error;
    settings.json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    release(text);
    if (!settings.json)
        fail("%s: line %d: %s", settings.path, error.line, error.text);
    if (!json_is_object(settings.json))
        fail("%s: is not a JSON object", settings.path);
    return settings;
}

void settings_require(const struct settings *settings) {
    if (!settings->json)
        fail("%s: no such file", settings->path);
}

/* NULL: not there, or null. */
static const json_t *find(const struct settings *settings, const char *field) {
    const json_t *value = json_object_get(settings->json, field);
    return json_is_null(value) ? NULL : value;
}

/* Numbers are read as doubles, all of them: files have limits of 10^30 that mean "none". */
double settings_number(const struct settings *settings, const char *field, double least, double most, double otherwise) {
    const json_t *value = find(settings, field);
    if (!value && otherwise == SETTINGS_REQUIRED)
        fail("%s: %s is missing", settings->path, field);
    if (!value)
        return otherwise;
    if (!json_is_real(value))
        fail("%s: %s is not a number", settings->path, field);
    const double number = json_real_value(value);
    if (least == most && number != least)
        fail("%s: %s is %.15g, must be %.15g", settings->path, field, number, least);
    if (!(number >= least && number <= most))
        fail("%s: %s is %.15g, must be from %.15g to %.15g", settings->path, field, number, least, most);
    return number;
}

int64_t settings_integer(const struct settings *settings, const char *field, int64_t least, int64_t most, int64_t otherwise) {
    const double number = settings_number(settings, field, (double)least, (double)most, (double)otherwise);
    if (number != (double)(int64_t)number)
        fail("%s: %s is %.15g, must be an integer", settings->path, field, number);
    return (int64_t)number;
}

bool settings_flag(const struct settings *settings, const char *field, bool otherwise) {
    const json_t *value = find(settings, field);
    if (value && !json_is_boolean(value))
        fail("%s: %s is neither true nor false", settings->path, field);
    return value ? json_is_true(value) : otherwise;
}

const char *settings_string(const struct settings *settings, const char *field, const char *otherwise) {
    const json_t *value = find(settings, field);
    if (json_is_object(value)) /* a token with its properties */
        value = json_object_get(value, "content");
    if (value && !json_is_string(value))
        fail("%s: %s is not a string", settings->path, field);
    return value ? json_string_value(value) : otherwise;
}

void settings_expect(const struct settings *settings, const char *field, const char *value) {
    const char *found = settings_string(settings, field, value);
    if (strcmp(found, value) != 0)
        fail("%s: %s is %s, must be %s", settings->path, field, found, value);
}

struct settings settings_object(const struct settings *settings, const char *field) {
    struct settings object = {.json = json_object_get(settings->json, field)};
    if (snprintf(object.path, sizeof object.path, "%s: %s", settings->path, field) >= (int)sizeof object.path)
        fail("%s: the path is too long", settings->path);
    if (json_is_null(object.json))
        object.json = NULL;
    if (object.json && !json_is_object(object.json))
        fail("%s is not a JSON object", object.path);
    return object;
}

const json_t *settings_array(const struct settings *settings, const char *field) {
    const json_t *value = find(settings, field);
    if (value && !json_is_array(value))
        fail("%s: %s is not an array", settings->path, field);
    return value;
}
