/* Some blocks of a panel, which thin_blocks takes at a time, and what is fetched while they are multiplied. */
#ifndef HEED_KERNELS_BLOCKS_WINDOW_H
#define HEED_KERNELS_BLOCKS_WINDOW_H

/* A turn, of a window of columns that are not packed. */
INLINE int fetched_columns(const enum heed_type type) { return HEED_PANEL / (block_window(type) / TURN_DEPTH); }

/* Some blocks of a panel, all columns. */
struct blocks_window {
    int64_t k;
    const float *a;
    int64_t lda;
    const char *packed;
    const char *next; /* the window to be fetched, of columns `step` bytes apart; NULL: what follows `packed` */
    int64_t step;
    float *c;
    bool continues, fetches, fetch_once;
};

/* Each line at its last byte of the window: at the first byte, the window before had most of them.  Once: into L1, q4_0 takes 0.98
 * of the time that it takes if it goes into L2, with 1024 elements 0.75, q8_0 as long (Zen 5). */
INLINE void fetch_columns(const enum heed_type type, uintptr_t at, int64_t step, bool once) {
    const int bytes = (int)type_span(type, block_window(type));
    UNROLL for (int column = 0; column < fetched_columns(type); column++)
        UNROLL for (int line = 0; line < bytes; line += LINE_BYTES) {
        const uintptr_t last = (uintptr_t)(line + LINE_BYTES < bytes ? line + LINE_BYTES - 1 : bytes - 1);
        const void *const byte = (const void *)(at + (uintptr_t)(column * step) + last);
        if (once)
            __builtin_prefetch(byte, 0, 3);
        else
            __builtin_prefetch(byte, 0, 2);
    }
}

/* What the turn that starts at element `turn` of the window fetches. */
INLINE void fetch_ahead(const enum heed_type type, const struct blocks_window *window, int64_t turn) {
    if (window->next)
        fetch_columns(type, (uintptr_t)window->next + (uintptr_t)(turn / TURN_DEPTH * fetched_columns(type) * window->step),
                      window->step, window->fetch_once);
    else
        fetch_packed(type, false, window->packed + turn / TURN_DEPTH * turn_bytes(type), window->fetch_once, false);
}

#endif
