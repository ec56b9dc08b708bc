/* What a checkpoint's settings say about translating from English into a language. */
#ifndef HEED_EXAMPLES_TASK_H
#define HEED_EXAMPLES_TASK_H

#include "search.h"

struct task {
    char prefix[256]; /* of every line */
    struct search_settings search;
};

/* language: as config.json's task_specific_params have it, "fr" or "French".  Where they say nothing, generation_config.json does,
 * then config.json, then the defaults of generate(). */
struct task task_read(const char *folder, const char *language);

#endif
