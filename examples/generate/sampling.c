/* See sampling.h. */
#include "sampling.h"
#include "../shared/layers.h"

#include <math.h>
#include <string.h>

/* SplitMix64 (Steele et al. 2014). */
static uint64_t next(struct random *random) {
    uint64_t x = random->state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* States that are near to each other would give the same numbers, some steps apart. */
struct random random_of(int64_t seed, int64_t sequence) {
    struct random random = {(uint64_t)seed};
    random.state = next(&random) + (uint64_t)sequence;
    random.state = next(&random);
    return random;
}

double random_number(struct random *random) { return (double)(next(random) >> 11) * 0x1p-53; }

static bool before(const float *numbers, int32_t a, int32_t b) {
    return numbers[a] != numbers[b] ? numbers[a] > numbers[b] : a < b;
}

/* Tokens in a heap, the likeliest at its root: only as many are put in order as are asked for. */
static void sink(const float *numbers, int32_t *heap, int64_t count, int64_t place) {
    for (int64_t child; (child = 2 * place + 1) < count; place = child) {
        child += child + 1 < count && before(numbers, heap[child + 1], heap[child]);
        if (!before(numbers, heap[child], heap[place]))
            return;
        const int32_t token = heap[child];
        heap[child] = heap[place];
        heap[place] = token;
    }
}

/* Moves the root behind the heap, which loses an element. */
static int32_t pop(const float *numbers, int32_t *heap, int64_t count) {
    const int32_t token = heap[0];
    heap[0] = heap[count - 1];
    heap[count - 1] = token;
    sink(numbers, heap, count - 1, 0);
    return token;
}

/* Leaves the likeliest k, and of these the likeliest that have the share p of their sum; what is left comes to 1. */
static void truncate(const struct sampling *sampling, float *probabilities, int32_t *order, int64_t count) {
    int64_t kept = 0, popped = sampling->top_k < count ? sampling->top_k : count;
    double total = popped > 0 ? 0 : 1, mass = 0;
    for (int64_t i = 0; i < count; i++)
        order[i] = (int32_t)i;
    for (int64_t i = count / 2; i >= 0; i--)
        sink(probabilities, order, count, i);
    for (int64_t i = 0; i < popped; i++)
        total += (double)probabilities[pop(probabilities, order, count - i)];
    const int64_t most = popped > 0 ? popped : count;
    while (kept < most && (kept == 0 || mass < sampling->top_p * total)) {
        mass += (double)probabilities[kept < popped ? order[count - 1 - kept] : pop(probabilities, order, count - kept)];
        kept++;
    }
    for (int64_t i = 0; i < count; i++)
        probabilities[order[i]] = i < count - kept ? 0 : (float)(probabilities[order[i]] / mass);
}

void sampling_distribution(const struct sampling *sampling, const float *logits, int64_t count, float *probabilities,
                           int32_t *order, const struct heed_exec *exec) {
    if (sampling->temperature == 0) {
        memset(probabilities, 0, (size_t)count * sizeof *probabilities);
        probabilities[likeliest(logits, count)] = 1;
        return;
    }
    const double scale = fmin(1 / sampling->temperature, 1e30); /* a finite one, by which only equals are equally likely */
    softmax(exec, 1, count, (float)scale, logits, probabilities);
    if (sampling->top_k > 0 || sampling->top_p < 1)
        truncate(sampling, probabilities, order, count);
}

int32_t sampling_draw(const float *probabilities, int64_t count, struct random *random) {
    double total = 0, sum = 0;
    int64_t token = 0;
    for (int64_t i = 0; i < count; i++)
        total += (double)probabilities[i];
    const double place = random_number(random) * total;
    for (int64_t i = 0; i < count && sum <= place; i++) {
        sum += (double)probabilities[i];
        token = probabilities[i] > 0 ? i : token;
    }
    return (int32_t)token;
}

bool sampling_accepts(float *probabilities, const float *proposed, int64_t count, int32_t token, struct random *random) {
    bool more = false; /* by rounding, there may be nothing else to draw from */
    if (random_number(random) * (double)proposed[token] < (double)probabilities[token])
        return true;
    for (int64_t i = 0; i < count && !more; i++)
        more = probabilities[i] > proposed[i];
    for (int64_t i = 0; i < count && more; i++)
        probabilities[i] = probabilities[i] > proposed[i] ? probabilities[i] - proposed[i] : 0;
    return !more;
}
