# Runs the proxy with the given flags in this network namespace and prints what its metrics address answers.
set -eu
ip link set lo up
ip address add 192.168.0.2/24 dev lo
ip address add fd00:192:168::2/64 dev lo nodad
log=$(mktemp)
"$BUN" src/main.ts --manifests "$MANIFESTS" --proxy-mode nftables --hostname-override node-1 --conntrack-max-per-core 0 \
  --cluster-cidr 10.244.0.0/16,fd00:10:244::/56 --healthz-bind-address 127.0.0.1:10256 "$@" >"$log" 2>&1 &
proxy=$!
end() { kill "$proxy" 2>/dev/null || true; wait "$proxy" || true; rm -f "$log"; }
trap end EXIT
healthy=
for _ in $(seq 120); do
  if curl -sf -o /dev/null http://127.0.0.1:10256/healthz; then healthy=yes; break; fi
  sleep 0.25
done
[ -n "$healthy" ] || { cat "$log" >&2; exit 1; }
at=http://127.0.0.1:10249
code=0; curl -s -o /dev/null $at/ || code=$?
[ "$code" != 7 ] || { echo refused; exit 0; }
echo "page $(curl -s -o /dev/null -w '%{http_code} %{content_type}' $at/)"
echo "explain $(curl -s "$at/explain?from=external&to=198.51.100.5:80")"
echo "services $(curl -s "$at/services.json?q=web")"
echo "history $(curl -s $at/history.json)"
