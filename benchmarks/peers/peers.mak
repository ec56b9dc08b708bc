# make bench-peers: heed beside the libraries that are found here and now.  Read for that goal alone: neither configure nor any other
# goal knows of them.
#
#   OPENBLAS_DIR, ONEDNN_DIR, GGML_DIR   where one is installed, if not where the compiler looks
#   PEERS_PYTHON                         an interpreter that has torch, or onnxruntime and onnx; for whole models more, as it says
#   PEER_THREADS, PEERS_SHORT            numbers of threads; anything: runs in seconds, figures worth little
#   BENCH_FILTER                         a regex of names, group, shape and threads, as in 'gemm packed/512x.*threads:1'
PEERS_PYTHON ?= python3
PEER_THREADS ?= 1 2
P = $(B)/bench/peers

HASH := \#
# probe PROGRAM,HEADER,NAME,FOLDER: PROGRAM, if the header is there and has that name
probe = $(shell printf '%s\n' '$(HASH)include <$2>' 'using probe = decltype($3);' | \
    $(CXX) -std=c++17 -fsyntax-only -x c++ $(4:%=-isystem %/include) - 2>/dev/null && echo $1)
PEERS := $(call probe,openblas,cblas.h,openblas_get_config,$(OPENBLAS_DIR)) \
    $(call probe,onednn,dnnl.hpp,dnnl_version,$(ONEDNN_DIR)) \
    $(call probe,onednn_graph,oneapi/dnnl/dnnl_graph.hpp,dnnl::graph::op::kind::GenIndex,$(ONEDNN_DIR)) \
    $(call probe,ggml,ggml-cpu.h,ggml_graph_compute,$(GGML_DIR))

peer_objects = $(1:%=$(OBJ)/benchmarks/peers/%.o)
RACE_OBJ = $(call peer_objects,shapes works race) $(OBJ)/benchmarks/quiet.o
PEER_OBJ = $(RACE_OBJ) $(call peer_objects,python $(PEERS))
# Another folder than last time: the programs are made anew.
$(P)/folders: FORCE
	@mkdir -p $(@D)
	@echo '$(OPENBLAS_DIR) $(ONEDNN_DIR) $(GGML_DIR)' | cmp -s - $@ || echo '$(OPENBLAS_DIR) $(ONEDNN_DIR) $(GGML_DIR)' >$@
$(call peer_objects,$(PEERS)): $(P)/folders
$(PEER_OBJ): INCLUDES += $(DIR:%=-isystem %/include)
$(call peer_objects,openblas) $(P)/openblas: DIR = $(OPENBLAS_DIR)
$(call peer_objects,onednn onednn_graph) $(P)/onednn $(P)/onednn_graph: DIR = $(ONEDNN_DIR)
$(call peer_objects,ggml) $(P)/ggml: DIR = $(GGML_DIR)
$(P)/openblas: PEER_LIBS = -lopenblas
$(P)/onednn $(P)/onednn_graph: PEER_LIBS = -ldnnl
$(P)/ggml: PEER_LIBS = -lggml -lggml-cpu -lggml-base
-include $(PEER_OBJ:.o=.d)

$(P)/libpeers.so: $(call peer_objects,python)
$(P)/libpeers.so: LDFLAGS += -shared
$(addprefix $(P)/,$(PEERS)): $(P)/%: $(OBJ)/benchmarks/peers/%.o
$(addprefix $(P)/,$(PEERS) libpeers.so): $(RACE_OBJ) $(OBJ)/reference.a $(B)/libheed.a
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CXX) $(CXXFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDFLAGS) \
	    $(DIR:%=-L%/lib) $(DIR:%=-Wl,--disable-new-dtags,-rpath,%/lib) $(PEER_LIBS) $(LIBS)

# The models of examples, for races of whole models.
MODEL_OBJ = $(call peer_objects,embed_library generate_library translate_library)
$(MODEL_OBJ): INCLUDES += -I$(srcdir)/examples $(EMBED_CFLAGS) $(TRANSLATE_CFLAGS)
-include $(MODEL_OBJ:.o=.d)
$(P)/libembed.so: $(OBJ)/benchmarks/peers/embed_library.o $(OBJ)/benchmarks/quiet.o $(filter-out %/main.o,$(EMBED_OBJ)) $(B)/libheed.a
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) -shared $(CFLAGS) -o $@ $^ $(LDFLAGS) $(LIBS) $(EMBED_LIBS)
$(P)/libgenerate.so: $(OBJ)/benchmarks/peers/generate_library.o $(OBJ)/benchmarks/quiet.o $(filter-out %/main.o,$(GENERATE_OBJ)) $(B)/libheed.a
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) -shared $(CFLAGS) -o $@ $^ $(LDFLAGS) $(LIBS) $(EMBED_LIBS)
$(P)/libtranslate.so: $(OBJ)/benchmarks/peers/translate_library.o $(OBJ)/benchmarks/quiet.o $(filter-out %/main.o,$(TRANSLATE_OBJ)) $(B)/libheed.a
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CXX) -shared $(CXXFLAGS) -o $@ $^ $(LDFLAGS) $(LIBS) $(TRANSLATE_LIBS)

bench-peers: $(addprefix $(P)/,$(PEERS) libpeers.so) $(if $(EMBED_LIBS),$(P)/libembed.so $(B)/embed $(P)/libgenerate.so) \
    $(if $(TRANSLATE_LIBS),$(P)/libtranslate.so $(B)/translate)
	@PEERS_PYTHON='$(PEERS_PYTHON)' PEER_THREADS='$(PEER_THREADS)' BENCH_FILTER='$(BENCH_FILTER)' \
	    $(srcdir)/benchmarks/peers/run.sh $(B) '$(PEERS)' $(if $(PEERS_SHORT),--short) $(BENCH_FLAGS)
.PHONY: bench-peers
