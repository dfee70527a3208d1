#!/usr/bin/env bash
# Stops what up.sh started, by recorded pid.
#   --reset   also puts the freshly seeded databases back: the next up.sh is quick and empty
#   --purge   also removes the state
set -u
OS_DIR=${TOLLGATE_OPENSTACK_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/tollgate/openstack}
for f in "$OS_DIR"/pid/*; do
	[ -e "$f" ] || continue
	p=$(cat "$f")
	if grep -q osrun.py "/proc/$p/cmdline" 2>/dev/null; then
		kill "$p" 2>/dev/null
		for _ in $(seq 50); do
			kill -0 "$p" 2>/dev/null || break
			sleep 0.1
		done
		kill -9 "$p" 2>/dev/null
	fi
	rm -f "$f"
done
case "${1:-}" in
--reset) if [ -d "$OS_DIR/pristine" ]; then rm -f "$OS_DIR"/db/*.sqlite* && cp "$OS_DIR"/pristine/*.sqlite "$OS_DIR/db/"; fi ;;
--purge) rm -rf "$OS_DIR" ;;
"") ;;
*) echo "down.sh: $1: want --reset or --purge" >&2 && exit 2 ;;
esac
exit 0
