# AArch64: NEON is part of the baseline, so no object needs a flag.
NEON_FLAGS =
# FP_FAST_FMAF says that fmaf is an instruction, which SLEEF's header asks and clang 14, other than gcc, does not tell.
$(OBJ)/arch/arm/neon.o $(OBJ)/arch/scalar/scalar.o: ISA_FLAGS += -DFP_FAST_FMAF=1

ISAS-$(HAVE_NEON) += neon
ARCH_SRC = arch/arm/cpu.c $(ISAS-1:%=arch/arm/%.c)
