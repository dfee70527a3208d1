#!/usr/bin/env bash
# Starts a Kubernetes API server with its etcd on 127.0.0.1 and writes a
# kubeconfig. There are no nodes and no controllers: pods stay as they are until
# somebody sets their status. What runs already is left alone.
#
# Environment:
#   RUN_DIR         keys, data, logs and the kubeconfig of this cluster
#   ETCD_PORT, ETCD_PEER_PORT, APISERVER_PORT
#                   ports; another cluster beside this one needs others
#   APISERVER_ARGS  more arguments for kube-apiserver
#   OWNER_PID       the cluster ends, and is removed, with this process
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../controlplane/lib.sh"
case ${1:-} in -h | --help) usage "${BASH_SOURCE[0]}" && exit ;; esac

RUN_DIR=${RUN_DIR:-$CACHE/run/kubernetes}
ETCD_PORT=${ETCD_PORT:-23690} ETCD_PEER_PORT=${ETCD_PEER_PORT:-23691} APISERVER_PORT=${APISERVER_PORT:-26443}

need go openssl curl flock setsid
build_kubernetes
in_run_dir
make_keys
write_kubeconfig tollgate-kubernetes
start_kubernetes
follow_owner "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/down.sh"
say "ready: export KUBECONFIG=$RUN_DIR/kubeconfig"
