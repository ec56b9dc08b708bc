# Any other architecture: the scalar table alone.
ARCH_SRC-1 = arch/scalar/scalar.c arch/scalar/cpu.c
