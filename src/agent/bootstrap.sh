#!/bin/sh
# Spotbroker: makes this machine a node. Safe to run again.
set -u
umask 077
trap 'exit 143' TERM INT HUP # the first process of a Pod has no other way to end
dir=${SPOT_AGENT_DIR:-/var/lib/spot-agent}
url='@URL@'
mkdir -p "$dir" && cd "$dir" || exit 1
cat >ca.pem <<'EOF'
@CA_PEM@
EOF
ca=
while IFS= read -r line; do [ -z "$line" ] || ca="$ca$line\\n"; done <ca.pem
cat >boot.json.new <<EOF
{"url":"$url","ca_pem":"$ca","token":"@TOKEN@","provider":"@PROVIDER@","install":"@INSTALL@","node":"@NODE@"}
EOF
mv boot.json.new boot.json || exit 1

say() { echo "spot-agent: $*" >&2; }
arch=$(uname -m) sfx= agent='@AGENT_SHA256@' nvml='@NVML_SHA256@'
case $arch in
x86_64 | amd64) ;;
aarch64 | arm64) sfx=-aarch64 agent='@AGENT_SHA256_ARM64@' nvml='@NVML_SHA256_ARM64@' ;;
*) agent= ;;
esac
[ -n "$agent" ] || { say "the daemon has no spot-agent for $arch: put one into its agent_dir"; exit 1; }

sum() { # images have one or the other
	if command -v sha256sum >/dev/null; then sha256sum "$1"
	elif command -v openssl >/dev/null; then openssl dgst -sha256 -r "$1"
	else python3 -c 'import hashlib,sys; print(hashlib.sha256(open(sys.argv[1],"rb").read()).hexdigest())' "$1"; fi
}
is() { [ -f "$1" ] && [ "$(sum "$1" 2>/dev/null | cut -c1-64)" = "$2" ]; }
load() { # program, sha256
	from=$url/v1/agent/download/$1$sfx pin="X-Sha256: $2"
	if command -v curl >/dev/null; then
		curl -fsS --connect-timeout 10 --max-time 300 ${ca:+--cacert ca.pem} -H "$pin" -o "$1.new" "$from"
	elif command -v wget >/dev/null; then
		wget -q -T 30 ${ca:+--ca-certificate=ca.pem} --header="$pin" -O "$1.new" "$from"
	elif command -v python3 >/dev/null; then
		python3 -c 'import shutil,ssl,sys,urllib.request as u
c = ssl.create_default_context(cafile=sys.argv[3] or None) if sys.argv[1][:5] == "https" else None
shutil.copyfileobj(u.urlopen(u.Request(sys.argv[1], headers={"X-Sha256": sys.argv[4]}), timeout=30, context=c), open(sys.argv[2], "wb"))' "$from" "$1.new" "${ca:+ca.pem}" "$2"
	else
		say 'nothing to download with: the image needs curl, wget or python3'; exit 1
	fi
}
get() { # program, sha256, tries: only the pinned bytes are ever run
	n=0
	until is "$1" "$2"; do
		[ $n -lt "$3" ] || return 1
		[ $n = 0 ] || sleep 5
		n=$((n + 1))
		load "$1" "$2" && is "$1.new" "$2" && chmod 700 "$1.new" && mv -f "$1.new" "$1"
	done
}
get spot-agent "$agent" 120 || { say "no download with the right SHA-256 for $arch"; exit 1; }
[ -z "$nvml" ] || get spot-nvml "$nvml" 2 || say 'no spot-nvml: GPU facts come from nvidia-smi'

if [ -z "${SPOT_AGENT_DIR:-}" ] && [ "$(id -u)" = 0 ] && [ -d /run/systemd/system ]; then
	# Exit 0 of the agent means: this machine has done its work, stop paying for it.
	cat >/etc/systemd/system/spot-agent.service <<EOF
[Unit]
Description=Spotbroker agent
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0
SuccessAction=poweroff
[Service]
ExecStart=$dir/spot-agent --dir $dir
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=3
KillMode=process
Delegate=yes
OOMScoreAdjust=-900
LimitMEMLOCK=infinity
TasksMax=infinity
[Install]
WantedBy=multi-user.target
EOF
	systemctl daemon-reload && systemctl enable spot-agent && exec systemctl restart spot-agent
fi

stop= pid= wait=1
trap 'stop=1; [ -z "$pid" ] || kill "$pid" 2>/dev/null' TERM INT HUP
while [ -z "$stop" ]; do
	began=$(date +%s)
	"$dir/spot-agent" --dir "$dir" &
	pid=$!
	wait $pid
	rc=$?
	# A trap ends a wait, not the agent: in a Pod it saves the job first, and all ends with us.
	while [ -n "$stop" ] && kill -0 $pid 2>/dev/null; do wait $pid; rc=$?; done
	[ -z "$stop" ] || { [ $rc = 0 ] && exit 0; exit 143; }
	[ $rc != 3 ] || exit 3
	[ $rc != 0 ] || break
	[ $(($(date +%s) - began)) -lt 60 ] || wait=1
	sleep $wait & wait $!
	wait=$((wait < 16 ? wait * 2 : 30))
done
[ -z "$stop" ] || exit 143
case '@PROVIDER@' in coreweave | kubernetes) exit 0 ;; esac # the Pod ends with us
[ -n "${SPOT_AGENT_DIR:-}" ] || [ "$(id -u)" != 0 ] || poweroff
