# Any other architecture: no table but the scalar one, which every build has.
ARCH_SRC = arch/scalar/cpu.c
COMMON_ISA = scalar
