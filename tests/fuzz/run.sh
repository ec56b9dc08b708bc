#!/bin/sh
# Fuzzes for some seconds of CPU time with one libFuzzer process on each CPU, then says what they have run and covered.
# Usage: run.sh FUZZ CHECK FOLDER SECONDS BYTES
#
# FUZZ has libFuzzer; CHECK, the same without it, has the inputs to begin with. FOLDER keeps the corpus, the workers' logs and, in
# findings/, the inputs that failed. An input has BYTES at most.
set -eu
fuzz=$1 check=$2 folder=$3 seconds=$4 bytes=$5
workers=$(nproc)
mkdir -p "$folder/corpus" "$folder/findings"
[ -n "$(ls "$folder/corpus")" ] || "$check" -o "$folder/corpus"

export OMP_WAIT_POLICY=passive
each=$(((seconds + workers - 1) / workers))
[ "$each" -gt 0 ] || each=1 # 0 would be for ever
printf 'fuzzing with %d processes for %d s each\n' "$workers" "$each"
pids=
worker=0
while [ "$worker" -lt "$workers" ]; do
    "$fuzz" -max_total_time="$each" -timeout=60 -rss_limit_mb=4096 -max_len="$bytes" -len_control=0 -reload=10 \
        -print_final_stats=1 -artifact_prefix="$folder/findings/" "$folder/corpus" >"$folder/worker-$worker.log" 2>&1 &
    pids="$pids $!"
    worker=$((worker + 1))
done

failed=0
worker=0
for pid in $pids; do
    if ! wait "$pid"; then
        failed=1
        tail -n 60 "$folder/worker-$worker.log"
    fi
    worker=$((worker + 1))
done

times >"$folder/times" # the last line: of the processes that have ended, user and system, as 1m2.34s
awk '/^stat::number_of_executed_units/ { requests += $2 }
     /inline 8-bit counters/ { sub(/.*\(/, ""); edges = $1 }
     match($0, /cov: [0-9]+/) { seen = substr($0, RSTART + 5, RLENGTH - 5); if (seen + 0 > most) most = seen + 0 }
     /^[0-9]+m[0-9.]+s / { cpu = 60 * ($1 + $2); for (i = 1; i < 3; i++) { sub(/.*m/, "", $i); cpu += $i } }
     END { printf "fuzz: %d inputs in %d s of CPU time; %d of %d edges covered, checks of sanitizers included\n", requests, cpu, most, edges }' \
    "$folder"/worker-*.log "$folder/times"
if [ "$failed" != 0 ]; then
    echo "fuzz: FAILED; each of $folder/findings/* says more with: FUZZ_VERBOSE=1 $check FILE"
fi
exit "$failed"
