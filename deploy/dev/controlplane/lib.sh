# Parts of the scripts that run control planes on this machine. It is sourced by
# ../kubernetes/*.sh and ../gardener/*.sh.
#
# Programs are built once into the user's cache, under the hash of what pins
# them. Everything else of a cluster is in its run directory: keys, data, logs,
# pids and the kubeconfig. Everything listens on 127.0.0.1 only.

CONTROLPLANE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/tollgate
BUILD=$CACHE/controlplane/$(cat "$CONTROLPLANE/go.mod" "$CONTROLPLANE/go.sum" | sha256sum | cut -c1-24)
readonly CONTROLPLANE CACHE BUILD

STARTED_AT=${EPOCHREALTIME/[.,]/}

# say prints a line of progress with the seconds since the start.
say() {
	local us=$((${EPOCHREALTIME/[.,]/} - STARTED_AT))
	printf '[%3d.%d s] %s\n' $((us / 1000000)) $((us % 1000000 / 100000)) "$*"
}

fail() {
	say "$*" >&2
	exit 1
}

# usage prints the comment at the top of a script.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$1"; }

# need checks that the programs are there that the scripts use.
need() {
	local tool missing=
	for tool in "$@"; do command -v "$tool" >/dev/null || missing="$missing $tool"; done
	[ -z "$missing" ] || fail "missing:$missing. On Debian: apt-get install openssl curl util-linux; Go is on https://go.dev/dl"
}

# in_run_dir makes the run directory and keeps other scripts out of it.
in_run_dir() {
	mkdir -p "$RUN_DIR/pki"
	RUN_DIR=$(cd "$RUN_DIR" && pwd)
	PKI=$RUN_DIR/pki
	exec 9>"$RUN_DIR/lock"
	flock -n 9 || {
		say "waiting for another script in $RUN_DIR"
		flock 9
	}
}

## Programs

# build makes a program unless the cache has it: name, package, linker flags.
build() {
	local name=$1 package=$2 flags=${3:-}
	[ -x "$BUILD/$name" ] && return
	mkdir -p "$BUILD"
	(
		flock 8
		[ -x "$BUILD/$name" ] && exit
		say "building $name once; all of them take about 5 minutes on two cores"
		(while sleep 20; do say "still building $name"; done) &
		ticker=$!
		trap 'kill $ticker 2>/dev/null' EXIT
		cd "$CONTROLPLANE"
		GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 nice go build -trimpath -ldflags "-s -w $flags" -o "$BUILD/$name.new" "$package"
		mv "$BUILD/$name.new" "$BUILD/$name"
		say "built $name"
	) 8>"$CACHE/controlplane/build.lock" 9>&-
}

