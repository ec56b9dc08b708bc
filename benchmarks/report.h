/* What a run prints: a header about the machine, a line per benchmark as it finishes, tables and the machine's noise at the end. */
#ifndef HEED_BENCHMARKS_REPORT_H
#define HEED_BENCHMARKS_REPORT_H

#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "results.h"

namespace bench {

/* What the header and the JSON file say about machine and build, in this order: CPU, compiler, limits and the like. */
std::vector<std::pair<std::string, std::string>> machine_context(const Plan &plan);
/* The same in a line, under pictures. */
std::string machine_line();

class Reporter : public benchmark::BenchmarkReporter {
  public:
    explicit Reporter(const Plan &plan) : context_(machine_context(plan)) {}
    const std::vector<std::pair<std::string, std::string>> &context() const { return context_; }
    bool ReportContext(const Context &context) override;
    void ReportRuns(const std::vector<Run> &runs) override;
    void Finalize() override;

    const Results &results() const { return results_; }
    /* Benchmarks that ended with an error, a wrong result among them. */
    int failures() const { return failures_; }

  private:
    const std::vector<std::pair<std::string, std::string>> context_;
    int failures_ = 0;
    Results results_;
};

/* A table for each group, thread count and figure: the instruction sets side by side. */
void print_tables(const Results &results);

} // namespace bench

#endif
