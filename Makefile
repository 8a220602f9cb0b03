# Orchard. `make help` lists the targets.
SHELL := bash
GO ?= go
# One setting for programs and tests, so that each package is compiled once. The agent
# must be static: it runs in any image.
export CGO_ENABLED ?= 0
# Without the folder's name in what is compiled, a clone elsewhere uses what another has compiled.
export GOFLAGS ?= -trimpath
LDFLAGS := -s -w
PKGS := ./...

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' Makefile

build: ## build the programs into bin/
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

demo: ## run the main job on the tasks that come with it, without a model
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/orchard ./cmd/orchard-agent
	bin/orchard run swe-sft -p rollouts=2 -p out=demo/data --state-dir demo/state

test: ## run the tests (make lint vets)
	$(GO) test -vet=off -timeout 20m $(TESTFLAGS) $(PKGS)
	cd test/argo && $(GO) test -vet=off -timeout 20m $(TESTFLAGS) ./...

e2e: ## run the tests on a real cluster, which is brought up if it is not (as root)
	test/e2e/kube/run.sh

generate: ## bring copies up to date: the pipelines in the chart
	rm -rf charts/orchard/files/workflows && mkdir -p charts/orchard/files/workflows
	cp -R workflows/templates workflows/pipelines workflows/cron charts/orchard/files/workflows/

images: ## make the images as archives in dist/images, and hand them to the test cluster if it is up; VERSION=dev
	images/build.sh

images-push: ## push the images to REGISTRY=host/prefix and print their digests; VERSION=dev PLATFORMS=linux/amd64,linux/arm64
	images/build.sh --push '$(REGISTRY)'

cluster-up: ## start the test cluster (as root; the first time builds it, about half an hour)
	test/cluster/packages.sh
	test/cluster/build.sh
	test/cluster/up.sh

cluster-down: ## stop the test cluster and remove its traces
	test/cluster/down.sh

test-race: ## run the tests with the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 30m $(PKGS)

lint: ## vet, staticcheck, formatting, and the rules of rules_test.go
	$(GO) vet $(PKGS)
	$(GO) tool staticcheck $(PKGS)
	cd test/argo && $(GO) vet ./... && "$$(cd ../.. && $(GO) tool -n staticcheck)" ./...
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run gofmt -w on these'; exit 1; }
	$(GO) test -count=1 .

verify: ## fail if a generated file or go.mod is not up to date
	$(GO) mod tidy -diff
	cd test/argo && $(GO) mod tidy -diff
	$(GO) test -count=1 ./workflows/... ./internal/pipeline/...
	@test -z "$$(git status --porcelain)" || { git status --short; echo 'the tree is not clean'; exit 1; }

fuzz-smoke: ## fuzz every parser for a few seconds
	@set -e; for f in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for t in $$(grep -rhoE '^func Fuzz[A-Za-z0-9_]+' $$f/*_test.go | sed 's/func //' | sort -u); do \
	    $(GO) test -run '^$$' -fuzz "^$$t\$$" -fuzztime 5s $$f; done; done

bench: build ## run the benchmarks, on the test cluster too (as root); ratios compare with the bare thing in the same run
	$(GO) test -run '^$$' -bench . -benchtime 2s ./agent/... ./internal/sandbox/... ./datasets/...
	test/e2e/kube/run.sh -run '^$$' -bench . -benchtime 5x -timeout 30m

bench-dedup: ## run dedup's engine beside the plain ways, at the size of the paper's pool; ORCHARD_BENCH_SHARE=0.1 is smaller
	GOEXPERIMENT=simd $(GO) test -run '^$$' -bench 'Paper|Planted' -benchtime 1x -timeout 3h ./internal/cosine ./jobs/dedup/minhash

soak: ## long suites, run by hand (as root): crash points, thousands of sandboxes, chaos; figures in dist/soak.txt
	@mkdir -p dist && rm -f dist/soak.txt
	ORCHARD_SOAK=1 $(GO) test -count=1 -timeout 3h $(PKGS)
	test/cluster/build.sh kwok
	ORCHARD_SOAK=1 ORCHARD_SOAK_REPORT=$(CURDIR)/dist/soak.txt test/e2e/kube/run.sh -timeout 3h
	@cat dist/soak.txt

crash: ## kill every stage before and after each of its store writes, and run it again (about an hour)
	ORCHARD_SOAK=1 $(GO) test -count=1 -timeout 2h -run 'Kill|Crash|SIGTERM|StoreAway|Commit' ./cmd/orchard ./datasets/... ./internal/runner/... ./internal/objstore/...

clean: ## remove what the other targets made
	rm -rf bin demo dist

.PHONY: help build demo test e2e generate images images-push cluster-up cluster-down test-race lint verify fuzz-smoke bench bench-dedup soak crash clean
