// Package kubernetessim simulates the part of a Kubernetes API server that the
// provider uses, and what runs behind it.
//
// Sim is the API server: Pods, Secrets and Services of namespaces with create,
// get, list in pages, watch and delete, as kube-apiserver 1.35 answers them. It
// runs no controllers, no admission webhooks, no scheduler and no garbage
// collector, so nothing is cleaned up that its client leaves.
//
// Kubelet is a scheduler and a node: it binds Pods, lets them run and ends them.
// Front stands before an API server and misbehaves on demand: it loses replies,
// cuts them off, throttles and lags. Both work as well before and behind a real
// API server, which is how the two are compared.
package kubernetessim
