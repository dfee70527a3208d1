#!/usr/bin/env bash
# Waits for the end of a process and then takes a cluster down: pid, down.sh.
# RUN_DIR names the cluster. See follow_owner in lib.sh.
set -u
while kill -0 "$1" 2>/dev/null; do sleep 0.5; done
rm -f "$RUN_DIR/tollgate-owner-watch.pid"
WIPE=1 exec "$2"
