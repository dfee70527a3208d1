# Tollgate. "make help" lists the targets.

GO ?= go
BIN := bin
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
ENGINE_DIR := internal/devserver/engine

# Arguments of "make run", for example ARGS="--ui-port 9233".
ARGS ?=
# What "make test" and "make bench" run.
TEST ?= ./...
BENCH ?= .
BENCHTIME ?= 1x

.DEFAULT_GOAL := build

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## Build and run

.PHONY: build
build: engine ## build all programs into bin/
	$(GO) build -o $(BIN)/tollgate ./starter
	$(GO) build -o $(BIN)/tollgate-worker ./worker
	$(GO) build -o $(BIN)/tollgate-proxy ./internal/provider/local/tollgate-proxy
	$(GO) build -o $(BIN)/tollgate-dev ./internal/devserver/tollgate-dev
	$(GO) build -o $(BIN)/tollgate-reporting ./internal/reporting/reportingserver/tollgate-reporting

.PHONY: engine
engine: ## build the embedded Temporal engine, once per version (minutes)
	@$(GO) run ./internal/devserver/enginebin/mkengine -o $(BIN)/tollgate-engine

.PHONY: promtool
promtool: ## build promtool for the alert rules' tests, once per version (minutes)
	@$(GO) run ./internal/devserver/enginebin/mkengine -tool promtool -o $(BIN)/promtool

.PHONY: tools
tools: promtool ## build the temporal and tctl command lines for the tests, once per version (minutes)
	@$(GO) run ./internal/devserver/enginebin/mkengine -tool temporal -o $(BIN)/temporal
	@$(GO) run ./internal/devserver/enginebin/mkengine -tool tctl -o $(BIN)/tctl

.PHONY: run
run: build ## run everything on this machine in the foreground; ARGS="--flag ..."
	@exec $(BIN)/tollgate-dev $(ARGS)

.PHONY: dev-kubernetes
dev-kubernetes: ## start a Kubernetes API server on this machine; built once (minutes)
	@deploy/dev/kubernetes/up.sh

.PHONY: dev-kubernetes-down
dev-kubernetes-down: ## stop it; WIPE=1 removes its data
	@deploy/dev/kubernetes/down.sh

.PHONY: dev-gardener
dev-gardener: ## start the API servers of Kubernetes and Gardener on this machine; built once (minutes)
	@deploy/dev/gardener/up.sh

.PHONY: dev-gardener-down
dev-gardener-down: ## stop them; WIPE=1 removes their data
	@deploy/dev/gardener/down.sh

.PHONY: demo-day
demo-day: ## let a day happen in the simulated cloud of a running make run ARGS="--with hetzner-sim"
	@exec $(BIN)/tollgate-dev demo-day $(ARGS)

## Test

.PHONY: test
test: engine ## unit, contract, workflow and replay tests with the race detector; TEST=./path/...
	PROVIDERTEST_REQUIRE=all SOURCETEST_REQUIRE=all $(GO) test -race -timeout 20m $(TEST)

.PHONY: test-e2e
test-e2e: build tools ## end-to-end tests on the real engine with real processes
	$(GO) test -race -timeout 40m -count=1 -p 1 -tags e2e ./tests/e2e/... ./internal/devserver/tollgate-dev

# The tests behind a build tag, and the packages that have them: the others of these
# packages run with "make test".
tagged = $(shell grep -rlE --include='*_test.go' '^//go:build $(1)$$' activities internal tests workflows)
tests_of = $(shell grep -hoE '^func Test[A-Za-z0-9_]+' $(call tagged,$(1)) | sed 's/^func //' | grep -vx TestMain | sort -u | paste -sd '|' -)
run_tagged = $(GO) test -race -timeout 20m -count=1 -p 1 -tags $(1) -run '^($(call tests_of,$(1)))$$' $(addprefix ./,$(sort $(dir $(call tagged,$(1)))))

.PHONY: test-kubernetes
test-kubernetes: engine ## tests against a real Kubernetes API server
	$(call run_tagged,kubernetes)

.PHONY: test-gardener
test-gardener: ## tests against the real API servers of Kubernetes and Gardener
	$(call run_tagged,gardener)

.PHONY: test-engine
test-engine: ## tests of the engine's own module
	cd $(ENGINE_DIR) && $(GO) test ./...

.PHONY: test-integration-hetzner
test-integration-hetzner: ## the hetzner driver against a real project; needs HCLOUD_TOKEN and costs cents
	$(GO) test -count=1 -timeout 30m -tags integration -run '^TestRealProject$$' -v ./internal/provider/hetzner/

.PHONY: dev-openstack
dev-openstack: ## a real OpenStack control plane on this machine, see deploy/dev/openstack
	@deploy/dev/openstack/up.sh

