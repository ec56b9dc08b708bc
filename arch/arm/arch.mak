# AArch64: NEON is part of the baseline, so no object needs a flag.
NEON_FLAGS =

ISAS-$(HAVE_NEON) += neon
ARCH_SRC = arch/arm/cpu.c $(ISAS-1:%=arch/arm/%.c)
