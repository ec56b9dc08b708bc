/* heed_linear_group: layers are cut into pieces of columns, which workers draw as they get free; each piece is a product by itself,
 * planned for one worker.  Layers with much to do take all workers, one after another. */
#include <inttypes.h>
#include <stdio.h>

#include "dispatch.h"
#include "error.h"
#include "kernels.h"
#include "linear.h"
#include "schedule.h"
#include "types.h"
#include "workspace.h"

/* Operations.  A layer takes a turn if each worker has more than some 70 us of it to do, beside which waiting for the last one,
 * some us, is little; a piece has some 2 us at least. */
#define WORK_OF_A_TURN  8e6
#define WORK_OF_A_PIECE 2e5
enum { PIECES_OF_WORKER = 4 };

struct group {
    const struct heed_linear *linears;
    int64_t count;
    const struct heed_exec *exec;
    int workers;
    double piece;                     /* work of one */
    int64_t *tasks;                   /* [count + 1]: pieces of the layers before each */
    int64_t worker_bytes, turn_bytes; /* of workspace, for a worker, and for a layer that takes all of them */
    char *memory;                     /* of the workers */
};

static double work_of(const struct heed_linear *r) {
    const double weights = (double)r->weights.outputs * (double)r->weights.inputs, rows = (double)r->rows;
    if (r->rows == 0 || r->weights.outputs == 0)
        return 0;
    return heed_schedule_work(2 * rows * weights,
                              (double)r->weights.outputs * (double)type_span(r->weights.type, r->weights.inputs));
}

static bool takes_a_turn(const struct group *group, const struct heed_linear *r) {
    return group->workers == 1 || work_of(r) > group->workers * WORK_OF_A_TURN;
}

/* Columns of a piece: whole panels. */
static int64_t piece_columns(const struct group *group, const struct heed_linear *r) {
    const double pieces = work_of(r) / group->piece;
    const int64_t panels = ceil_div(r->weights.outputs, HEED_PANEL);
    return pieces < 1 ? panels * HEED_PANEL : ceil_div(panels, (int64_t)pieces) * HEED_PANEL;
}

static int64_t pieces_of(const struct group *group, const struct heed_linear *r) {
    if (r->rows == 0 || r->weights.outputs == 0 || takes_a_turn(group, r))
        return 0;
    return ceil_div(r->weights.outputs, piece_columns(group, r));
}

static struct heed_input input_at(struct heed_input input, int64_t column) {
    input.data = input.data ? type_at(input.type, input.data, column) : NULL;
    return input;
}

/* Outputs [column, column + columns), of which column is a multiple of HEED_PANEL. */
static struct heed_linear piece_of(const struct heed_linear *r, int64_t column, int64_t columns) {
    const struct heed_gemm product = heed_linear_product(r);
    struct heed_linear piece = *r;
    struct heed_weights *w = &piece.weights;
    w->outputs = columns;
    w->bias = w->bias ? w->bias + column : NULL;
    w->scales = w->scales ? w->scales + column : NULL;
    if (w->packed)
        w->packed = heed_gemm_packed_at(&product, column, 0);
    else if (column > 0)
        w->data = type_at(w->type, w->data, column * w->stride);
    piece.gate = input_at(r->gate, column);
    piece.residual = input_at(r->residual, column);
    piece.output.data = type_at_output(r->output.type, r->output.data, column);
    return piece;
}

static int64_t workspace_of(const struct heed_linear *r, const struct heed_exec *exec) {
    struct heed_epilogue epilogue;
    const struct heed_gemm product = heed_linear_product(r);
    return heed_gemm_workspace(&product, heed_linear_epilogue(r, &epilogue), exec);
}

static enum heed_status run_linear(const struct heed_linear *r, const struct heed_exec *exec) {
    struct heed_epilogue epilogue;
    const struct heed_gemm product = heed_linear_product(r);
    return heed_gemm_run(&product, heed_linear_epilogue(r, &epilogue), exec);
}

/* What a piece is run with: the caller's, but for threads and memory. */
static struct heed_exec exec_of_worker(const struct group *group, int worker) {
    const struct heed_exec *exec = group->exec;
    struct heed_exec own = {.threads = 1, .isa = exec->isa, .cancelled = exec->cancelled, .cancel_context = exec->cancel_context};
    own.workspace = group->memory ? group->memory + worker * group->worker_bytes : NULL;
    own.workspace_bytes = group->worker_bytes;
    return own;
}

