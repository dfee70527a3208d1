#!/usr/bin/env bash
# Runs a command with the development cloud up and its openrc in the environment,
# and stops the cloud afterwards unless it ran before.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
OS_DIR=${TOLLGATE_OPENSTACK_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/tollgate/openstack}
ran=0
if [ -e "$OS_DIR/pid/nova" ] && grep -q osrun.py "/proc/$(cat "$OS_DIR/pid/nova")/cmdline" 2>/dev/null; then ran=1; fi
[ $ran = 1 ] || trap '"$HERE/down.sh"' EXIT
"$HERE/up.sh"
# shellcheck disable=SC1091 # made by up.sh
. "$OS_DIR/openrc"
"$@"
