/* How far a run is: on a terminal one line that is written over, elsewhere a line every few seconds. */
#ifndef HEED_BENCHMARKS_PROGRESS_H
#define HEED_BENCHMARKS_PROGRESS_H

#include <cstddef>
#include <string>

namespace bench {

void start_progress(size_t benchmarks);
void begin_progress(const std::string &name); /* of what runs now */
void end_progress();                          /* it is done; its results may be printed */
void report_progress();                       /* after they are */

} // namespace bench

#endif
