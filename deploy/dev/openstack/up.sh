#!/usr/bin/env bash
# A real OpenStack control plane on loopback, for development and tests: keystone,
# placement, glance, neutron (ml2), nova and cinder of Debian 12 ("Zed"), each one
# process on SQLite. Hypervisor and volume driver are fakes: servers have no network.
# Idempotent: run again, it starts what is down. down.sh stops it.
#
#   --packages                installs the packages and ends
#
#   TOLLGATE_OPENSTACK_DIR    state: configuration, databases, logs, pids
#                             default ${XDG_CACHE_HOME:-~/.cache}/tollgate/openstack
#   TOLLGATE_OPENSTACK_PORT   first of six ports, default 15000
#   TOLLGATE_OPENSTACK_TOKEN  life of a token in seconds, default 3600
#
# The first run installs Debian packages (92 MB) and therefore needs root, or sudo
# without a password. Where they cannot be had it fails; nothing is skipped.
# $TOLLGATE_OPENSTACK_DIR/openrc then has what clients need.
set -euo pipefail
case "${1:-}" in
--packages | "") ;;
*) echo "up.sh: $1: want --packages" >&2 && exit 2 ;;
esac
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export OS_DIR=${TOLLGATE_OPENSTACK_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/tollgate/openstack}
BASE=${TOLLGATE_OPENSTACK_PORT:-15000}
export PORT_KEYSTONE=$BASE PORT_PLACEMENT=$((BASE + 1)) PORT_GLANCE=$((BASE + 2)) PORT_NEUTRON=$((BASE + 3)) \
	PORT_NOVA=$((BASE + 4)) PORT_CINDER=$((BASE + 5))
SERVICES="keystone placement glance neutron nova cinder"
ETC=$OS_DIR/etc DB=$OS_DIR/db LOG=$OS_DIR/log PID=$OS_DIR/pid
PY="nice /usr/bin/python3" # Debian's own interpreter, which has the packages
export PYTHONPATH=$OS_DIR/py PYTHONWARNINGS=ignore PYTHONUNBUFFERED=1
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY OS_CLOUD 2>/dev/null || true
t0=${EPOCHREALTIME/./}
say() { local d=$(((${EPOCHREALTIME/./} - t0) / 100000)); printf '%4d.%ds %s\n' $((d / 10)) $((d % 10)) "$*"; }
die() { echo "openstack: $*" >&2; exit 1; }

mkdir -p "$OS_DIR"
chmod 700 "$OS_DIR"
exec 9>"$OS_DIR/lock.up"
flock 9 # two runs at once would start everything twice

# 1. Packages. The python3-* library packages hold all the code and have no debconf questions,
#    no users and no init scripts: none of keystone, nova-api, neutron-server ... is needed.
PKGS="python3-keystone python3-placement python3-glance python3-neutron python3-nova python3-cinder python3-requests
	python3-sqlalchemy-ext"
installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }
command -v dpkg-query >/dev/null || die "needs Debian 12 (bookworm): there is no dpkg here"
missing=$(for p in $PKGS; do installed "$p" || echo "$p"; done)
if [ -n "$missing" ]; then
	root=""
	if [ "$(id -u)" != 0 ]; then
		sudo -n true 2>/dev/null || die "run it once as root, it has to install: $missing"
		root="sudo -n"
	fi
	# Nothing may start by itself: a few dependencies, such as open-iscsi, ship units.
	policy=/usr/sbin/policy-rc.d
	if [ ! -e $policy ]; then
		printf '#!/bin/sh\nexit 101\n' | $root tee $policy >/dev/null
		$root chmod +x $policy
		trap '$root rm -f $policy' EXIT
	fi
	$root apt-get -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 update -qq </dev/null || die "apt-get update failed"
	# shellcheck disable=SC2086 # a list of words
	$root env DEBIAN_FRONTEND=noninteractive nice apt-get install -y -qq --no-install-recommends \
		-o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 -o Dpkg::Options::=--force-unsafe-io \
		$missing >"$OS_DIR/apt.log" 2>&1 </dev/null || die "apt-get install failed: $(tail -5 "$OS_DIR/apt.log")"
	for p in $PKGS; do installed "$p" || die "$p is not installed, see $OS_DIR/apt.log"; done
	say "packages installed"