/* From the first byte that a layer's region has to the last; some of those between may be others'. */
struct extent {
    uintptr_t begin, end;
};

/* Of the regions that are not empty; how many these are. */
static int extents_of(const struct heed_region regions[HEED_LINEAR_REGIONS], struct extent extents[HEED_LINEAR_REGIONS]) {
    int count = 0;
    for (int n = 0; n < HEED_LINEAR_REGIONS; n++)
        if (regions[n].span > 0)
            extents[count++] = (struct extent){(uintptr_t)regions[n].data, heed_region_end(&regions[n])};
    return count;
}

static struct extent output_extent(const struct heed_linear *r) {
    const uintptr_t begin = (uintptr_t)r->output.data;
    const bool empty = r->rows == 0 || r->weights.outputs == 0;
    const int64_t span = empty ? 0 : (r->rows - 1) * r->output.token_stride + r->weights.outputs;
    return (struct extent){begin, begin + (uintptr_t)(span * type_bytes(r->output.type))};
}

/* Nothing that layer i writes is what layer j reads or writes. */
static enum heed_status check_pair(const struct heed_linear *linears, int64_t i, int64_t j) {
    struct heed_region of_i[HEED_LINEAR_REGIONS], of_j[HEED_LINEAR_REGIONS];
    char layers[80];
    heed_linear_regions(&linears[i], of_i);
    heed_linear_regions(&linears[j], of_j);
    for (int n = 0; n < HEED_LINEAR_REGIONS; n++)
        if (heed_region_check_apart(&of_i[HEED_LINEAR_OUTPUT], &of_j[n])) {
            snprintf(layers, sizeof layers, "linears[%" PRId64 "] beside linears[%" PRId64 "]", i, j);
            return heed_fail_in(layers), HEED_INVALID_ARGUMENT;
        }
    return HEED_OK;
}

/* By extents first, for of many layers there are more pairs. */
static enum heed_status check_apart(const struct heed_linear *linears, int64_t count) {
    for (int64_t j = 0; j < count; j++) {
        struct heed_region regions[HEED_LINEAR_REGIONS];
        struct extent extents[HEED_LINEAR_REGIONS];
        heed_linear_regions(&linears[j], regions);
        const int n = extents_of(regions, extents);
        for (int64_t i = 0; i < count; i++) {
            const struct extent output = output_extent(&linears[i]);
            bool meet = false;
            for (int e = 0; e < n; e++)
                meet |= output.begin < extents[e].end && extents[e].begin < output.end;
            if (meet && i != j && check_pair(linears, i, j))
                return HEED_INVALID_ARGUMENT;
        }
    }
    return HEED_OK;
}

static enum heed_status check(const struct heed_linear *linears, int64_t count, const struct heed_exec *exec) {
    const struct heed_kernels *kernels;
    if (heed_check_range("count", count, 0, INT64_MAX / (int64_t)sizeof *linears))
        return HEED_INVALID_ARGUMENT;
    if (count > 0 && !linears)
        return heed_fail(HEED_INVALID_ARGUMENT, "linears is NULL, but count is %" PRId64, count);
    for (int64_t i = 0; i < count; i++) {
        struct heed_gemm product;
        if (heed_linear_check(&linears[i], &product)) {
            char layer[40];
            snprintf(layer, sizeof layer, "linears[%" PRId64 "]", i);
            return heed_fail_in(layer), HEED_INVALID_ARGUMENT;
        }
    }
    const enum heed_status status = heed_exec_kernels(exec, &kernels);
    return status ? status : check_apart(linears, count);
}

static int64_t table_bytes(const struct group *group) {
    return round_up((group->count + 1) * (int64_t)sizeof(int64_t), HEED_WORKSPACE_ALIGN);
}

static void choose_workers(struct group *group) {
    double work = 0;
    for (int64_t i = 0; i < group->count; i++)
        work += work_of(&group->linears[i]);
    group->workers = heed_schedule_workers(group->exec, INT64_MAX, work);
    group->piece = work / (group->workers * PIECES_OF_WORKER);
    group->piece = group->piece > WORK_OF_A_PIECE ? group->piece : WORK_OF_A_PIECE;
}