# version_flags are the linker flags for what a server calls itself: module.
version_flags() {
	local v
	v=$(sed -n "s|^\t$1 \(v[0-9.]*\)$|\1|p" "$CONTROLPLANE/go.mod")
	local major=${v#v} minor=${v#v*.}
	local p=k8s.io/component-base/version
	echo "-X $p.gitVersion=$v -X $p.gitMajor=${major%%.*} -X $p.gitMinor=${minor%%.*}"
}

build_kubernetes() {
	build etcd go.etcd.io/etcd/server/v3
	build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "$(version_flags k8s.io/kubernetes)"
}

## Keys

ssl() { openssl "$@" 2>>"$RUN_DIR/openssl.log" || fail "openssl $1 failed: see $RUN_DIR/openssl.log"; }

authority() { # name
	[ -s "$PKI/$1.crt" ] && return
	ssl ecparam -name prime256v1 -genkey -noout -out "$PKI/$1.key"
	ssl req -x509 -new -key "$PKI/$1.key" -days 3650 -subj "/CN=$1" -addext basicConstraints=critical,CA:TRUE \
		-addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature -out "$PKI/$1.crt"
}

# certificate: name, authority, subject, use, alternative names.
certificate() {
	[ -s "$PKI/$1.crt" ] && return
	ssl ecparam -name prime256v1 -genkey -noout -out "$PKI/$1.key"
	ssl req -new -key "$PKI/$1.key" -subj "$3" -out "$PKI/$1.csr"
	{
		echo "basicConstraints=CA:FALSE"
		echo "keyUsage=critical,digitalSignature"
		echo "extendedKeyUsage=$4"
		[ -z "${5:-}" ] || echo "subjectAltName=$5"
	} >"$PKI/$1.ext"
	ssl x509 -req -in "$PKI/$1.csr" -CA "$PKI/$2.crt" -CAkey "$PKI/$2.key" -CAcreateserial -days 3650 -extfile "$PKI/$1.ext" -out "$PKI/$1.crt"
}

make_keys() {
	authority ca
	authority front-proxy-ca
	certificate kube-apiserver ca /CN=kube-apiserver serverAuth "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.0.0.1"
	certificate admin ca /O=system:masters/CN=admin clientAuth
	certificate front-proxy front-proxy-ca /CN=front-proxy clientAuth
	[ -s "$PKI/sa.key" ] || ssl genrsa -out "$PKI/sa.key" 2048
	[ -s "$PKI/sa.pub" ] || ssl rsa -in "$PKI/sa.key" -pubout -out "$PKI/sa.pub"
}

base64_of() { base64 -w0 <"$PKI/$1"; }

write_kubeconfig() { # name
	(
		umask 077
		cat >"$RUN_DIR/kubeconfig.new" <<-K
			apiVersion: v1
			kind: Config
			clusters:
			- name: $1
			  cluster: {server: "https://127.0.0.1:$APISERVER_PORT", certificate-authority-data: $(base64_of ca.crt)}
			users:
			- name: admin
			  user: {client-certificate-data: $(base64_of admin.crt), client-key-data: $(base64_of admin.key)}
			contexts:
			- name: $1
			  context: {cluster: $1, user: admin}
			current-context: $1
		K
	)
	mv "$RUN_DIR/kubeconfig.new" "$RUN_DIR/kubeconfig"
}

## Processes

# alive: the process that was started under this name still is there.
alive() {
	local pid argv0
	[ -s "$RUN_DIR/$1.pid" ] || return 1
	pid=$(cat "$RUN_DIR/$1.pid")
	argv0=$(tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | head -n 1) || return 1
	[ "${argv0##*/}" = "$1" ]
}

# start: name, port, command. Another listener on the port would answer in the
# place of ours.
start() {
	local name=$1 port=$2
	shift 2
	alive "$name" && return
	if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then fail "port $port, which $name needs, is in use"; fi
	(cd "$RUN_DIR" && exec setsid "$@" >"$RUN_DIR/$name.log" 2>&1 </dev/null 9>&-) &
	echo $! >"$RUN_DIR/$name.pid"
}

# await: name, command. It waits until the command succeeds while the process
# lives.
await() {
	local name=$1
	shift
	for _ in $(seq 1200); do
		"$@" >/dev/null 2>&1 && return
		# Between fork and exec the process still has the name of the shell.
		kill -0 "$(cat "$RUN_DIR/$name.pid")" 2>/dev/null || {
			tail -n 20 "$RUN_DIR/$name.log" >&2
			fail "$name has ended: the whole log is $RUN_DIR/$name.log"
		}
		sleep 0.1
	done
	tail -n 20 "$RUN_DIR/$name.log" >&2
	fail "$name is not ready after two minutes: the whole log is $RUN_DIR/$name.log"
}

# stop ends a process that was started under this name, and no other. An open
# watch holds an API server for a minute: it gets two seconds.
stop() {
	local name=$1 pid
	alive "$name" || {
		rm -f "$RUN_DIR/$name.pid"
		return 0
	}
	pid=$(cat "$RUN_DIR/$name.pid")
	kill -TERM "$pid" 2>/dev/null
	for _ in $(seq 20); do
		alive "$name" || break
		sleep 0.1
	done
	alive "$name" && kill -KILL "$pid" 2>/dev/null
	for _ in $(seq 50); do
		alive "$name" || break
		sleep 0.1
	done
	rm -f "$RUN_DIR/$name.pid"
	say "$name stopped"
}

# follow_owner ends the cluster when the process OWNER_PID has ended: a test that
# is killed leaves nothing behind.
follow_owner() { # down.sh
	[ -n "${OWNER_PID:-}" ] || return 0
	alive tollgate-owner-watch && return
	RUN_DIR=$RUN_DIR setsid bash -c 'exec -a tollgate-owner-watch bash "$@"' _ \
		"$CONTROLPLANE/owner-watch.sh" "$OWNER_PID" "$1" </dev/null >/dev/null 2>&1 9>&- &
	echo $! >"$RUN_DIR/tollgate-owner-watch.pid"
}

## API

api() { curl -sS --noproxy '*' --cacert "$PKI/ca.crt" --cert "$PKI/admin.crt" --key "$PKI/admin.key" --max-time 10 "$@"; }

# answers: the path exists and is served.
answers() { api -f -o /dev/null "https://127.0.0.1:$APISERVER_PORT$1" 2>/dev/null; }

# post: path, content type; the object comes on standard input. One that is there
# already stays as it is.
post() {
	local code
	code=$(api -o "$RUN_DIR/answer" -w '%{http_code}' -H "Content-Type: $2" --data-binary @- "https://127.0.0.1:$APISERVER_PORT$1")
	case $code in
	201 | 409) ;;
	*) fail "POST $1: status $code: $(head -c 400 "$RUN_DIR/answer")" ;;
	esac
}

