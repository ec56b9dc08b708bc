/* What a run prints: a header about the machine, a line per benchmark as it finishes, tables and the machine's noise at the end. */
#ifndef HEED_BENCHMARKS_REPORT_H
#define HEED_BENCHMARKS_REPORT_H

#include <benchmark/benchmark.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench.h"
#include "limits.h"

namespace bench {

/* What the header and the JSON file say about machine and build, in this order: CPU, compiler, limits and the like. */
std::vector<std::pair<std::string, std::string>> machine_context(const Plan &plan);

class Reporter : public benchmark::BenchmarkReporter {
  public:
    explicit Reporter(const Plan &plan) : plan_(plan), context_(machine_context(plan)) {}
    const std::vector<std::pair<std::string, std::string>> &context() const { return context_; }
    bool ReportContext(const Context &context) override;
    void ReportRuns(const std::vector<Run> &runs) override;
    void Finalize() override;

    /* Benchmarks that ended with an error, a wrong result among them. */
    int failures() const { return failures_; }

  private:
    struct Result {
        std::string unit;
        Samples rate, of_limit, price;
    };
    struct Group {
        std::vector<std::string> shapes;                               /* in the order of the run */
        std::map<std::pair<std::string, std::string>, Result> results; /* by shape and ISA */
        bool has_prices = false;
    };
    void remember(const std::string &name, const Result &result);
    static std::string cell(const Result &result, double base, bool has_prices);
    void print_group(const std::string &title, const Group &group) const;

    const Plan plan_;
    const std::vector<std::pair<std::string, std::string>> context_;
    int failures_ = 0;
    std::map<std::string, Group> groups_; /* by group and thread count */
};

} // namespace bench

#endif
