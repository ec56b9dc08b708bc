/* The tables at the end of a run. */
#include <algorithm>
#include <cstdio>
#include <functional>

#include "report.h"

namespace bench {
namespace {

const int cell_width = 28;

/* What one table shows: types and shapes in the order of the run. */
struct Table {
    std::string group;
    int threads;
    Figure figure;
    std::vector<const Request *> requests;
    std::vector<std::string> isas;
    bool has_prices = false;
};

bool belongs(const Result &result, const Table &table) {
    return result.request().group == table.group && result.benchmark->threads == table.threads &&
           result.request().figure == table.figure;
}

template <class T, class Same> void add_once(std::vector<T> &all, const T &one, Same same) {
    if (std::none_of(all.begin(), all.end(), [&](const T &other) { return same(one, other); }))
        all.push_back(one);
}

std::vector<Table> tables_of(const Results &results) {
    std::vector<Table> tables;
    for (const Result &result : results.all()) {
        auto table = std::find_if(tables.begin(), tables.end(), [&result](const Table &each) { return belongs(result, each); });
        if (table == tables.end())
            table = tables.insert(table, {result.request().group, result.benchmark->threads, result.request().figure, {}, {}});
        add_once(table->requests, &result.request(),
                 [](const Request *a, const Request *b) { return a->dtype_and_shape() == b->dtype_and_shape(); });
        add_once(table->isas, result.benchmark->isa, std::equal_to<std::string>());
        table->has_prices |= result.price.median > 0;
    }
    return tables;
}

/* Seconds per flop or byte, of calls that are judged by their time: per call. */
double slowness(const Result &result) {
    const double work[] = {result.request().flops, result.request().bytes, 1};
    return result.seconds.median / work[static_cast<int>(result.request().figure)];
}

/* The scalar kernels take hundreds of times as long, and get fewer and smaller requests: "~" marks the ratio to their rate at the
 * nearest size of the group. */
std::string ratio_to_scalar(const Results &results, const Result &result) {
    const Request &request = result.request();
    const Result *scalar = request.figure == Figure::time ? results.find(request, "scalar", result.benchmark->threads)
                                                          : results.nearest(request, "scalar", result.benchmark->threads);
    if (!scalar)
        return "-";
    const double ratio = slowness(*scalar) / slowness(result);
    char text[32];
    std::snprintf(text, sizeof text, "%s%.*fx", scalar == results.find(request, "scalar", result.benchmark->threads) ? "" : "~",
                  ratio < 10 ? 1 : 0, ratio);
    return text;
}

std::string cell(const Results &results, const Result &result, bool has_prices) {
    char text[96], price[24] = "";
    if (has_prices)
        std::snprintf(price, sizeof price, result.price.median > 0 ? " %5.2f" : "     -", result.price.median);
    const std::string figure = result.request().figure == Figure::time    ? format_time(result.seconds.median)
                               : result.request().figure == Figure::bytes ? format_rate(result.gbps())
                                                                          : format_rate(result.gflops());
    std::snprintf(text, sizeof text, "%s %5.2f%c%8s%s", figure.c_str(), result.of_limit.median, result.is_quiet() ? ' ' : '?',
                  ratio_to_scalar(results, result).c_str(), price);
    return text;
}

void print_table(const Results &results, const Table &table) {
    const char *units[] = {"GFLOP/s", "GB/s", "time"};
    std::printf("\n%s, threads:%d: %s, of_limit, ratio to scalar%s\n%-50s", table.group.c_str(), table.threads,
                units[static_cast<int>(table.figure)], table.has_prices ? ", price" : "", "");
    for (const std::string &isa : table.isas)
        std::printf("  %*s", cell_width, isa.c_str());
    for (const Request *request : table.requests) {
        std::printf("\n%-50s", request->dtype_and_shape().c_str());
        for (const std::string &isa : table.isas) {
            const Result *found = results.find(*request, isa, table.threads);
            std::printf("  %*s", cell_width, found ? cell(results, *found, table.has_prices).c_str() : "-");
        }
    }
    std::printf("\n");
}

} // namespace

void print_tables(const Results &results) {
    for (const Table &table : tables_of(results))
        print_table(results, table);
}

} // namespace bench
