# One verb a stage; ./configure writes config.mk and walks probe, tune, decide, emit.
SOURCE := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
ifneq ($(filter-out clean distclean,$(or $(MAKECMDGOALS),all)),)
-include config.mk
endif
CC_FLAGS = -std=c11 -O2 -fPIC -Wall -Wextra -Wpedantic $(CFLAGS)
RUN = PYTHONPATH=$(SOURCE) $(PYTHON) -m search
Q = $(if $(V),,@)
export V

all: build/alltoall.o

build/alltoall.o: generated/alltoall.c
	$(Q)$(MPICC) $(CC_FLAGS) -c $< -o $@

# In a clone where configure never ran make calls it for the tools; the file is then untuned.
config.mk:
	$(Q)$(SOURCE)/configure --no-create

generated/alltoall.c:
	$(Q)$(RUN) emit

probe tune decide emit verify report:
	$(Q)$(RUN) $@

# Of MPI_Alltoall, or of COLLECTIVE; what is not tuned is measured at SIZES=8K,64K.
list:
	$(Q)$(RUN) $@ $(if $(COLLECTIVE),--collective='$(COLLECTIVE)')

model:
	$(Q)$(RUN) $@ $(if $(COLLECTIVE),--collective='$(COLLECTIVE)') $(if $(SIZES),--sizes='$(SIZES)')

# With COMPETITORS=1 also against each of the library's own algorithms, with COLD=1 also after
# idleness; SIZES=8K,64K for those only; LAUNCHES=5 of the job; EFFORT=quick|normal|thorough.
bench:
	$(Q)$(RUN) bench $(if $(COMPETITORS),--competitors) $(if $(COLD),--cold) \
	  $(if $(SIZES),--sizes='$(SIZES)') $(if $(LAUNCHES),--launches='$(LAUNCHES)') \
	  $(if $(EFFORT),--effort='$(EFFORT)')

# README's and doc/results.md's: every cluster of doc/clusters tuned and benched, or CLUSTERS='...'.
figures:
	$(Q)$(RUN) $@ $(CLUSTERS)

# One exchange of BLOCK bytes to each peer as a picture; of the chosen variant, or of VARIANT.
timeline:
	$(Q)$(RUN) timeline $(if $(BLOCK),--block='$(BLOCK)') $(if $(VARIANT),--variant='$(VARIANT)')

# Below DESTDIR, if it is set.
install uninstall installcheck: config.mk
	$(Q)$(RUN) $@ --prefix='$(PREFIX)' --destdir='$(DESTDIR)'

dist:
	$(Q)git -C $(SOURCE) archive --prefix=atall-$(VERSION)/ -o $(CURDIR)/atall-$(VERSION).tar.gz HEAD

# Linters and tests; with -full every variant on every number of ranks, with -oracle the proof by
# mutation that what is wrong is found, with -cluster what real sshd's and Slurm are there for.
check check-full check-oracle check-cluster:
	$(Q)$(SOURCE)/configure --no-create --quiet --with-check-tools \
	  MPICC='$(MPICC)' MPIEXEC='$(MPIEXEC)' CFLAGS='$(CFLAGS)' --prefix='$(PREFIX)'
	$(Q)$(MAKE) --no-print-directory run-$@

TESTS = ATALL_CONFIG=$(CURDIR)/config.mk $(PYTHON) -m pytest $(SOURCE)/tests -c $(SOURCE)/pyproject.toml
# Files of tests side by side; one waits while another works.
SIDE_BY_SIDE = -n 2 --dist loadfile

run-check:
	$(Q)cd $(SOURCE) && $(PYTHON) -m ruff check -q search tests && $(PYTHON) -m ruff format -q --check search tests && $(PYTHON) -m mypy
	$(Q)$(TESTS) $(SIDE_BY_SIDE) --hypothesis-profile=fixed -m 'not full and not oracle and not cluster'

run-check-full:
	$(Q)$(TESTS) -m full
	$(Q)$(TESTS) -k random

run-check-oracle:
	$(Q)$(TESTS) -m oracle

run-check-cluster:
	$(Q)$(TESTS) -m cluster

# After a wanted change of a template; then read the difference.
golden:
	$(Q)cd $(SOURCE) && $(PYTHON) -c 'from tests.golden import write; write()'

clean:
	rm -rf build/alltoall.o build/measure build/bench build/record build/catalogue.c build/alltoall.h build/libblocking.so

distclean: clean
	rm -rf build config.mk config.log config.status generated/alltoall.c generated/alltoall.h generated/decision.toml .venv

.PHONY: all check check-full check-oracle check-cluster run-check run-check-full run-check-oracle run-check-cluster golden figures install uninstall installcheck dist probe tune decide emit bench verify report timeline model list clean distclean
