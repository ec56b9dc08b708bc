# What make offers: deps, all, demo, check and its kin, bench, install, clean.  What the machine offers is in config.mak, written by
# configure; everything built is under build/ of the folder that was configured.
.SUFFIXES:
.DELETE_ON_ERROR:

# configure links this file into an out-of-tree build; the sources are where the file itself is.
SOURCE := $(patsubst %/,%,$(dir $(realpath $(firstword $(MAKEFILE_LIST)))))
FIRST = $(filter help deps deps-ci clean distclean,$(MAKECMDGOALS))
REST = $(filter-out $(FIRST),$(or $(MAKECMDGOALS),all))
# As many jobs as there are processors, unless make is told (-j1), for kernels take minutes to compile; but with several goals one
# after another, since one may be to measure.
ifeq ($(MAKELEVEL) $(words $(REST)),0 1)
MAKEFLAGS += -j$(shell nproc)
endif

all:

# README's table of commands.
help:
	@sed -n 's/^| `\(make.*\)` | \(.*\) |$$/\1\n    \2/p' $(SOURCE)/README.md | tr -d '`'

# Debian packages: what building and testing needs, and what the other builds of .ci/run need on top.
deps:
	@$(SOURCE)/install/deps.sh gcc g++ make pkg-config libsleef-dev check libbenchmark-dev \
	    libjansson-dev libutf8proc-dev libsentencepiece-dev
deps-ci: deps
	@$(SOURCE)/install/deps.sh shellcheck clang llvm-19 libclang-rt-dev clang-format libomp-dev valgrind cmake abigail-tools \
	    python3-numpy qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross libgomp1:arm64 libsleef-dev:arm64 check:arm64 \
	    libjansson-dev:arm64 libutf8proc-dev:arm64
clean:
	rm -rf build
distclean: clean
	rm -f config.mak config.h configure.log
.PHONY: all help deps deps-ci clean distclean

ifneq ($(FIRST)$(if $(wildcard config.mak),,unconfigured),)
# Nothing can be built before deps is through and configure has run: a second make does the other goals then.
ifneq ($(REST),)
$(REST): second-make
second-make: $(FIRST)
	@[ -e config.mak ] || $(SOURCE)/configure
	@+$(MAKE) --no-print-directory $(REST)
.PHONY: second-make $(REST)
endif
else

include config.mak
config.mak: $(srcdir)/configure $(srcdir)/arch/$(ARCH)/arch.mak
	@$(CONFIGURE)

B = build
OBJ = $(B)/obj
sources = $(patsubst $(srcdir)/%,%,$(wildcard $(1:%=$(srcdir)/%)))
objects = $(addprefix $(OBJ)/,$(addsuffix .o,$(basename $(call sources,$1))))

