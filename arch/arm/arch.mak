# AArch64: NEON is part of the baseline, and needs no flag.
NEON_FLAGS =
DOTPROD_FLAGS = -march=armv8.2-a+dotprod

ISAS-$(HAVE_NEON) += neon
ISAS-$(HAVE_DOTPROD) += dotprod
ARCH_SRC = $(ISAS-1:%=arch/arm/%.c) arch/arm/cpu.c
COMMON_ISA = neon

$(OBJ)/arch/arm/dotprod.o: ISA_FLAGS = $(DOTPROD_FLAGS)