fi
[ "${1:-}" != --packages ] || exit 0

# The password of all users here, made once: loopback is shared by everybody on the machine.
if [ ! -s "$OS_DIR/password" ]; then
	(umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$OS_DIR/password")
fi
OS_PASS=$(cat "$OS_DIR/password")
export OS_PASS
# A state belongs to its ports: they are in the catalogue.
if [ -e "$OS_DIR/base" ] && [ "$(cat "$OS_DIR/base")" != "$BASE" ]; then
	die "$OS_DIR was made for port $(cat "$OS_DIR/base"), not $BASE: run down.sh --purge first"
fi
echo "$BASE" >"$OS_DIR/base"

# 2. Configuration, all under $OS_DIR.
mkdir -p "$ETC" "$DB" "$LOG" "$PID" "$OS_DIR"/hold "$OS_DIR"/{images,tasks,staging,lock,instances,fernet,credential,py/dev_ml2-1.0.dist-info,coord}
conn() { echo "connection = sqlite:///$DB/$1.sqlite?check_same_thread=false
sqlite_synchronous = false"; }
authtoken() { cat <<X
[keystone_authtoken]
www_authenticate_uri = http://127.0.0.1:$PORT_KEYSTONE/v3
service_token_roles = service
service_token_roles_required = true
token_cache_time = 10
$(svcuser)
X
}
svcuser() { cat <<X
auth_url = http://127.0.0.1:$PORT_KEYSTONE/v3
auth_type = password
username = svc
password = $OS_PASS
project_name = service
user_domain_id = default
project_domain_id = default
region_name = RegionOne
X
}
common() { cat <<X
[oslo_concurrency]
lock_path = $OS_DIR/lock
[oslo_messaging_notifications]
driver = noop
[oslo_policy]
policy_file = $ETC/none.yaml
X
}

cat >"$ETC/keystone.conf" <<X
[DEFAULT]
log_file = $LOG/keystone.log
[database]
$(conn keystone)
[token]
expiration = ${TOLLGATE_OPENSTACK_TOKEN:-3600}
[fernet_tokens]
key_repository = $OS_DIR/fernet
[credential]
key_repository = $OS_DIR/credential
[identity]
password_hash_rounds = 4
[cache]
enabled = true
backend = dogpile.cache.memory
$(common)
X
cat >"$ETC/placement.conf" <<X
[DEFAULT]
log_file = $LOG/placement.log
[api]
auth_strategy = keystone
[placement_database]
$(conn placement)
$(authtoken)
$(common)
X
cat >"$ETC/glance.conf" <<X
[DEFAULT]
log_file = $LOG/glance.log
bind_host = 127.0.0.1
bind_port = $PORT_GLANCE
workers = 0
enabled_backends = fs:file
[glance_store]
default_backend = fs
[fs]
filesystem_store_datadir = $OS_DIR/images
[os_glance_tasks_store]
filesystem_store_datadir = $OS_DIR/tasks
[os_glance_staging_store]
filesystem_store_datadir = $OS_DIR/staging
[paste_deploy]
flavor = keystone
config_file = $ETC/glance-paste.ini
[database]
$(conn glance)
$(authtoken)
$(common)
X
cat >"$ETC/glance-paste.ini" <<'X'
[pipeline:glance-api-keystone]
pipeline = http_proxy_to_wsgi versionnegotiation authtoken context rootapp
[composite:rootapp]
paste.composite_factory = glance.api:root_app_factory
/: apiversions
/v2: apiv2app
[app:apiversions]
paste.app_factory = glance.api.versions:create_resource
[app:apiv2app]
paste.app_factory = glance.api.v2.router:API.factory
[filter:versionnegotiation]
paste.filter_factory = glance.api.middleware.version_negotiation:VersionNegotiationFilter.factory
[filter:context]
paste.filter_factory = glance.api.middleware.context:ContextMiddleware.factory
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
delay_auth_decision = true
[filter:http_proxy_to_wsgi]
paste.filter_factory = oslo_middleware:HTTPProxyToWSGI.factory
X
cat >"$ETC/neutron.conf" <<X
[DEFAULT]
log_file = $LOG/neutron.log
bind_host = 127.0.0.1
bind_port = $PORT_NEUTRON
api_workers = 0
core_plugin = ml2
service_plugins = router
transport_url = fake:/
state_path = $OS_DIR
api_paste_config = $ETC/neutron-paste.ini
auth_strategy = keystone
network_auto_schedule = false
router_auto_schedule = false
dhcp_agent_notification = false
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
send_events_interval = 0
[ml2]
type_drivers = local,flat
tenant_network_types = local
mechanism_drivers = dev
extension_drivers = port_security
[ml2_type_flat]
flat_networks = *
[quotas]
quota_network = 100
quota_port = -1
quota_floatingip = 100
[database]
$(conn neutron)
[nova]
$(svcuser)
$(authtoken)
$(common)
X
cat >"$ETC/neutron-paste.ini" <<'X'
[composite:neutron]
use = egg:Paste#urlmap
/: neutronversions_composite
/v2.0: neutronapi_v2_0
[composite:neutronapi_v2_0]
use = call:neutron.auth:pipeline_factory
keystone = http_proxy_to_wsgi request_id catch_errors authtoken keystonecontext extensions neutronapiapp_v2_0
[composite:neutronversions_composite]
use = call:neutron.auth:pipeline_factory
keystone = http_proxy_to_wsgi neutronversions
[filter:request_id]
paste.filter_factory = oslo_middleware:RequestId.factory
[filter:catch_errors]
paste.filter_factory = oslo_middleware:CatchErrors.factory
[filter:http_proxy_to_wsgi]
paste.filter_factory = oslo_middleware.http_proxy_to_wsgi:HTTPProxyToWSGI.factory
[filter:keystonecontext]
paste.filter_factory = neutron.auth:NeutronKeystoneContext.factory
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
[filter:extensions]
paste.filter_factory = neutron.api.extensions:plugin_aware_extension_middleware_factory
[app:neutronversions]
paste.app_factory = neutron.pecan_wsgi.app:versions_factory
[app:neutronapiapp_v2_0]
paste.app_factory = neutron.api.v2.router:APIRouter.factory
X
# An ml2 mechanism driver that binds every port at once: there are no agents.
cat >"$OS_DIR/py/dev_ml2.py" <<'X'
from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api


class DevMechanismDriver(api.MechanismDriver):
    def initialize(self):
        pass

    @property
    def connectivity(self):
        return portbindings.CONNECTIVITY_L2

    def bind_port(self, context):
        for segment in context.segments_to_bind:
            context.set_binding(segment[api.ID], portbindings.VIF_TYPE_OVS,
                                {portbindings.CAP_PORT_FILTER: True},
                                status=constants.PORT_STATUS_ACTIVE)
            return
X
printf '[neutron.ml2.mechanism_drivers]\ndev = dev_ml2:DevMechanismDriver\n' >"$OS_DIR/py/dev_ml2-1.0.dist-info/entry_points.txt"
printf 'Metadata-Version: 2.1\nName: dev_ml2\nVersion: 1.0\n' >"$OS_DIR/py/dev_ml2-1.0.dist-info/METADATA"

cat >"$ETC/nova.conf" <<X
[DEFAULT]
log_file = $LOG/nova.log
host = fake-compute-1
my_ip = 127.0.0.1
state_path = $OS_DIR
instances_path = $OS_DIR/instances
compute_driver = fake.FakeDriver
transport_url = fake:/
enabled_apis = osapi_compute
osapi_compute_listen = 127.0.0.1
osapi_compute_listen_port = $PORT_NOVA
vif_plugging_is_fatal = false
vif_plugging_timeout = 0
reclaim_instance_interval = 0
allow_resize_to_same_host = true
[api]
auth_strategy = keystone
[wsgi]
api_paste_config = $ETC/nova-paste.ini
[database]
$(conn nova)
[api_database]
$(conn nova_api)
[quota]
instances = 200
cores = 400
ram = 512000
[scheduler]
workers = 1
[conductor]
workers = 1
[filter_scheduler]
track_instance_changes = false
[glance]
endpoint_override = http://127.0.0.1:$PORT_GLANCE
[placement]
$(svcuser)
[neutron]
$(svcuser)
[cinder]
catalog_info = volumev3::publicURL
os_region_name = RegionOne
$(svcuser | grep -v region_name)
[service_user]
send_service_user_token = true
$(svcuser)
$(authtoken)
$(common)
X
cat >"$ETC/nova-paste.ini" <<'X'
[composite:osapi_compute]
use = call:nova.api.openstack.urlmap:urlmap_factory
/: oscomputeversions
/v2.1: oscomputeversion_v2
/v2.1/+: openstack_compute_api_v21
[composite:openstack_compute_api_v21]
use = call:nova.api.auth:pipeline_factory_v21
keystone = http_proxy_to_wsgi compute_req_id faultwrap request_log sizelimit authtoken keystonecontext osapi_compute_app_v21
[filter:request_log]
paste.filter_factory = nova.api.openstack.requestlog:RequestLog.factory
[filter:compute_req_id]
paste.filter_factory = nova.api.compute_req_id:ComputeReqIdMiddleware.factory
[filter:faultwrap]
paste.filter_factory = nova.api.openstack:FaultWrapper.factory
[filter:sizelimit]
paste.filter_factory = oslo_middleware:RequestBodySizeLimiter.factory
[filter:http_proxy_to_wsgi]
paste.filter_factory = oslo_middleware.http_proxy_to_wsgi:HTTPProxyToWSGI.factory
[app:osapi_compute_app_v21]
paste.app_factory = nova.api.openstack.compute:APIRouterV21.factory
[pipeline:oscomputeversions]
pipeline = faultwrap request_log http_proxy_to_wsgi oscomputeversionapp
[pipeline:oscomputeversion_v2]
pipeline = compute_req_id faultwrap request_log http_proxy_to_wsgi oscomputeversionapp_v2
[app:oscomputeversionapp]
paste.app_factory = nova.api.openstack.compute.versions:Versions.factory
[app:oscomputeversionapp_v2]
paste.app_factory = nova.api.openstack.compute.versions:VersionsV2.factory
[filter:keystonecontext]
paste.filter_factory = nova.api.auth:NovaKeystoneContext.factory
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
X
cat >"$ETC/cinder.conf" <<X
[DEFAULT]
log_file = $LOG/cinder.log
host = fake-volume-1
my_ip = 127.0.0.1
state_path = $OS_DIR
transport_url = fake:/
auth_strategy = keystone
api_paste_config = $ETC/cinder-paste.ini
osapi_volume_listen = 127.0.0.1
osapi_volume_listen_port = $PORT_CINDER
osapi_volume_workers = 1
quota_volumes = 200
enabled_backends = fake
glance_api_servers = http://127.0.0.1:$PORT_GLANCE
[fake]
volume_driver = dev_cinder.Driver
volume_backend_name = fake
[coordination]
backend_url = file://$OS_DIR/coord
[nova]
interface = public
$(svcuser)
[database]
$(conn cinder)
$(authtoken)
$(common)
X
# The fake driver that python3-cinder ships, plus the calls it lacks: an image is on a volume at once.
cat >"$OS_DIR/py/dev_cinder.py" <<'X'
from cinder.tests.fake_driver import FakeLoggingVolumeDriver


class Driver(FakeLoggingVolumeDriver):
    def extend_volume(self, volume, new_size):
        pass

    def clone_image(self, context, volume, image_location, image_meta, image_service):
        return {}, True
X
cat >"$ETC/cinder-paste.ini" <<'X'
[composite:osapi_volume]
use = call:cinder.api:root_app_factory
/: apiversions
/v3: openstack_volume_api_v3
[composite:openstack_volume_api_v3]
use = call:cinder.api.middleware.auth:pipeline_factory
keystone = request_id http_proxy_to_wsgi faultwrap sizelimit authtoken keystonecontext apiv3
[filter:http_proxy_to_wsgi]
paste.filter_factory = oslo_middleware.http_proxy_to_wsgi:HTTPProxyToWSGI.factory
[filter:faultwrap]
paste.filter_factory = cinder.api.middleware.fault:FaultWrapper.factory
[filter:sizelimit]
paste.filter_factory = oslo_middleware.sizelimit:RequestBodySizeLimiter.factory
[app:apiv3]
paste.app_factory = cinder.api.v3.router:APIRouter.factory
[pipeline:apiversions]
pipeline = request_id http_proxy_to_wsgi faultwrap osvolumeversionapp
[app:osvolumeversionapp]
paste.app_factory = cinder.api.versions:Versions.factory
[filter:keystonecontext]
paste.filter_factory = cinder.api.middleware.auth:CinderKeystoneContext.factory
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
[filter:request_id]
paste.filter_factory = cinder.api.middleware.request_id:RequestId.factory
X

# 3. Databases (SQLite files in WAL mode), once each; two at a time.
manage() { # manage MODULE CONF ARGS...: a project's *-manage, without the package that holds the script
  local mod=$1 conf=$2; shift 2
  $PY -c "import sys; sys.argv[0]='$mod'; from $mod import main; sys.exit(main())" --config-file "$ETC/$conf.conf" "$@" >>"$LOG/dbsync.log" 2>&1
}
wal() { $PY -c "import sqlite3,sys; [sqlite3.connect(f).execute('PRAGMA journal_mode=WAL') for f in sys.argv[1:]]" "$@"; }
init_keystone() {
  manage keystone.cmd.manage keystone db_sync
  manage keystone.cmd.manage keystone fernet_setup --keystone-user root --keystone-group root
  manage keystone.cmd.manage keystone credential_setup --keystone-user root --keystone-group root
  manage keystone.cmd.manage keystone bootstrap --bootstrap-password "$OS_PASS" --bootstrap-region-id RegionOne \
    --bootstrap-admin-url "http://127.0.0.1:$PORT_KEYSTONE/v3" --bootstrap-public-url "http://127.0.0.1:$PORT_KEYSTONE/v3" \
    --bootstrap-internal-url "http://127.0.0.1:$PORT_KEYSTONE/v3"
  wal "$DB/keystone.sqlite"
}
init_placement() { manage placement.cmd.manage placement db sync; wal "$DB/placement.sqlite"; }
init_glance() { manage glance.cmd.manage glance db_sync; wal "$DB/glance.sqlite"; }
init_neutron() { # neutron's migrations do not run on SQLite: create the head schema, then stamp it
  $PY - >>"$LOG/dbsync.log" 2>&1 <<X
import sqlalchemy as sa
from neutron.db.migration.models import head
head.get_metadata().create_all(sa.create_engine('sqlite:///$DB/neutron.sqlite'))
X
  manage neutron.db.migration.cli neutron stamp heads
  wal "$DB/neutron.sqlite"
}
init_nova() {
  manage nova.cmd.manage nova api_db sync
  manage nova.cmd.manage nova cell_v2 map_cell0 --database_connection "sqlite:///$DB/nova_cell0.sqlite"
  manage nova.cmd.manage nova db sync
  manage nova.cmd.manage nova cell_v2 create_cell --name cell1 --database_connection "sqlite:///$DB/nova.sqlite" --transport-url fake:/
  wal "$DB"/nova{,_api,_cell0}.sqlite
}
init_cinder() { manage cinder.cmd.manage cinder db sync; wal "$DB/cinder.sqlite"; }
inits=()
for s in $SERVICES; do
  [ -e "$DB/$s.done" ] && continue
  ( init_$s && touch "$DB/$s.done" && say "database of $s" ) & inits+=($!)
  [ ${#inits[@]} -ge 2 ] && { wait "${inits[0]}"; inits=("${inits[@]:1}"); }
done
for p in "${inits[@]:-}"; do [ -z "$p" ] || wait "$p"; done
say "databases ready"

# 4. Start what is not running, then seed over the APIs.
running() { [ -e "$PID/$1" ] && grep -q osrun.py "/proc/$(cat "$PID/$1")/cmdline" 2>/dev/null; }
start() {
	if running "$1"; then return; fi
	local port=PORT_${1^^}
	if (exec 3<>"/dev/tcp/127.0.0.1/${!port}") 2>/dev/null; then die "port ${!port} of $1 is taken: set TOLLGATE_OPENSTACK_PORT"; fi
	if [ "$1" = nova ]; then rm -f "$OS_DIR/nova.ready"; fi
	setsid $PY "$HERE/osrun.py" "$1" >>"$LOG/$1.out" 2>&1 </dev/null 9>&- &
	echo $! >"$PID/$1"
}
# seed runs the seeding and ends with the log of a service that died meanwhile.
seed() {
	"$HERE/seed.py" "$@" && return
	for s in $SERVICES; do
		if [ -e "$PID/$s" ] && ! running "$s"; then tail -20 "$LOG/$s.out" >&2; die "$s ended, see $LOG/$s.out"; fi
	done
	die "not ready, see $LOG"
}
start keystone
seed identity
say "identity ready"
for s in $SERVICES; do start "$s"; done
(seed) >"$OS_DIR/ids"
# A consistent copy of the freshly seeded databases: "down.sh --reset" goes back to it.
if [ ! -d "$OS_DIR/pristine" ]; then
	mkdir -p "$OS_DIR/pristine.tmp"
	$PY - "$OS_DIR/pristine.tmp" "$DB"/*.sqlite <<'X'
import os
import sqlite3
import sys
for f in sys.argv[2:]:
    with sqlite3.connect(f) as a, sqlite3.connect(os.path.join(sys.argv[1], os.path.basename(f))) as b:
        a.backup(b)
X
	mv "$OS_DIR/pristine.tmp" "$OS_DIR/pristine"
fi
(
	umask 077
	{
		echo "clouds:"
		for u in demo admin; do
			cat <<X
  $u:
    region_name: RegionOne
    auth: {auth_url: "http://127.0.0.1:$PORT_KEYSTONE/v3", username: $u, password: $OS_PASS, project_name: $u, user_domain_id: default, project_domain_id: default}
X
		done
	} >"$OS_DIR/clouds.yaml"
	{
		echo "export OS_CLIENT_CONFIG_FILE=$OS_DIR/clouds.yaml OS_CLOUD=demo TOLLGATE_OPENSTACK=http://127.0.0.1:$PORT_KEYSTONE/v3 TOLLGATE_OPENSTACK_PASSWORD=$OS_PASS"
		sed 's/^/export TOLLGATE_OPENSTACK_/' "$OS_DIR/ids"
	} >"$OS_DIR/openrc"
)
say "ready: . $OS_DIR/openrc"
