# Writes the rules of MANIFESTS in MODE (with GATES) into this network namespace and explains packets with --live; one line an answer.
set -eu
proxy() { "$BUN" src/main.ts "$@" --manifests "$MANIFESTS" --mode "$MODE" --cluster-cidr 10.244.0.0/16,fd00:10:244::/56 --nodeport-addresses primary ${GATES:+--feature-gates "$GATES"}; }
ask() { # NAME FROM TO [CODE]
  set +e
  answer=$(proxy explain --live --from "$2" --to "$3" --output json); code=$?
  set -e
  [ "$code" = "${4:-0}" ] || { echo "exit code $code for $1: $answer" >&2; exit 1; }
  echo "$1 $(echo "$answer" | tr -d '\n')"
}
ip link set lo up
ip address add 192.168.0.2/24 dev lo
ip address add fd00:192:168::2/64 dev lo nodad
rules=$(mktemp)
variant=nft
case $(iptables --version) in *legacy*) variant=legacy ;; esac
proxy render --iptables-variant $variant >"$rules"
sh "$rules" >/dev/null 2>"$rules.err" || { cat "$rules.err" >&2; exit 1; }
ask pod 10.244.1.5 10.96.0.10:80
ask outside external 198.51.100.5:80
ask node node 192.168.0.2:30080
ask denied 192.0.2.99 198.51.100.5:80
ask refused pod 10.96.0.10:53/udp
case $MODE in
  nftables) nft delete element ip kube-proxy service-ips '{ 10.96.0.10 . tcp . 80 }' ;;
  iptables) iptables -t nat -D KUBE-SERVICES "$(iptables -t nat -S KUBE-SERVICES | grep -n -- '-d 10.96.0.10/32' | head -1 | cut -d: -f1 | { read n; echo $((n - 1)); })" ;;
  ipvs) ipvsadm -D -t 10.96.0.10:80 ;;
esac
ask removed 10.244.1.5 10.96.0.10:80 1
rm -f "$rules" "$rules.err"
