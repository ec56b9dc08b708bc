/* The first call in a process, each in one of its own. */
#include "first_call.h"

#include "bench.h"

namespace bench {
namespace {

class FirstCallWork : public Work {
  public:
    explicit FirstCallWork(FirstCalls &calls) : calls_(calls) {}
    heed_status call(const heed_exec &) override {
        const double latest = calls_.seconds();
        failed_ |= !(latest > 0);
        seconds_ += latest;
        return HEED_OK;
    }
    std::string check() override { return failed_ ? "the process that makes first calls does not answer" : ""; }
    double own_seconds() const override { return seconds_; }

  private:
    FirstCalls &calls_;
    double seconds_ = 0;
    bool failed_ = false;
};

} // namespace

void add_first_call(const Plan &plan, FirstCalls &calls) {
    Request request;
    request.group = "first-call";
    request.shape = "B1_H1_KV1_Q3_K3_D3_full";
    request.flops = 4 * 3 * 3 * 3;
    request.bytes = 4 * 4 * 3 * 3;
    request.figure = Figure::time;
    request.label = "first call in a process";
    request.make = [&calls] { return std::make_unique<FirstCallWork>(calls); };
    add(request, plan.isas[0], 1); /* heed's own choice */
}

} // namespace bench
