/* See table.h. */
#include "table.h"
#include "../checkpoint/checkpoint.h"

#include <string.h>

struct entry {
    const void *key; /* NULL: free */
    size_t bytes;
    int32_t value;
};

struct table table_make(int64_t entries) {
    struct table table = {.mask = 1};
    while ((int64_t)table.mask < 2 * entries)
        table.mask = 2 * table.mask + 1;
    table.entry = allocate((int64_t)table.mask + 1, sizeof *table.entry);
    memset(table.entry, 0, (table.mask + 1) * sizeof *table.entry);
    return table;
}

/* Where a key is, or the free place where it would be (FNV-1a). */
static struct entry *place_of(const struct table *table, const void *key, size_t bytes) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)key)[i]) * 0x100000001b3;
    for (size_t i = hash ^ hash >> 32;; i++) {
        struct entry *entry = &table->entry[i & table->mask];
        if (!entry->key || (entry->bytes == bytes && memcmp(entry->key, key, bytes) == 0))
            return entry;
    }
}

void table_add(struct table *table, const void *key, size_t bytes, int32_t value) {
    *place_of(table, key, bytes) = (struct entry){key, bytes, value};
}

int32_t table_find(const struct table *table, const void *key, size_t bytes) {
    const struct entry *entry = place_of(table, key, bytes);
    return entry->key ? entry->value : -1;
}
