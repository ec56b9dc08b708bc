/* What the two programs of oneDNN, of its primitives and of its graphs, share. */
#ifndef HEED_BENCHMARKS_ONEDNN_H
#define HEED_BENCHMARKS_ONEDNN_H

#include <dnnl.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

/* A build whose CPU work goes through SYCL's queues (PyPI's packages since 2024) is not oneDNN at its best, and says so. */
inline std::string onednn_version() {
    const dnnl_version_t *version = dnnl_version();
    return std::to_string(version->major) + "." + std::to_string(version->minor) + "." + std::to_string(version->patch) +
           (version->cpu_runtime == DNNL_RUNTIME_SYCL ? " through SYCL" : "");
}

inline dnnl::engine onednn_engine() {
    try {
        return dnnl::engine(dnnl::engine::kind::cpu, 0);
    } catch (const dnnl::error &problem) {
        std::fprintf(stderr, "oneDNN %s: %s\n", onednn_version().c_str(), problem.what());
        std::exit(1);
    }
}

#endif
