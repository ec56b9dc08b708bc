/* What the first call in a process costs: detection of the CPU, the choice of a table, the pages of the code. */
#ifndef HEED_BENCHMARKS_FIRST_CALL_H
#define HEED_BENCHMARKS_FIRST_CALL_H

#include <sys/types.h>

namespace bench {

/* A process that has never called heed: forked before the program does anything else, it forks a child for every first call.  That
 * works under an emulator, too, and says some 15 % more than a process just executed would: 64 us where that takes 56. */
class FirstCalls {
  public:
    FirstCalls(); /* before the first call of heed, and before the first thread */
    ~FirstCalls();
    FirstCalls(const FirstCalls &) = delete;
    FirstCalls &operator=(const FirstCalls &) = delete;
    double seconds(); /* of one first call; not positive if it failed */

  private:
    int ask_[2], answer_[2];
    pid_t server_;
};

} // namespace bench

#endif