include $(srcdir)/arch/$(ARCH)/arch.mak
LIB_OBJ = $(call objects,$(ARCH_SRC) arch/scalar/scalar.c src/*.c)
REFERENCE_OBJ = $(call objects,src/reference/*.c)
TOOL_OBJ = $(call objects,examples/heed/*.c)
TEST_OBJ = $(filter-out $(addprefix $(OBJ)/tests/,exp_sweep.o accuracy.o),$(call objects,tests/*.c))
FUZZ_OBJ = $(call objects,tests/fuzz/*.c tests/harness_random.c tests/harness_compare.c tests/stored.c)
# What reads files in examples/; in place of basics.o, tests/readers has its own.
READERS_OBJ = $(filter-out %/basics.o,$(call objects,examples/checkpoint/*.c examples/tokens/*.c examples/shared/table.c \
    examples/embed/wordpiece.c examples/generate/config.c examples/translate/task.c))
FUZZ_READERS_OBJ = $(call objects,tests/readers/*.c)
BENCH_OBJ = $(call objects,benchmarks/*.cc benchmarks/quiet.c $(patsubst %,benchmarks/limits_%.c,scalar $(ISAS-1)))
SHARED_OBJ = $(call objects,examples/checkpoint/*.c examples/shared/*.c)
EMBED_OBJ = $(call objects,examples/embed/*.c) $(SHARED_OBJ)
GENERATE_OBJ = $(call objects,examples/generate/*.c examples/tokens/*.c) $(SHARED_OBJ)
TRANSLATE_OBJ = $(call objects,examples/translate/*.c examples/translate/*.cc) $(SHARED_OBJ)
EXAMPLES = $(patsubst examples/%.c,$(B)/examples/%,$(call sources,examples/*.c))
CXX_EXAMPLES = $(if $(shell command -v $(firstword $(CXX))),$(patsubst examples/%.cc,$(B)/examples/%,$(call sources,examples/*.cc)))
INSTALLED = $(addprefix $(B)/,heed libheed.a libheed.so heed.pc heed-config.cmake heed-config-version.cmake)
VERSION := $(shell sed -n 's/^.define HEED_VERSION "\(.*\)"/\1/p' $(srcdir)/include/heed.h)
SONAME = libheed.so.0

# The arithmetic is what the source says: no contraction, no vectorisation of the scalar kernels behind their back.
INCLUDES = -I. -I$(srcdir)/include -I$(srcdir)/src -MMD -MP
MODE = $(OPTIMIZE) -ffp-contract=off -fno-math-errno -fvisibility=hidden -fPIC $(WARNINGS)
LIBS = $(SLEEF_LIBS) $(OPENMP) -lm
$(OBJ)/arch/scalar/scalar.o $(OBJ)/benchmarks/limits_scalar.o: ISA_FLAGS += -fno-tree-vectorize -fno-tree-slp-vectorize
$(OBJ)/src/schedule.o $(OBJ)/benchmarks/limits.o $(OBJ)/benchmarks/quiet.o: MODE += $(OPENMP)
$(LIB_OBJ) $(BENCH_OBJ): $(srcdir)/arch/$(ARCH)/arch.mak
$(LIB_OBJ): INCLUDES += $(SLEEF_CFLAGS)
$(LIB_OBJ) $(READERS_OBJ): CFLAGS += $(LIBRARY_CFLAGS)
# Kernels without -g: telling a debugger where their unrolled loops keep what would take half of the compiler's time.
$(filter $(OBJ)/arch/%,$(LIB_OBJ)): CFLAGS += -g0 $(KERNEL_CFLAGS)
$(filter $(OBJ)/arch/$(ARCH)/%,$(LIB_OBJ)): CFLAGS += $(SIMD_CFLAGS)
$(TEST_OBJ) $(FUZZ_OBJ) $(FUZZ_READERS_OBJ): OPTIMIZE := $(filter-out -DNDEBUG,$(OPTIMIZE))
$(TEST_OBJ) $(FUZZ_OBJ) $(FUZZ_READERS_OBJ): INCLUDES += -I$(srcdir)/tests -I$(srcdir)/examples/heed $(SLEEF_CFLAGS) $(CHECK_CFLAGS)
$(OBJ)/tests/exp_sweep.o: INCLUDES += $(SLEEF_CFLAGS)
$(EMBED_OBJ) $(GENERATE_OBJ) $(READERS_OBJ) $(FUZZ_READERS_OBJ): INCLUDES += $(EMBED_CFLAGS)
$(TRANSLATE_OBJ): INCLUDES += $(TRANSLATE_CFLAGS)
$(BENCH_OBJ): INCLUDES += $(SLEEF_CFLAGS) $(BENCHMARK_CFLAGS)

# Short lines; make V=1 shows the commands.
quiet = $(if $(V),,@printf '  %-7s %s\n' '$1' '$@';)

all: $(INSTALLED)

$(OBJ)/%.o: $(srcdir)/%.c config.h
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) -std=c11 $(MODE) $(INCLUDES) $(ISA_FLAGS) $(CFLAGS) -c -o $@ $<
$(OBJ)/%.o: $(srcdir)/%.cc config.h
	@mkdir -p $(@D)
	$(call quiet,CXX)$(CXX) -std=c++17 $(MODE) $(INCLUDES) $(CXXFLAGS) -c -o $@ $<
-include $(patsubst %.o,%.d,$(LIB_OBJ) $(REFERENCE_OBJ) $(TOOL_OBJ) $(EMBED_OBJ) $(GENERATE_OBJ) $(TRANSLATE_OBJ) $(TEST_OBJ) \
    $(FUZZ_OBJ) $(READERS_OBJ) $(FUZZ_READERS_OBJ) $(BENCH_OBJ) $(OBJ)/tests/exp_sweep.o $(OBJ)/tests/accuracy.o)

$(B)/libheed.a: $(LIB_OBJ)
$(OBJ)/reference.a: $(REFERENCE_OBJ)
$(OBJ)/tool.a: $(TOOL_OBJ)
%.a:
	@mkdir -p $(@D)
	$(call quiet,AR)rm -f $@ && $(AR) rcs $@ $^
$(B)/$(SONAME): $(LIB_OBJ) $(srcdir)/src/heed.map
	$(call quiet,LINK)$(CC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=$(srcdir)/src/heed.map -Wl,-z,defs $(CFLAGS) -o $@ \
	    $(LIB_OBJ) $(LDFLAGS) $(LIBS)
$(B)/libheed.so: $(B)/$(SONAME)
	@ln -sf $(SONAME) $@
$(B)/heed: $(OBJ)/tool.a $(B)/libheed.a
$(B)/tests/check: $(TEST_OBJ) $(OBJ)/tool.a $(OBJ)/reference.a $(B)/libheed.a
$(B)/tests/check: LIBS += $(CHECK_LIBS) -pthread
$(B)/tests/check-exp: $(OBJ)/tests/exp_sweep.o $(B)/libheed.a
$(B)/tests/check-exp: LIBS += -pthread
$(B)/tests/accuracy: $(addprefix $(OBJ)/,tests/accuracy.o tests/formats.o tests/stored.o reference.a) $(B)/libheed.a
$(B)/tests/check-fuzz: $(filter-out %/libfuzzer.o,$(FUZZ_OBJ)) $(OBJ)/reference.a $(B)/libheed.a
$(B)/tests/fuzz: $(filter-out %/main.o,$(FUZZ_OBJ)) $(OBJ)/reference.a $(B)/libheed.a
$(B)/tests/check-readers $(B)/tests/fuzz-readers: $(FUZZ_READERS_OBJ) $(READERS_OBJ) $(OBJ)/tests/harness_random.o
$(B)/tests/check-readers: $(OBJ)/tests/fuzz/main.o
$(B)/tests/fuzz-readers: $(OBJ)/tests/fuzz/libfuzzer.o
$(B)/tests/fuzz $(B)/tests/fuzz-readers: LIBS += -fsanitize=fuzzer
$(B)/tests/check-readers $(B)/tests/fuzz-readers: LIBS += $(EMBED_LIBS)
$(B)/tests/check-fuzz $(B)/tests/fuzz: LIBS += -pthread
$(EXAMPLES) $(CXX_EXAMPLES): $(B)/examples/%: $(OBJ)/examples/%.o $(B)/libheed.a
$(EXAMPLES): LIBS += -pthread
$(B)/embed: $(EMBED_OBJ) $(B)/libheed.a
$(B)/generate: $(GENERATE_OBJ) $(B)/libheed.a
$(B)/embed $(B)/generate: LIBS += $(EMBED_LIBS)
$(B)/heed $(B)/embed $(B)/generate $(addprefix $(B)/tests/,check check-exp check-fuzz fuzz check-readers fuzz-readers accuracy) $(EXAMPLES):
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CFLAGS) -o $@ $^ $(LDFLAGS) $(LIBS)
$(B)/translate: $(TRANSLATE_OBJ) $(B)/libheed.a
$(B)/translate: LIBS += $(TRANSLATE_LIBS)
$(B)/translate $(CXX_EXAMPLES):
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CXX) $(CXXFLAGS) -o $@ $^ $(LDFLAGS) $(LIBS)
$(B)/bench/heed-bench: $(BENCH_OBJ) $(OBJ)/reference.a $(B)/libheed.a
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CXX) $(CXXFLAGS) -o $@ $^ $(LDFLAGS) $(LIBS) $(BENCHMARK_LIBS) -pthread

demo: $(B)/heed $(if $(TRANSLATE_LIBS),$(B)/translate,no-translate)
	@$(EMULATOR) $(B)/heed demo
	@$(if $(TRANSLATE_LIBS),EMULATOR='$(EMULATOR)' $(srcdir)/examples/translate/demo.sh $(B)/translate $(srcdir)/tests/translate/model)
examples: $(EXAMPLES) $(CXX_EXAMPLES) $(if $(EMBED_LIBS),$(B)/embed $(B)/generate,no-embed) $(if $(TRANSLATE_LIBS),$(B)/translate,no-translate)
no-embed:
	@echo 'examples/embed and examples/generate: skipped, they need Jansson and utf8proc; "make deps" installs them'
no-translate:
	@echo 'examples/translate: skipped, it needs Jansson and SentencePiece (Debian: libjansson-dev, libsentencepiece-dev);' \
	    '"make deps" installs them'

define test_examples
@for example in $(EXAMPLES) $(CXX_EXAMPLES); do $(EMULATOR) $$example >/dev/null || { echo "$$example: failed"; exit 1; }; done
@$(if $(EMBED_LIBS),EMULATOR='$(EMULATOR)' $(srcdir)/tests/embed_test.sh $(B)/embed)
@$(if $(EMBED_LIBS),EMULATOR='$(EMULATOR)' $(srcdir)/tests/generate_test.sh $(B)/generate)
@$(if $(TRANSLATE_LIBS),EMULATOR='$(EMULATOR)' $(srcdir)/tests/translate_test.sh $(B)/translate)
endef
# check-tests and check-examples: what the other kinds of check run in builds of their own.
check: check-tests all examples
	@EMULATOR='$(EMULATOR)' $(srcdir)/tests/tool_test.sh $(B)/heed
	$(test_examples)
	@$(srcdir)/tests/check_symbols.sh $(srcdir) $(B)
	@$(if $(filter -O3,$(lastword $(filter -O%,$(OPTIMIZE) $(CFLAGS)))),$(srcdir)/tests/check_isa.sh $(B),\
	    echo 'check_isa: skipped, its loops are those of an optimised build')
	@CC='$(CC) $(CFLAGS)' LIBS='$(LDFLAGS) $(LIBS)' EMULATOR='$(EMULATOR)' $(srcdir)/tests/check_readme.sh $(srcdir) $(B)
# Waiting threads must not spin: the tests use more threads than there are CPUs.
check-tests check-examples check-old-x86 check-valgrind: export OMP_WAIT_POLICY = passive
check-tests: $(if $(CHECK_LIBS),$(B)/tests/check,no-check) $(B)/tests/check-fuzz $(if $(EMBED_LIBS),$(B)/tests/check-readers)
	@$(EMULATOR) $(B)/tests/check
	@$(EMULATOR) $(B)/tests/check-fuzz
	@$(if $(EMBED_LIBS),$(EMULATOR) $(B)/tests/check-readers)
check-examples: examples
	$(test_examples)
check-exp: $(B)/tests/check-exp
	$(EMULATOR) $(B)/tests/check-exp
accuracy: $(B)/tests/accuracy
	@$(EMULATOR) $(B)/tests/accuracy
no-check:
	@echo 'make check needs Check (Debian: check); "make deps" installs it' && false
no-bench:
	@echo 'make bench needs Google Benchmark (Debian: libbenchmark-dev); "make deps" installs it' && false

# other_build FOLDER,OPTIONS,GOALS
define other_build
@echo "== $1: configure $2"
@mkdir -p $(B)/$1
@cd $(B)/$1 && $(SOURCE)/configure $(if $(filter -Werror,$(WARNINGS)),--enable-werror) $2 >/dev/null
+@$(MAKE) --no-print-directory -C $(B)/$1 $3
endef
# HEED_TEST_REQUIRE is about this machine, not about the one that is emulated.
SLOW = HEED_TEST_QUICK=1 CK_FORK=no HEED_TEST_REQUIRE=
ARM = aarch64-linux-gnu
check-arm:
	$(call other_build,arm,--host=$(ARM) CC=$(ARM)-gcc CXX=$(ARM)-g++ AR=$(ARM)-ar,all examples)
	+@$(SLOW)neon $(MAKE) --no-print-directory -C $(B)/arm check-tests
check-old-x86: check-nehalem check-haswell
# What an older processor may do otherwise: choose, meet an instruction that it has not, and compute fma by a function.  The features
# taken from Haswell are the system's business, and qemu-user warns that it does not have them.
OLD_X86_SUITES = dispatch environment kernels bits api
HASWELL = Haswell-noTSX,-pcid,-x2apic,-tsc-deadline,-invpcid
define check_old_x86
@for suite in $(OLD_X86_SUITES); do \
    $(SLOW) CK_RUN_SUITE=$$suite HEED_TEST_EXPECT=$2 qemu-x86_64 -cpu $1 $(B)/tests/check || exit 1; done
endef
check-nehalem: $(B)/tests/check
	$(call check_old_x86,Nehalem,scalar)
check-haswell: $(B)/tests/check
	$(call check_old_x86,$(HASWELL),avx2)
# Always the same numbers: valgrind's fma gives a zero the wrong sign now and then.
check-valgrind: $(B)/tests/check
	$(SLOW) HEED_TEST_SEED=1 valgrind --quiet --error-exitcode=1 $<
ASAN = -fsanitize=address,undefined -fno-sanitize-recover=undefined
check-sanitize: check-asan check-tsan
# In unrolled loops sanitizers take minutes, and at -O2 more; the scalar kernels, from the same text, have all of them.
# What examples read lives as long as they do; and they end with 1 themselves, when they refuse a file.
check-asan:
	$(call other_build,asan,--enable-debug CFLAGS='-O2 $(ASAN)' LDFLAGS='$(ASAN)',\
	    KERNEL_CFLAGS=-O1 SIMD_CFLAGS='-fno-sanitize=undefined --param=asan-instrumentation-with-call-threshold=0' $(B)/tests/check)
	+@$(SLOW) $(MAKE) --no-print-directory -C $(B)/asan check-tests
	+@HEED_TEST_QUICK=1 ASAN_OPTIONS=detect_leaks=0:exitcode=99:allocator_may_return_null=1 $(MAKE) --no-print-directory -C $(B)/asan check-examples
check-tsan:
	$(call other_build,tsan,--enable-debug --without-openmp --isas=$(COMMON_ISA) CFLAGS='-O2 -fsanitize=thread' LDFLAGS=-fsanitize=thread,\
	    KERNEL_CFLAGS=-O1 $(B)/tests/check)
	+@$(SLOW) CK_RUN_SUITE=threads $(MAKE) --no-print-directory -C $(B)/tsan check-tests
# The corpus and the findings of a run are there in the next one.  Coverage is that of the library; kernels are built without
# -fsanitize=undefined, as clang would take minutes even for the scalar ones.  FUZZ_OPTIONS: configure's, --isas=avx2 say.
FUZZ_SECONDS = 600
FUZZ_OPTIONS =
FUZZERS = $(B)/fuzz/$(B)/tests
fuzz:
	$(call other_build,fuzz,$(FUZZ_OPTIONS) CC=clang CXX=clang++ --enable-debug CFLAGS='-O2 $(ASAN)' LDFLAGS='$(ASAN)',\
	    LIBRARY_CFLAGS=-fsanitize=fuzzer-no-link \
	    KERNEL_CFLAGS='-fno-sanitize=undefined -mllvm -asan-instrumentation-with-call-threshold=0' \
	    $(addprefix $(B)/tests/,fuzz check-fuzz $(if $(EMBED_LIBS),fuzz-readers check-readers)))
	@$(srcdir)/tests/fuzz/run.sh $(FUZZERS)/fuzz $(FUZZERS)/check-fuzz $(B)/fuzz $(FUZZ_SECONDS) 512
	@$(if $(EMBED_LIBS),$(srcdir)/tests/fuzz/run.sh $(FUZZERS)/fuzz-readers $(FUZZERS)/check-readers $(B)/fuzz/readers \
	    $$(($(FUZZ_SECONDS) / 5)) 8192)
check-clang:
	$(call other_build,clang,CC=clang CXX=clang++,all check-tests)
check-without-openmp:
	$(call other_build,serial,--without-openmp --isas=$(COMMON_ISA),all check-tests)
	@$(srcdir)/tests/check_symbols.sh $(srcdir) $(B)/serial/$(B) without-openmp

BENCH = $(if $(BENCHMARK_LIBS),$(B)/bench/heed-bench,no-bench)
bench: $(BENCH)
	$(EMULATOR) $< $(BENCH_FLAGS)
bench-short: BENCH_FLAGS = --short
bench-short: bench
ifneq ($(filter bench-peers,$(MAKECMDGOALS)),)
include $(srcdir)/benchmarks/peers/peers.mak
endif
# The inner loops as llvm-mca sees them; STATIC_FLAGS=--record after a change for the better.
bench-static: $(filter $(OBJ)/arch/%,$(LIB_OBJ))
	$(if $(filter x86,$(ARCH)),$(if $(shell command -v $(ARM)-gcc),$(call other_build,arm,--host=$(ARM) CC=$(ARM)-gcc CXX=$(ARM)-g++ \
	    AR=$(ARM)-ar,$(OBJ)/arch/arm/neon.o $(OBJ)/arch/arm/dotprod.o),\
	    @echo 'bench-static: no NEON without $(ARM)-gcc; "make deps-ci" installs it'))
	@python3 -B $(srcdir)/benchmarks/static/bench_static.py $(STATIC_FLAGS) $(OBJ) $(B)/arm/$(OBJ)

# Templates of what other build systems read about the installed library; written anew each time because PREFIX may be given late.
$(B)/heed.pc $(B)/heed-config.cmake $(B)/heed-config-version.cmake: $(B)/%: $(srcdir)/install/%.in FORCE
	@mkdir -p $(@D)
	@sed -e 's|@prefix@|$(PREFIX)|' -e 's|@libdir@|$(libdir)|' -e 's|@includedir@|$(includedir)|' -e 's|@version@|$(VERSION)|' \
	    -e 's|@include_from_lib@|$(shell realpath -m --relative-to=$(libdir) $(includedir))|' \
	    -e 's|@sleef@|$(SLEEF_LIBS)|' -e 's|@openmp@|$(OPENMP)|' $< >$@
put = install -D -m $1 $2 $(DESTDIR)$3/$(notdir $2)
install: all
	$(call put,644,$(srcdir)/include/heed.h,$(includedir))
	$(call put,644,$(B)/libheed.a,$(libdir))
	$(call put,755,$(B)/$(SONAME),$(libdir))
	ln -sf $(SONAME) $(DESTDIR)$(libdir)/libheed.so
	$(call put,644,$(B)/heed.pc,$(libdir)/pkgconfig)
	$(call put,644,$(B)/heed-config.cmake,$(libdir)/cmake/heed)
	$(call put,644,$(B)/heed-config-version.cmake,$(libdir)/cmake/heed)
	$(call put,755,$(B)/heed,$(bindir))
	$(call put,644,$(srcdir)/examples/heed/heed.1,$(mandir)/man1)
	$(call put,644,$(srcdir)/LICENSE,$(docdir))
check-install: all
	+@CC='$(CC)' CXX='$(CXX)' LIBS='$(LIBS)' EMULATOR='$(EMULATOR)' $(srcdir)/tests/check_install.sh $(srcdir) $(B)
# The recorded interface is x86-64's.  Before record-abi, or in a review of tests/abi.xml, check-abi says in words what has changed.
check-abi: $(B)/libheed.so
	$(if $(filter x86,$(ARCH)),abidiff --no-added-syms $(srcdir)/tests/abi.xml $<,@echo 'check-abi: the recorded interface is not of $(ARCH)')
record-abi: $(B)/libheed.so
	abidw --exported-interfaces-only --no-corpus-path --no-comp-dir-path --no-show-locs --drop-undefined-syms --no-elf-needed \
	    --no-write-default-sizes --no-parameter-names $< | sed "s|path='.*/src/|path='src/|" >$(srcdir)/tests/abi.xml
# What is committed, to be built where there is no git, which check-dist tries.
DIST = heed-$(VERSION)
dist:
	@mkdir -p $(B)
	git -C $(SOURCE) archive --prefix=$(DIST)/ -o $(abspath $(B)/$(DIST).tar.gz) HEAD
check-dist: dist
	rm -rf $(B)/$(DIST)
	tar -xzf $(B)/$(DIST).tar.gz -C $(B)
	cd $(B)/$(DIST) && ./configure $(if $(filter -Werror,$(WARNINGS)),--enable-werror) >/dev/null
	+@$(MAKE) --no-print-directory -C $(B)/$(DIST) check-without-openmp
uninstall:
	rm -f $(addprefix $(DESTDIR)$(libdir)/,libheed.a libheed.so $(SONAME) pkgconfig/heed.pc) \
	    $(DESTDIR)$(includedir)/heed.h $(DESTDIR)$(bindir)/heed $(DESTDIR)$(mandir)/man1/heed.1 $(DESTDIR)$(docdir)/LICENSE
	rm -rf $(DESTDIR)$(libdir)/cmake/heed

CODE = include src src/* arch/* tests tests/fuzz tests/readers benchmarks benchmarks/peers examples examples/*
FORMATTED = $(wildcard $(foreach folder,$(CODE),$(addprefix $(srcdir)/$(folder)/,*.c *.h *.cc)))
format:
	clang-format -i $(FORMATTED)
check-format:
	clang-format --dry-run -Werror $(FORMATTED)

.PHONY: FORCE demo examples no-embed no-translate bench bench-short bench-static no-bench install uninstall format check-format check \
    check-tests check-examples accuracy no-check check-exp check-arm check-old-x86 check-nehalem check-haswell check-valgrind \
    check-sanitize check-asan check-tsan check-clang check-without-openmp check-install check-abi record-abi dist check-dist fuzz
endif
