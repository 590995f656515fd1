# Palyra. `make` alone prints what there is to do; the text after `##` is the help.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-builtin-rules

GO       ?= go
# Vet, lint and every build leave the path of the checkout out of what they compile, so that
# the build cache serves all checkouts, a fresh clone included.
export GOFLAGS := $(GOFLAGS) -buildvcs=false -trimpath
# A build takes nothing from the machine, its clock or its directory: the same
# commit and toolchain give the same bytes (make check-reproducible). A copy without
# git is told VERSION, COMMIT and COMMIT_DATE, or SOURCE_DATE_EPOCH for the last.
# The abbreviation is as long everywhere, however many objects a clone has.
VERSION  ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo dev)
# Not recorded by Go (-buildvcs=false): that depends on what .git is, and does nothing
# in a git worktree.
COMMIT   ?= $(shell git rev-parse HEAD 2>/dev/null)
COMMIT_DATE ?= $(if $(SOURCE_DATE_EPOCH),$(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r $(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ),$(GIT_DATE))
GIT_DATE  = $(shell TZ=UTC git show -s --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ HEAD 2>/dev/null)
# A release records who built it and the digest of its SBOM (sha256:HEX); an ordinary build does not.
BUILDER  ?=
SBOM     ?=
TOOLS    := $(CURDIR)/.tools
# deps-node installs the pinned Node and npm there; recipes that run either begin with this.
NODE      = PATH="$(TOOLS)/node/bin:$$PATH"
INITBIN  := internal/exec/sandbox/jail/initbin/palyra-init
# palyrad embeds the sandbox helper only under this tag, so that a plain
# `go build ./...` needs nothing built before it.
TAGS     := palyrainit
# palyrad embeds the console under this one. `make build WEB=` leaves it out.
WEB      ?= yes
COMMA    := ,
# Where the programs go, and the end of their names.
OUT      ?= bin
EXE       = $(if $(filter windows,$(GOOS)),.exe)
CROSS_CC ?=
BUILDTAGS = $(TAGS)$(if $(WEB),$(COMMA)palyraweb)
LDFLAGS  := -s -w -X palyra/internal/core/version.stamp=$(VERSION) -X palyra/internal/core/version.commit=$(COMMIT) -X palyra/internal/core/version.date=$(COMMIT_DATE) -X 'palyra/internal/core/version.builder=$(BUILDER)' -X palyra/internal/core/version.sbom=$(SBOM)
GOBUILD  := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false
FUZZTIME ?= 10s
TIME     ?= 30s
SEED     ?=
RUN      ?=
REPORT   ?=
COUNT    ?= 0
BASE     ?=
BUDGET   ?= 75m
ELAPSED  ?= 0s
ATTACKS  ?=
AGENTS   ?=
# The attack tests leave their matrix here, for go test hides what a passing
# test prints.
MATRIX   := $(CURDIR)/bin/attack-matrix.txt
BENCH    ?= .
BENCHTIME ?= 1s
BENCHFLAGS ?=
PKG      ?= ./...
# The newest release that the suite has a state directory of.
FROM     ?= 06503a469f9c
EVENTS   ?= 100000
# Where `make install` puts what it finds in BUILT.
PREFIX   ?= /usr/local
DESTDIR  ?=
BUILT    ?= bin

.PHONY: help
help: ## Print this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z-]*:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Man pages come from the programs, which do not run here when they are built for another system.
.PHONY: build
build: deps-worker init $(if $(WEB),web,web-absent) ## Install what is missing, then build bin/palyrad with the console (WEB= leaves it out), bin/palyra and bin/palyra-hook (static, no cgo), man pages and completions
	@$(MAKE) --no-print-directory programs worker
	@if [[ $$($(GO) env GOOS GOARCH) == "$$($(GO) env GOHOSTOS GOHOSTARCH)" ]]; then scripts/pages.sh bin; fi

# The static programs, from what `make init web` made.
.PHONY: programs
programs:
	$(GOBUILD) -tags $(BUILDTAGS) -ldflags "$(LDFLAGS)" -o $(OUT)/palyrad$(EXE) ./cmd/palyrad
	$(GOBUILD) -ldflags "$(LDFLAGS)" -o $(OUT)/palyra$(EXE) ./cmd/palyra
	$(GOBUILD) -ldflags "-s -w" -o $(OUT)/palyra-hook$(EXE) ./cmd/palyra-hook

# The engine in it needs cgo. For another architecture it takes a compiler for
# that one in CROSS_CC.
.PHONY: worker
worker: deps-worker ## Build bin/palyra-wasm, which runs WebAssembly guests on Linux (needs gcc)
	@if [[ $$($(GO) env GOOS) == linux && ( -n "$(CROSS_CC)" || $$($(GO) env GOARCH) == $$($(GO) env GOHOSTARCH) ) ]] && command -v "$(or $(CROSS_CC),gcc)" >/dev/null; then \
	  CC="$(or $(CROSS_CC),gcc)" CGO_ENABLED=1 $(GO) build -trimpath -buildvcs=false -ldflags "-s -w" -o $(OUT)/palyra-wasm ./cmd/palyra-wasm; \
	else echo "palyra-wasm is not built: it needs gcc on Linux; without it WebAssembly guests cannot run (Tier A is unavailable)" >&2; fi

.PHONY: web
web: deps-web ## Build the console that palyrad embeds, from web/
	$(NODE) scripts/web.sh

.PHONY: web-absent
web-absent:
	@echo "palyrad is built without its console (WEB is empty): a page in its place explains how to build it; \`make build\` builds palyrad with it" >&2

# The helper runs inside a Linux sandbox, whatever machine builds it. palyrad carries it.
.PHONY: init
init:
	@mkdir -p bin $(dir $(INITBIN))
	GOOS=linux $(GOBUILD) -ldflags "-s -w" -o bin/palyra-init ./cmd/palyra-init
	cp bin/palyra-init $(INITBIN)

# It depends on nothing, so that `sudo make install` runs no compiler.
.PHONY: install
install: ## Install what `make build` built (PREFIX=/usr/local, DESTDIR): programs, man pages, completions, systemd units
	PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh '$(BUILT)'

# Signed by the keys in KEYS, which are made for tests if the folder does not exist. SIGN_WITH
# is a command that signs in the place of the private keys.
KEYS      ?= bin/packages-keys
SIGN_WITH ?=
URL       ?=
.PHONY: packages
packages: deps-packages web ## Make packages, archives, images, SBOM, digests, signatures and provenance of the commit in bin/packages (KEYS=folder, SIGN_WITH=command, URL=where they will be)
	VERSION='$(VERSION)' COMMIT='$(COMMIT)' COMMIT_DATE='$(COMMIT_DATE)' BUILDER='$(BUILDER)' GO='$(GO)' KEYS='$(KEYS)' SIGN_WITH='$(SIGN_WITH)' URL='$(URL)' MAKE='$(MAKE)' scripts/packages.sh

# By the environment: release.sh examines the version, which a shell must not read before it.
.PHONY: release
release: export RELEASE = $(if $(filter file,$(origin VERSION)),,$(VERSION))
release: deps-packages ## Make the signed artifacts of a tag in a clean clone and list them; nothing is uploaded (VERSION=1.2.3, KEYS=folder, SIGN_WITH=command, BUILDER=name, URL=where they will be)
	BUILDER='$(BUILDER)' GO='$(GO)' KEYS='$(if $(filter file,$(origin KEYS)),,$(KEYS))' SIGN_WITH='$(SIGN_WITH)' URL='$(URL)' MAKE='$(MAKE)' scripts/release.sh

.PHONY: debian-lock
debian-lock: ## Pin the newest Debian packages for the image with sandbox in packaging/linux/debian.lock
	cd packaging && $(GO) run ./pack debian -root ..

.PHONY: deps-packages
deps-packages: deps-worker
	scripts/deps.sh aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu /usr/aarch64-linux-gnu/include/stdio.h=libc6-dev-arm64-cross xz=xz-utils

.PHONY: demo
demo: deps-demo build ## Install what is missing, build, and drive real calls from proposal to attestation (DEMO_APPROVE=allow|deny)
	scripts/demo.sh

.PHONY: examples
examples: ## Build the example skills into bin/skills
	@mkdir -p bin/skills
	$(GOBUILD) -ldflags "$(LDFLAGS)" -o bin/palyra ./cmd/palyra
	for skill in $(patsubst %/skill.toml,%,$(wildcard examples/skills/*/skill.toml)); do \
	  bin/palyra skills build "$$skill" --out "bin/skills/$$(basename "$$skill").palyra-skill" || exit 1; done

# The runner of the tests: bin/tiers --help prints what it can do.
.PHONY: bin/tiers
bin/tiers: init
	@CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags "-s -w" -o bin/tiers ./test/tiers

TESTFLAGS = -go '$(GO)' -run '$(RUN)' -report '$(REPORT)' -count $(COUNT)

.PHONY: t
t: bin/tiers ## Test the packages that differ from origin/main (BASE=commit), and their importers, in a minute
	exec bin/tiers changed $(TESTFLAGS) -base '$(BASE)'

.PHONY: quick
quick: bin/tiers ## Run every test that needs no root, network, browser or foreign program, in three minutes
	exec bin/tiers quick $(TESTFLAGS) -pkg '$(PKG)'

.PHONY: test
test: bin/tiers ## Install what is missing and run the tests that a change has to pass (PKG=, RUN=regexp, COUNT=1, REPORT=dir)
	exec bin/tiers test $(TESTFLAGS) -pkg '$(PKG)' -base '$(BASE)'

.PHONY: test-all
test-all: bin/tiers ## Run those and the long tiers; bin/tiers list names them
	exec bin/tiers all $(TESTFLAGS)

.PHONY: test-rotating
test-rotating: bin/tiers ## Run the long tiers whose turn it is at this commit, then others while BUDGET lasts (ELAPSED of it is spent)
	exec bin/tiers rotate $(TESTFLAGS) -budget '$(BUDGET)' -elapsed '$(ELAPSED)'

.PHONY: flaky
flaky: bin/tiers test-programs $(if $(filter browser,$(PKG)),deps-browser) ## Run the packages PKG, or the browser tier (PKG=browser), 50 times (COUNT=) while every processor is busy, and print what failed
	exec bin/tiers flaky $(TESTFLAGS) -pkg '$(PKG)'

# The programs under test, linked once for all tiers.
.PHONY: test-programs
test-programs: build
	@mkdir -p bin/test
	$(GOBUILD) -ldflags "-s -w" -o bin/test/palyrad-without-helper ./cmd/palyrad

.PHONY: test-web
test-web: deps-web ## Run the console's own tests (SPEC=src/text for some)
	$(NODE) npm --prefix web run --silent test -- $(SPEC)

# OLD is a folder with the packages of an earlier version to upgrade from.
OLD       ?=
.PHONY: check-packages
check-packages: ## Install, run, upgrade and remove the packages in bin/packages in systems of their own, and try make release; needs root (OLD=folder with an earlier version, RUN=regexp)
	GO='$(GO)' scripts/cosign.sh
	RUN='$(RUN)' GO='$(GO)' scripts/check-packages.sh bin/packages $(OLD)
	$(if $(RUN),,GO='$(GO)' scripts/check-release.sh)

# The module of the packaging tools is not part of ./...; its package checks tries built packages.
.PHONY: test-packaging
test-packaging: ## Run the tests of the packaging tools
	cd packaging && $(GO) test $$($(GO) list ./... | grep -v /checks)

.PHONY: test-browser
test-browser: deps-browser build ## Drive the console in Chromium against a real palyrad (SPEC=approvals for some)
	$(NODE) npm --prefix web run --silent test:browser -- $(SPEC)

.PHONY: console-picture
console-picture: deps-browser build ## Take README's picture of the console, docs/console.png, from the running product
	$(NODE) npm --prefix web run --silent picture

# No part of .ci/run: it takes 24 minutes for each user. It runs before an issue is closed. The script reads SUITE,
# FRESH and AS from its environment.
.PHONY: test-fresh
test-fresh: ## Run make demo and make test on a minimal Debian as root and as a user who may sudo; needs root (SUITE=trixie, FRESH='other command', AS=root|user)
	GO="$(GO)" scripts/fresh-machine.sh

.PHONY: attack
attack: bin/tiers ## Try every attack of the catalogue and print the matrix (ATTACKS=regexp for some)
	@rm -f $(MATRIX)
	@bin/tiers run -go '$(GO)' -run '$(ATTACKS)' -count 1 attack-matrix; code=$$?; if [[ -f $(MATRIX) ]]; then cat $(MATRIX); fi; exit $$code

# No part of `make test`: the agents are hundreds of megabytes. They are kept in .tools.
.PHONY: agents
agents: deps-agents build ## Run Claude Code and Codex under their hooks, fault by fault, and print the table (AGENTS=regexp for some; RUNAS=uid as another user)
	$(NODE) scripts/npm.sh test/agents $(TOOLS)/agents
	TEST_PALYRA_AGENTS=$(TOOLS)/agents GO="$(GO)" RUNAS="$(RUNAS)" scripts/apart.sh test/agents '$(AGENTS)'

.PHONY: conformance
conformance: deps-agents build ## Run the official conformance suite of MCP directly and through the gateway, and print both tables
	$(NODE) scripts/npm.sh test/conformance/stable $(TOOLS)/conformance/stable
	$(NODE) scripts/npm.sh test/conformance/alpha $(TOOLS)/conformance/alpha
	TEST_PALYRA_CONFORMANCE=$(TOOLS)/conformance GO="$(GO)" scripts/apart.sh test/conformance

.PHONY: check
check: check-format check-vet check-lint check-web check-arch check-english check-generated check-breaking check-licences check-workflows check-cross ## Everything that is not a test: format, vet, lint, import rules, English, generated code, API breaks, cross builds

.PHONY: check-format
check-format: tools ## Fail when gofmt or buf format would change a file
	scripts/check-format.sh
	if [[ -f buf.yaml ]]; then $(TOOLS)/buf format --diff --exit-code || { echo "buf format -w would change a proto" >&2; exit 1; }; fi

.PHONY: check-vet
check-vet: ## Run go vet, with and without the embedded helper
	$(GO) vet ./...
	if [[ -f $(INITBIN) ]]; then $(GO) vet -tags $(TAGS) ./...; fi
	cd packaging && $(GO) vet ./...

.PHONY: check-lint
check-lint: tools ## Run golangci-lint and buf lint
	$(TOOLS)/golangci-lint run --allow-serial-runners ./...
	cd packaging && $(TOOLS)/golangci-lint run --allow-serial-runners ./...
	if [[ -f buf.yaml ]]; then $(TOOLS)/buf lint; fi

.PHONY: check-web
check-web: deps-web ## Check the types of the console and lint it
	$(NODE) npm --prefix web run --silent check

.PHONY: check-arch
check-arch: ## Run the import rules alone
	$(GO) test ./internal/archtest

.PHONY: check-english
check-english: ## Fail when phrases that make English hard to read become more frequent
	$(GO) run ./scripts/plainenglish

.PHONY: check-generated
check-generated: tools deps-web ## Fail when generated code or a reference page is not current
	GO="$(GO)" PATH="$(TOOLS):$(TOOLS)/node/bin:$$PATH" scripts/check-generated.sh

.PHONY: check-breaking
check-breaking: tools ## Fail when the protos break what the newest release promised
	PATH="$(TOOLS):$$PATH" scripts/check-breaking.sh

# The tags of palyrad embed the helper and the console, so that go list needs both.
.PHONY: check-licences
check-licences: init web ## Fail when a linked module or npm package has a licence that is not allowed, or THIRD-PARTY-NOTICES is not current
	cd packaging && GO='$(GO)' $(GO) run ./notices -check

.PHONY: notices
notices: init web ## Write THIRD-PARTY-NOTICES, the licences of everything that the programs contain
	cd packaging && GO='$(GO)' $(GO) run ./notices

.PHONY: check-workflows
check-workflows: tools ## Lint .github/workflows with actionlint
	$(TOOLS)/actionlint -shellcheck= -pyflakes= .github/workflows/*.yml

.PHONY: check-cross
check-cross: ## Build both programs for linux, darwin and windows on amd64 and arm64
	GO="$(GO)" scripts/check-cross.sh

.PHONY: check-reproducible
check-reproducible: packages ## Make the packages of a copy elsewhere, without git, and fail when any is not the same bytes (FRESH=1 compiles all of it again)
	VERSION='$(VERSION)' COMMIT='$(COMMIT)' COMMIT_DATE='$(COMMIT_DATE)' BUILDER='$(BUILDER)' URL='$(URL)' KEYS='$(KEYS)' GO='$(GO)' FRESH='$(FRESH)' scripts/check-reproducible.sh

.PHONY: vuln
vuln: ## Look for known vulnerabilities in what is reachable (needs the network)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

.PHONY: generate
generate: tools deps-web ## Generate Go and TypeScript from the protos, and the reference pages
	PATH="$(TOOLS):$(TOOLS)/node/bin:$$PATH" buf generate
	$(GO) run ./scripts/reference

.PHONY: tools
tools: $(TOOLS)/stamp ## Install the pinned tools of scripts/tools.txt into .tools

$(TOOLS)/stamp: scripts/tools.txt scripts/tools.sh
	GO="$(GO)" scripts/tools.sh $(TOOLS)
	@touch $@

.PHONY: bench
bench: deps-bench bin/bench ## Install what is missing and measure the performance goals, floor and product side by side (BENCHFLAGS="-run 7 -rounds 9", see docs/performance.md)
	$(NODE) bin/bench $(BENCHFLAGS)

.PHONY: profile
profile: deps-demo bin/bench ## Profile a daemon under a load of governed calls into bin/profile/ and print what takes most
	bin/bench -profile bin/profile

.PHONY: replay-day
replay-day: deps-demo bin/bench ## Replay the 300 calls of an agent's working day: questions, refusals, times (BENCHFLAGS="-palyrad FILE" for another build)
	bin/bench -day $(BENCHFLAGS)

# Always built anew: what is measured is what is there now.
.PHONY: bin/bench
bin/bench: build
	CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -o bin/bench ./test/bench

.PHONY: microbench
microbench: ## Run the benchmarks of packages (BENCH=regexp, BENCHTIME=1s, PKG=./...)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -p 1 $(PKG)

.PHONY: fuzz
fuzz: bin/tiers ## Run each fuzz target for FUZZTIME (10s)
	exec bin/tiers fuzz -go '$(GO)' -each '$(FUZZTIME)'

# Inside its folder, go test prints what a passing test prints: the tables. The
# control and the judge's own test run first.
.PHONY: fuzz-facts
fuzz-facts: deps-sandbox init ## Change the workspace between every two stages of calls of every tool (TIME=30s, SEED=n repeats a run)
	cd test/facts && TEST_PALYRA_FACTS_TIME=$(TIME) TEST_PALYRA_FACTS_SEED=$(SEED) $(GO) test -tags $(TAGS) -timeout 0 -count=1

.PHONY: fuzz-canary
fuzz-canary: deps-sandbox init ## Ask a gateway that forbids files for them in every way, and look at every byte of its answers (TIME=30s, SEED=n repeats a run)
	TEST_PALYRA_CANARY_TIME=$(TIME) TEST_PALYRA_CANARY_SEED=$(SEED) CGO_ENABLED=0 $(GO) test -tags $(TAGS) -timeout 0 -count=1 -run '^TestCanary$$' ./internal/gateway

# No part of `make test`: it builds an older release, and takes minutes. The suite has
# smaller state directories, in test/upgrade/testdata, which upgrade-state makes.
.PHONY: upgrade
upgrade: deps-sandbox init ## Make 100,000 events with an older release and test the upgrade (FROM=commit, EVENTS=100000)
	GO="$(GO)" scripts/upgrade.sh test $(FROM) $(EVENTS)

.PHONY: upgrade-state
upgrade-state: deps-sandbox init ## Make the state directory of an older release for the suite (FROM=commit)
	GO="$(GO)" scripts/upgrade.sh make $(FROM) 1000 test/upgrade/testdata/$$(git rev-parse --short=12 $(FROM)).tar.gz

.PHONY: deps-sandbox
deps-sandbox:
	scripts/deps.sh bwrap=bubblewrap git=git python3=python3 gcc=gcc /usr/include/stdio.h=libc6-dev

.PHONY: deps-agents
deps-agents: deps-node
	scripts/deps.sh bwrap=bubblewrap unshare=util-linux ip=iproute2

# No recipe decides by a variable whether a program exists: make reads the file before any of
# these targets installs one.
.PHONY: deps-node
deps-node: ## Install the pinned Node and npm of scripts/node into .tools/node
	scripts/node.sh '$(TOOLS)/node'

# The packages that build, check and test the console, and generate its client.
.PHONY: deps-web
deps-web: deps-node
	@$(NODE) scripts/npm.sh web || { echo "\`make build WEB=\` builds palyrad without its console" >&2; exit 1; }

# A build goes on without gcc: only Tier A needs what it compiles.
.PHONY: deps-worker
deps-worker:
	@if [[ $$($(GO) env GOOS) == linux && $$($(GO) env GOARCH) == $$($(GO) env GOHOSTARCH) ]]; then \
	  scripts/deps.sh gcc=gcc /usr/include/stdio.h=libc6-dev || true; fi

.PHONY: deps-browser
deps-browser:
	scripts/deps.sh $(if $(PALYRA_CHROMIUM),,chromium=chromium) /usr/share/fonts/truetype/dejavu=fonts-dejavu-core

# Goal 6 compares with a sandbox that needs socat and ripgrep; goal 19 compresses.
.PHONY: deps-bench
deps-bench: deps-demo deps-browser
	scripts/deps.sh socat=socat rg=ripgrep xz=xz-utils

.PHONY: deps-demo
deps-demo:
	scripts/deps.sh bwrap=bubblewrap gcc=gcc /usr/include/stdio.h=libc6-dev git=git python3=python3

# What the runner of the tests asks for beside Debian's packages, which it installs by
# scripts/deps.sh: each tier names its own in test/tiers/tier.go.
.PHONY: deps-grpcurl
deps-grpcurl:
	GO="$(GO)" scripts/tools.sh $(TOOLS) grpcurl

.PHONY: deps-spec
deps-spec:
	cd test/wasm/spec/testdata && $(GO) mod download github.com/tetratelabs/wazero

.PHONY: deps-typescript
deps-typescript: deps-node
	$(NODE) scripts/npm.sh test/e2e/typescript $(TOOLS)/typescript

.PHONY: clean
clean: ## Remove what was built (the tools stay)
	rm -rf bin $(INITBIN) internal/surface/console/assets/dist coverage.out
