#!/usr/bin/env bash
# Stops what up.sh has started, or the processes that are named:
# down.sh [kube-apiserver|etcd]...
#
# Environment:
#   RUN_DIR  as for up.sh
#   WIPE     1 removes the run directory too
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../controlplane/lib.sh"
case ${1:-} in -h | --help) usage "${BASH_SOURCE[0]}" && exit ;; esac

RUN_DIR=${RUN_DIR:-$CACHE/run/kubernetes}
[ $# -gt 0 ] || set -- kube-apiserver etcd
down "$@"
