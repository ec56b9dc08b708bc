# AArch64: NEON is part of the baseline, so no object needs a flag.
NEON_FLAGS =

ARCH_SRC-1 = arch/scalar/scalar.c arch/arm/cpu.c
ARCH_SRC-$(HAVE_NEON) += arch/arm/neon.c