/* Of the largest and the last of a layer's pieces; -1 if no memory has room for it. */
static int64_t piece_workspace(const struct group *group, const struct heed_linear *r) {
    const struct heed_exec exec = exec_of_worker(group, 0);
    const int64_t pieces = pieces_of(group, r), columns = piece_columns(group, r);
    if (pieces == 0)
        return 0;
    const struct heed_linear last = piece_of(r, 0, r->weights.outputs - (pieces - 1) * columns);
    const int64_t bytes = workspace_of(&last, &exec);
    if (pieces == 1 || bytes < 0)
        return bytes;
    const struct heed_linear whole = piece_of(r, 0, columns);
    const int64_t more = workspace_of(&whole, &exec);
    return more < 0 ? more : max_i64(bytes, more);
}

/* Bytes of workspace for a checked group, whose workers are chosen; -1 if no memory has room for them. */
static int64_t plan(struct group *group) {
    for (int64_t i = 0; i < group->count; i++) {
        const struct heed_linear *r = &group->linears[i];
        const bool turn = takes_a_turn(group, r);
        const int64_t bytes = turn ? workspace_of(r, group->exec) : piece_workspace(group, r);
        if (bytes < 0)
            return -1;
        if (turn)
            group->turn_bytes = max_i64(group->turn_bytes, bytes);
        else
            group->worker_bytes = max_i64(group->worker_bytes, bytes);
    }
    const int64_t pieces = table_bytes(group) + workspace_product(group->workers, group->worker_bytes);
    return group->workers > 1 ? max_i64(group->turn_bytes, pieces) : group->turn_bytes;
}

static bool run_piece(void *context, int64_t task, int worker) {
    const struct group *group = context;
    int64_t i = 0;
    while (group->tasks[i + 1] <= task)
        i++;
    const struct heed_linear *r = &group->linears[i];
    const int64_t columns = piece_columns(group, r), column = (task - group->tasks[i]) * columns;
    const struct heed_linear piece = piece_of(r, column, min_i64(columns, r->weights.outputs - column));
    const struct heed_exec exec = exec_of_worker(group, worker);
    return run_linear(&piece, &exec) == HEED_OK;
}

/* Of the layers that take turns. */
static enum heed_status run_turns(const struct group *group, const struct heed_exec *exec) {
    enum heed_status status = HEED_OK;
    for (int64_t i = 0; i < group->count && status == HEED_OK; i++)
        if (takes_a_turn(group, &group->linears[i]))
            status = run_linear(&group->linears[i], exec);
    return status;
}

static enum heed_status run_pieces(struct group *group, const struct heed_workspace *workspace) {
    group->tasks = (int64_t *)(void *)workspace->data;
    group->memory = (char *)workspace->data + table_bytes(group);
    group->tasks[0] = 0;
    for (int64_t i = 0; i < group->count; i++)
        group->tasks[i + 1] = group->tasks[i] + pieces_of(group, &group->linears[i]);
    const int64_t tasks = group->tasks[group->count];
    return heed_schedule_run(group->exec, (int)min_i64(group->workers, max_i64(tasks, 1)), tasks, run_piece, group);
}

/* On one workspace, so that there is memory for all layers before the first one writes. */
static enum heed_status run(struct group *group) {
    struct heed_workspace workspace;
    const int64_t floats = ceil_div(plan(group), (int64_t)sizeof(float));
    if (floats < 0 || workspace_check_floats(floats))
        return HEED_OUT_OF_MEMORY;
    enum heed_status status = workspace_open(&workspace, group->exec, floats);
    if (status)
        return status;
    struct heed_exec exec = *group->exec;
    exec.workspace = workspace.data;
    exec.workspace_bytes = group->turn_bytes;
    status = run_turns(group, &exec);
    if (status == HEED_OK && group->workers > 1)
        status = run_pieces(group, &workspace);
    workspace_close(&workspace);
    return status;
}

HEED_API int64_t heed_linear_group_workspace_bytes(const struct heed_linear *linears, int64_t count, const struct heed_exec *exec) {
    if (check(linears, count, exec))
        return -1;
    const struct heed_exec once = heed_exec_once(exec);
    struct group group = {.linears = linears, .count = count, .exec = &once};
    choose_workers(&group);
    const int64_t bytes = plan(&group), floats = ceil_div(bytes, (int64_t)sizeof(float));
    return bytes < 0 || workspace_check_floats(floats) ? -1 : workspace_bytes(floats);
}

HEED_API enum heed_status heed_linear_group(const struct heed_linear *linears, int64_t count, const struct heed_exec *exec) {
    const enum heed_status status = check(linears, count, exec);
    if (status)
        return status;
    const struct heed_exec once = heed_exec_once(exec);
    struct group group = {.linears = linears, .count = count, .exec = &once};
    choose_workers(&group);
    return run(&group);
}
