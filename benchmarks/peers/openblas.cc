/* OpenBLAS: matrix products alone, and none with weights packed beforehand. */
#include <cblas.h>

#include "peers.h"

namespace {

using peers::Races;
using peers::Shape;

void run(Races &races, const Shape &shape) {
    const bool transposed = shape.kind == peers::gemm_transposed;
    if ((shape.kind != peers::gemm && !transposed) || shape.prepared || shape.bf16)
        return;
    const int m = static_cast<int>(shape.m), n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);
    const float *a = shape.input[0], *b = shape.input[1];
    float *c = shape.output;
    const CBLAS_TRANSPOSE transpose_b = transposed ? CblasTrans : CblasNoTrans;
    const int ldb = transposed ? k : n;
    races.race("sgemm", [=] { cblas_sgemm(CblasRowMajor, CblasNoTrans, transpose_b, m, n, k, 1, a, k, b, ldb, 0, c, n); });
    if (m == 1 && transposed)
        races.race("sgemv", [=] { cblas_sgemv(CblasRowMajor, CblasNoTrans, n, k, 1, b, k, a, 1, 0, c, 1); });
    else if (m == 1)
        races.race("sgemv", [=] { cblas_sgemv(CblasRowMajor, CblasTrans, k, n, 1, b, n, a, 1, 0, c, 1); });
}

} // namespace

int main(int argc, char **argv) {
    Races races("OpenBLAS", openblas_get_config(), argc, argv);
    openblas_set_num_threads(races.threads());
    return run_all(races, run);
}
