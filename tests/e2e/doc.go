// Package e2e tests Tollgate as it runs: a real Temporal engine, worker
// processes that are killed, real forward proxies of the local provider, and
// the built command lines. Run it with "make test-e2e".
package e2e