.PHONY: openstack-packages
openstack-packages: ## install the Debian packages that dev-openstack needs
	@deploy/dev/openstack/up.sh --packages

.PHONY: dev-openstack-down
dev-openstack-down: ## stop it; ARGS=--reset empties it, ARGS=--purge removes it
	@deploy/dev/openstack/down.sh $(ARGS)

.PHONY: test-openstack
test-openstack: build ## drivers, sources and a fleet of proxies against the real services, which are started and stopped
	@deploy/dev/openstack/test.sh $(MAKE) --no-print-directory test-openstack-up

# Two packages with three tests each at a time keep the services busy; with more, all
# wait longer and nothing is done sooner.
.PHONY: test-openstack-up
test-openstack-up: ## the same while they run and their openrc is in the environment
	$(GO) test -count=1 -timeout 40m -p 2 -parallel 3 -tags openstack -run OnTheRealServices ./internal/provider/openstack/ ./internal/source/openstack/ ./internal/registration/
	$(GO) test -count=1 -timeout 30m -tags e2e,openstack -run '^TestOpenStack(Fleet|Day)$$' ./tests/e2e/

.PHONY: bench
bench: build ## benchmarks: engine floors and ours beside them; BENCH=regexp BENCHTIME=1x
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -timeout 60m -tags bench ./tests/bench/...

.PHONY: bench-ci
bench-ci: BENCH := ^Benchmark(Engine|CreateToHealthy|CreateToHealthyLocal|CatchUp|Failover|HetznerIdleFleet)$$
bench-ci: bench ## the benchmarks that need no large population, as CI runs them (minutes)

.PHONY: bench-million
bench-million: build ## catch up with a million actions beside a bare loop (ten minutes)
	TOLLGATE_BENCH_ACTIONS=1000000 $(GO) test -run '^$$' -bench '^BenchmarkCatchUp$$' -benchtime 1x -timeout 60m -tags bench ./tests/bench/...

.PHONY: histories
histories: engine ## record workflow histories for the replay tests; old ones stay
	TOLLGATE_RECORD=1 $(GO) test -timeout 30m -count=1 ./workflows/...

## Check

.PHONY: check
check: lint tidy-check docs-check alerts-check ## all checks that are no tests

.PHONY: lint
lint: fmt-check vet staticcheck ## format, vet and staticcheck

.PHONY: fmt
fmt: ## format all Go files
	gofmt -w .

.PHONY: fmt-check
fmt-check: ## fail if a file is not formatted
	@bad=$$(gofmt -l .) || exit 1; \
	if [ -n "$$bad" ]; then echo "not formatted (make fmt):"; echo "$$bad"; exit 1; fi

.PHONY: vet
vet: ## go vet, both modules
	$(GO) vet ./...
	$(GO) vet -tags e2e,bench,gardener,kubernetes,openstack ./...
	cd $(ENGINE_DIR) && $(GO) vet ./...

.PHONY: staticcheck
staticcheck: ## staticcheck at its pinned version, both modules
	$(GO) run $(STATICCHECK) -tags e2e,bench,gardener,kubernetes,openstack ./...
	cd $(ENGINE_DIR) && $(GO) run $(STATICCHECK) ./...

.PHONY: tidy-check
tidy-check: ## fail if a go.mod or go.sum is not tidy
	$(GO) mod tidy -diff
	cd $(ENGINE_DIR) && $(GO) mod tidy -diff

.PHONY: docs
docs: ## regenerate the generated pages of docs/
	$(GO) generate ./...
	$(GO) test -count=1 -run '^TestPublishedDocumentIsTheServedOne$$' ./internal/discovery -update
	$(GO) test -count=1 -run '^TestPublishedDocumentIsTheOneOfTheCode$$' ./internal/reporting/api -update
	$(GO) test -count=1 -run '^TestMetricsReferenceIsFresh$$' ./internal/app -update

.PHONY: docs-check
docs-check: ## fail if a generated page is stale
	@old=$$(mktemp -d) && trap 'rm -rf "$$old"' EXIT && cp -R docs README.md "$$old" && \
	$(MAKE) --no-print-directory docs && \
	if ! diff -r "$$old/docs" docs || ! diff "$$old/README.md" README.md; then echo "generated pages were stale and are now renewed: commit them"; exit 1; fi

.PHONY: alerts-check
alerts-check: promtool ## fail if an alert rule is wrong, or does not fire when its test says so
	$(BIN)/promtool check rules --lint=all --lint-fatal deploy/prometheus/alerts.yaml
	$(BIN)/promtool test rules deploy/prometheus/*_test.yaml

## Clean

.PHONY: clean
clean: ## remove what was built; keeps the engine's cache and .tollgate
	rm -rf $(BIN) dist
	find . -name '*.test' -type f -not -path './.git/*' -exec rm -f {} +
