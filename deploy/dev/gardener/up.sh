#!/usr/bin/env bash
# Starts the API servers of Kubernetes and of Gardener with their etcd on
# 127.0.0.1, registers Gardener's APIs, makes what its admission asks for (projects,
# cloud profiles, credentials; see fixtures/) and writes a kubeconfig. There is no
# gardenlet: shoots stay as they are until somebody sets their status. What runs
# already is left alone.
#
# Environment:
#   RUN_DIR         keys, data, logs and the kubeconfig of this cluster
#   ETCD_PORT, ETCD_PEER_PORT, APISERVER_PORT, GARDENER_PORT
#                   ports; another cluster beside this one needs others
#   APISERVER_ARGS  more arguments for kube-apiserver
#   GARDENER_ARGS   more arguments for gardener-apiserver, such as
#                   --watch-cache-sizes=shoots.core.gardener.cloud#0
#   OWNER_PID       the cluster ends, and is removed, with this process
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../controlplane/lib.sh"
case ${1:-} in -h | --help) usage "${BASH_SOURCE[0]}" && exit ;; esac

RUN_DIR=${RUN_DIR:-$CACHE/run/gardener}
ETCD_PORT=${ETCD_PORT:-23790} ETCD_PEER_PORT=${ETCD_PEER_PORT:-23791} APISERVER_PORT=${APISERVER_PORT:-27443} GARDENER_PORT=${GARDENER_PORT:-28443}

VERSIONS="core.gardener.cloud/v1beta1 core.gardener.cloud/v1 security.gardener.cloud/v1alpha1
	seedmanagement.gardener.cloud/v1alpha1 settings.gardener.cloud/v1alpha1 operations.gardener.cloud/v1alpha1"

# register tells kube-apiserver where Gardener's APIs are: behind a service name
# that stands for this machine.
register() {
	local version
	answers /api/v1/namespaces/kube-system/services/gardener-apiserver ||
		echo '{"metadata":{"name":"gardener-apiserver"},"spec":{"type":"ExternalName","externalName":"localhost"}}' |
		post /api/v1/namespaces/kube-system/services application/json
	for version in $VERSIONS; do
		local group=${version%/*} v=${version#*/}
		answers "/apis/apiregistration.k8s.io/v1/apiservices/$v.$group" || post /apis/apiregistration.k8s.io/v1/apiservices application/json <<-J
			{"metadata": {"name": "$v.$group"}, "spec": {"group": "$group", "version": "$v", "groupPriorityMinimum": 100, "versionPriority": 100,
			 "caBundle": "$(base64_of ca.crt)", "service": {"name": "gardener-apiserver", "namespace": "kube-system", "port": $GARDENER_PORT}}}
		J
	done
	for version in $VERSIONS; do await gardener-apiserver answers "/apis/$version"; done
	await gardener-apiserver answers "/apis/core.gardener.cloud/v1beta1/shoots?limit=1"
}

need go openssl curl flock setsid
build_kubernetes
build gardener-apiserver github.com/gardener/gardener/cmd/gardener-apiserver "$(version_flags github.com/gardener/gardener)"
in_run_dir
make_keys
certificate gardener-apiserver ca /CN=gardener-apiserver serverAuth "DNS:localhost,DNS:gardener-apiserver.kube-system.svc,IP:127.0.0.1"
write_kubeconfig tollgate-gardener
start_kubernetes
# shellcheck disable=SC2086 # the arguments are words
start gardener-apiserver "$GARDENER_PORT" "$BUILD/gardener-apiserver" --etcd-servers="http://127.0.0.1:$ETCD_PORT" \
	--bind-address=127.0.0.1 --secure-port="$GARDENER_PORT" --cluster-identity=dev \
	--tls-cert-file="$PKI/gardener-apiserver.crt" --tls-private-key-file="$PKI/gardener-apiserver.key" \
	--authorization-always-allow-paths=/healthz,/readyz,/livez \
	--authentication-kubeconfig="$RUN_DIR/kubeconfig" --authorization-kubeconfig="$RUN_DIR/kubeconfig" --kubeconfig="$RUN_DIR/kubeconfig" \
	${GARDENER_ARGS:-}
await gardener-apiserver api -f "https://127.0.0.1:$GARDENER_PORT/healthz"
register
say "gardener-apiserver is up"
for f in "$HERE"/fixtures/*.yaml; do
	post "$(sed -n '1s/^# POST //p' "$f")" application/yaml <"$f"
done
follow_owner "$HERE/down.sh"
say "ready: export KUBECONFIG=$RUN_DIR/kubeconfig"
