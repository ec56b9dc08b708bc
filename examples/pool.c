/* An engine with threads of its own: heed runs on them through heed_exec, and starts none.  The pool is as small as one can be: its
 * workers sleep until there is a batch of tasks, and the calling thread works with them. */
#define _POSIX_C_SOURCE 200809L

#include <heed.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, HEADS = 8, TOKENS = 256, DIM = 64, ROW = HEADS * DIM };

/* One batch at a time: tasks 0 .. count-1, of which `next` is the first that nobody has taken and `left` have not ended. */
struct pool {
    pthread_t workers[WORKERS];
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    void (*task)(void *context, int index);
    void *context;
    int count, next, left;
    bool closing;
};

/* Takes tasks until there are none.  The lock is held on entry and on return. */
static void work_off(struct pool *pool) {
    while (pool->next < pool->count) {
        int index = pool->next++;
        pthread_mutex_unlock(&pool->lock);
        pool->task(pool->context, index);
        pthread_mutex_lock(&pool->lock);
        if (--pool->left == 0)
            pthread_cond_signal(&pool->done);
    }
}

static void *worker(void *argument) {
    struct pool *pool = argument;
    pthread_mutex_lock(&pool->lock);
    while (!pool->closing) {
        work_off(pool);
        if (!pool->closing)
            pthread_cond_wait(&pool->work, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* The two callbacks of heed_exec. */
static int pool_threads(void *pool) {
    (void)pool;
    return WORKERS + 1;
}

static void pool_run(void *argument, int count, void (*task)(void *context, int index), void *context) {
    struct pool *pool = argument;
    pthread_mutex_lock(&pool->lock);
    pool->task = task;
    pool->context = context;
    pool->next = 0;
    pool->count = pool->left = count;
    pthread_cond_broadcast(&pool->work);
    work_off(pool);
    while (pool->left > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

static bool pool_open(struct pool *pool) {
    *pool = (struct pool){.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&pool->workers[i], NULL, worker, pool) != 0)
            return false;
    return true;
}

static void pool_close(struct pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(pool->workers[i], NULL);
}

static float query[TOKENS][ROW], key[TOKENS][ROW], value[TOKENS][ROW];

static enum heed_status attend(float output[TOKENS][ROW], const struct heed_exec *exec) {
    struct heed_attention attention = {
        .batch = 1,
        .num_heads = HEADS,
        .num_kv_heads = HEADS,
        .query_tokens = TOKENS,
        .key_tokens = TOKENS,
        .head_dim = DIM,
        .value_dim = DIM,
        .causal = true,
        .query = {.data = query[0], .head_stride = DIM, .token_stride = ROW},
        .key = {.data = key[0], .head_stride = DIM, .token_stride = ROW},
        .value = {.data = value[0], .head_stride = DIM, .token_stride = ROW},
        .output = {.data = output[0], .head_stride = DIM, .token_stride = ROW},
    };
    return heed_attention(&attention, exec);
}

static void fill(float tensor[TOKENS][ROW]) {
    for (int i = 0; i < TOKENS; i++)
        for (int j = 0; j < ROW; j++)
            tensor[i][j] = (float)rand() / (float)RAND_MAX - 0.5f;
}

int main(void) {
    static float pooled[TOKENS][ROW], alone[TOKENS][ROW];
    static struct pool pool;
    fill(query);
    fill(key);
    fill(value);
    if (!pool_open(&pool)) {
        fprintf(stderr, "cannot start %d threads\n", WORKERS);
        return EXIT_FAILURE;
    }
    enum heed_status status = attend(pooled, &(struct heed_exec){.pool = &pool, .num_threads = pool_threads, .run = pool_run});
    if (status == HEED_OK)
        status = attend(alone, &(struct heed_exec){.threads = 1});
    pool_close(&pool);
    if (status != HEED_OK) {
        fprintf(stderr, "%s\n", heed_error_message());
        return EXIT_FAILURE;
    }
    bool same = memcmp(pooled, alone, sizeof pooled) == 0;
    printf("%d threads of the pool and one alone: %s bits\n", WORKERS + 1, same ? "the same" : "DIFFERENT");
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
