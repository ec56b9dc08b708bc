/* The command line tool `heed`: shows what the library does on this machine, on files of NumPy and on examples of its own. */
#include "tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "Usage: heed COMMAND\n"
    "\n"
    "Attention on the CPU, with the same bits on every instruction set.\n"
    "\n"
    "  heed info    the CPU, the instruction sets that heed can use here, threads and caches\n"
    "  heed demo    five worked examples from the literature, a sentence, masks, a real layer; a few seconds\n"
    "  heed run     softmax(scale query key^T) value on NumPy files:\n"
    "\n"
    "    heed run --query q.npy --key k.npy --value v.npy -o out.npy [OPTION]...\n"
    "\n"
    "    --query, --key, --value FILE   the inputs\n"
    "    -o, --output FILE              the result, in the layout of the query\n"
    "    --output-type TYPE             f32 [default], bf16 or f16\n"
    "    --compute TYPE                 f32 [default], bf16 or bf16-amx: in which numbers products are computed\n"
    "    --heads N         the last dimension of the files holds N heads side by side\n"
    "    --kv-heads N      the same for key and value; N divides the number of heads [as many as heads]\n"
    "\n"
    "    What a query sees\n"
    "    --causal[=WHERE]  keys up to its own position\n"
    "    --align WHERE     query 0 is at position 0: top-left [if WHERE is left out]; so that the last query is at the last\n"
    "                      key: bottom-right; or at this position: a whole number\n"
    "    --window L,R      keys from L before its position to R after it; -1: no limit\n"
    "    --key-lengths FILE   the first keys of each batch entry, int64 [batch]\n"
    "    --mask FILE       bool or uint8, 0 hides a key; broadcasts to [batch, heads, query tokens, key tokens]\n"
    "\n"
    "    What becomes of a score, in this order\n"
    "    --scale X         factor, not 0 [1/sqrt(head_dim)]\n"
    "    --softcap X       X tanh(score / X)\n"
    "    --bias FILE       is added, -inf hides a key; broadcasts like the mask\n"
    "    --alibi[=FILE]    minus slope times distance; slopes [heads] [the geometric sequence of Press et al.]\n"
    "    --sinks FILE      scores without a key, [heads]\n"
    "\n"
    "    More results\n"
    "    --weights FILE    the attention weights, [batch, heads, query tokens, key tokens]\n"
    "    --lse FILE        the log-sum-exp of the scores, [batch, heads, query tokens]\n"
    "    --scores FILE     the scores, like the weights; --score-stage raw [default], capped or biased says when\n"
    "    --explain         print what would be done, and why, as JSON, instead of doing it; needs no -o\n"
    "\n"
    "    --isa NAME        instruction set [HEED_ISA from the environment, else the best]\n"
    "    --threads N       [all that OpenMP offers]\n"
    "\n"
    "    Shapes            with --heads                 without\n"
    "      2 dimensions    [tokens, heads*dim]          [tokens, dim], one head\n"
    "      3 dimensions    [batch, tokens, heads*dim]   [heads, tokens, dim]\n"
    "      4 dimensions    -                            [batch, heads, tokens, dim]\n"
    "    Query, key and value have the same number of dimensions.  weights, scores and lse leave out the dimensions that\n"
    "    the query does not have: batch unless it has one, heads if there are neither --heads nor a dimension for them.\n"
    "    The mask and the bias broadcast as in NumPy: sizes of 1 repeat, the first dimensions may be left out.\n"
    "\n"
    "    Files are .npy, format 1.0 or 2.0, little-endian float32 or float64 (rounded to float32), C order; query, key and\n"
    "    value float16 or bfloat16 too ('<V2', as ml_dtypes saves it), computed as --compute says and rounded at the end.\n"
    "\n"
    "  heed --help, heed --version\n"
    "\n"
    "Exit status: 0 if all is well, 1 if something failed, 2 if the command line makes no sense.\n";

static int complain(int status, const char *format, va_list arguments) {
    fflush(stdout);
    fprintf(stderr, "heed: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, status == TOOL_USAGE ? "\ntry: heed --help\n" : "\n");
    return status;
}

int tool_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    complain(TOOL_FAILED, format, arguments);
    va_end(arguments);
    return TOOL_FAILED;
}

int tool_usage(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    complain(TOOL_USAGE, format, arguments);
    va_end(arguments);
    return TOOL_USAGE;
}

static int run_command(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"info", tool_info}, {"run", tool_run}, {"demo", tool_demo}};
    if (argc < 2) {
        fputs(help, stderr);
        return TOOL_USAGE;
    }
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || (i == 1 && (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "help") == 0))) {
            fputs(help, stdout);
            return TOOL_OK;
        }
    if (strcmp(argv[1], "--version") == 0) {
        printf("heed %s\n", HEED_VERSION);
        return TOOL_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return tool_usage("unknown command %s", argv[1]);
}

int main(int argc, char **argv) {
    int status = run_command(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) /* a full disk must not look like success */
        return status == TOOL_OK ? tool_fail("cannot write to standard output") : status;
    return status;
}
