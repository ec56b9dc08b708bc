# x86-64: which objects there are, and the flags of each.  configure reads the *_FLAGS lines to try an instruction set.
# FP_FAST_FMA says that fma is an instruction, which SLEEF's header asks and clang 14, other than gcc, does not tell.
SCALARFMA_FLAGS = -mfma -DFP_FAST_FMA=1 -DFP_FAST_FMAF=1 -fno-tree-vectorize -fno-tree-slp-vectorize
AVX2_FLAGS = -mavx2 -mfma -mf16c
AVXVNNI_FLAGS = -mavx2 -mfma -mf16c -mavxvnni
AVX512_FLAGS = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512
AVX512VNNI_FLAGS = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512 -mavx512vnni
AVX512BF16_FLAGS = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512 -mavx512bf16
AMX_FLAGS = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512 -mavx512bf16 -mamx-tile -mamx-bf16
AMXINT8_FLAGS = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512 -mamx-tile -mamx-int8

# What takes longest to compile comes first.
ISAS-$(HAVE_AVX512) += avx512
ISAS-$(HAVE_SCALARFMA) += scalarfma
ISAS-$(HAVE_AVX2) += avx2
ISAS-$(HAVE_AVXVNNI) += avxvnni
ISAS-$(HAVE_AVX512VNNI) += avx512vnni
ISAS-$(HAVE_AVX512BF16) += avx512bf16
ISAS-$(HAVE_AMX) += amx
ISAS-$(HAVE_AMXINT8) += amxint8
ARCH_SRC = $(ISAS-1:%=arch/x86/%.c) arch/x86/cpu.c
# What nearly every machine has: builds that are not about kernels have no other.
COMMON_ISA = avx2

# The baseline's fma is a function, for which all else waits: with -O1 scalar kernels take 0.9 to 1.2 of the time, and the compiler
# half of it (gcc 12, Zen 3).
$(OBJ)/arch/scalar/scalar.o: ISA_FLAGS += -O1
$(OBJ)/arch/x86/scalarfma.o $(OBJ)/benchmarks/limits_scalarfma.o: ISA_FLAGS = $(SCALARFMA_FLAGS)
$(OBJ)/arch/x86/avx2.o $(OBJ)/benchmarks/limits_avx2.o: ISA_FLAGS = $(AVX2_FLAGS)
$(OBJ)/arch/x86/avx512.o $(OBJ)/benchmarks/limits_avx512.o: ISA_FLAGS = $(AVX512_FLAGS)
$(OBJ)/arch/x86/avx512bf16.o $(OBJ)/benchmarks/limits_avx512bf16.o: ISA_FLAGS = $(AVX512BF16_FLAGS)
$(OBJ)/arch/x86/amx.o $(OBJ)/benchmarks/limits_amx.o: ISA_FLAGS = $(AMX_FLAGS)
$(OBJ)/arch/x86/amxint8.o: ISA_FLAGS = $(AMXINT8_FLAGS)
$(OBJ)/arch/x86/avxvnni.o: ISA_FLAGS = $(AVXVNNI_FLAGS)
$(OBJ)/arch/x86/avx512vnni.o: ISA_FLAGS = $(AVX512VNNI_FLAGS)
