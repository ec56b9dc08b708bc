/* OpenBLAS: matrix products alone, and none with weights packed beforehand. */
#include <cblas.h>

#include "peers.h"

namespace {

using peers::Races;
using peers::Shape;

void run(Races &races, const Shape &shape) {
    if (shape.kind != peers::gemm || shape.prepared || shape.bf16)
        return;
    const int m = static_cast<int>(shape.m), n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);
    const float *a = shape.input[0], *b = shape.input[1];
    float *c = shape.output;
    races.race("sgemm", [=] { cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n); });
    if (m == 1)
        races.race("sgemv", [=] { cblas_sgemv(CblasRowMajor, CblasTrans, k, n, 1, b, n, a, 1, 0, c, 1); });
}

} // namespace

int main(int argc, char **argv) {
    Races races("OpenBLAS", openblas_get_config(), argc, argv);
    openblas_set_num_threads(races.threads());
    return run_all(races, run);
}
