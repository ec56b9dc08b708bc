/* A table from bytes to numbers, which look-ups in vocabularies need to be quick. */
#ifndef HEED_EXAMPLES_TABLE_H
#define HEED_EXAMPLES_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* Open addressing; mask + 1 is at least twice the number of entries. */
struct table {
    struct entry *entry;
    size_t mask;
};
/* For so many entries at most. */
struct table table_make(int64_t entries);
/* The key stays where it is; of equal keys the last counts. */
void table_add(struct table *table, const void *key, size_t bytes, int32_t value);
/* -1: not there. */
int32_t table_find(const struct table *table, const void *key, size_t bytes);

#endif