start_kubernetes() {
	start etcd "$ETCD_PORT" "$BUILD/etcd" --name=dev --data-dir="$RUN_DIR/etcd" --unsafe-no-fsync \
		--listen-client-urls="http://127.0.0.1:$ETCD_PORT" --advertise-client-urls="http://127.0.0.1:$ETCD_PORT" \
		--listen-peer-urls="http://127.0.0.1:$ETCD_PEER_PORT" --initial-advertise-peer-urls="http://127.0.0.1:$ETCD_PEER_PORT" \
		--initial-cluster="dev=http://127.0.0.1:$ETCD_PEER_PORT"
	await etcd curl -sf --noproxy '*' --max-time 2 "http://127.0.0.1:$ETCD_PORT/health"
	say "etcd is up"
	# shellcheck disable=SC2086 # the arguments are words
	start kube-apiserver "$APISERVER_PORT" "$BUILD/kube-apiserver" --etcd-servers="http://127.0.0.1:$ETCD_PORT" \
		--bind-address=127.0.0.1 --advertise-address=127.0.0.1 --secure-port="$APISERVER_PORT" \
		--tls-cert-file="$PKI/kube-apiserver.crt" --tls-private-key-file="$PKI/kube-apiserver.key" --client-ca-file="$PKI/ca.crt" \
		--requestheader-client-ca-file="$PKI/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy \
		--requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group \
		--requestheader-username-headers=X-Remote-User \
		--proxy-client-cert-file="$PKI/front-proxy.crt" --proxy-client-key-file="$PKI/front-proxy.key" \
		--service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$PKI/sa.pub" --service-account-signing-key-file="$PKI/sa.key" \
		--service-cluster-ip-range=10.0.0.0/24 --authorization-mode=RBAC --endpoint-reconciler-type=none \
		--disable-admission-plugins=ServiceAccount --allow-privileged=true ${APISERVER_ARGS:-}
	await kube-apiserver answers /readyz
	answers /api/v1/namespaces/kube-system || echo '{"metadata":{"name":"kube-system"}}' | post /api/v1/namespaces application/json
	answers /api/v1/namespaces/default || echo '{"metadata":{"name":"default"}}' | post /api/v1/namespaces application/json
	say "kube-apiserver is up"
}

# down: names of processes in the order in which they end.
down() {
	[ -d "$RUN_DIR" ] || return 0
	in_run_dir
	local name
	for name in "$@"; do stop "$name"; done
	if alive tollgate-owner-watch; then
		# Ended here, it would leave its cluster without a watch.
		alive etcd || alive kube-apiserver || kill "$(cat "$RUN_DIR/tollgate-owner-watch.pid")" 2>/dev/null || true
	fi
	if [ "${WIPE:-}" = 1 ]; then rm -rf "$RUN_DIR"; fi
}
