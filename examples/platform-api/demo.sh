#!/bin/sh
# Installs the API in the server of KUBECONFIG, starts the controller, and orders databases as a team.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
check() { [ "$1" = "$2" ] || { echo "expected '$2', found '$1'" >&2; exit 1; }; }

echo "== Install the API"
for file in api policy team; do kubectl apply --server-side --field-manager=platform --filename="$folder/$file.yaml"; done
kubectl wait --for=condition=Established crd/databases.platform.example.com
sh "$folder/controller.sh" > /dev/null 2>&1 &
controller=$!
trap 'kill $controller 2> /dev/null || true' EXIT

echo "== Order as the team"
token=$(kubectl create token deployer --namespace=team-shop)
server=$(kubectl config view --minify --output=jsonpath='{.clusters[0].cluster.server}')
authority=$(mktemp)
kubectl config view --raw --minify --output=jsonpath='{.clusters[0].cluster.certificate-authority-data}' | base64 -d > "$authority"
team() { kubectl --kubeconfig=/dev/null --server="$server" --certificate-authority="$authority" --token="$token" --namespace=team-shop "$@"; }
# order NAME SIZE: applies a Database.
order() {
  printf '{"apiVersion": "platform.example.com/v1", "kind": "Database", "metadata": {"name": "%s"}, "spec": {"engine": "postgres", "gigabytes": %s}}' "$1" "$2" |
    team apply --server-side --field-manager=shop --filename=-
}
order orders 20
team wait --for=jsonpath='{.status.phase}'=Ready database/orders --timeout=30s
check "$(team get secret orders-connection --output=jsonpath='{.data.url}' | base64 -d)" "postgres://orders.team-shop.databases.example.com"

echo "== What is not allowed"
# refused TEXT COMMAND…: the command fails with this text.
refused() {
  text=$1
  shift
  if "$@" > /dev/null 2> "$authority.error"; then echo "'$*' should fail" >&2; exit 1; fi
  grep --only-matching "$text" "$authority.error"
}
refused 'a database never shrinks' order orders 10
refused 'a database of 500 GB needs the annotation platform.example.com/approved-by' order archive 500
refused 'cannot list resource "secrets"' team get secrets
order users 10
refused 'exceeded quota: databases' order mails 10

echo "== Delete"
team delete database orders
until [ -z "$(kubectl get secret orders-connection --namespace=team-shop --ignore-not-found --output=name)" ]; do sleep 0.1; done
kubectl get databases --all-namespaces
rm "$authority" "$authority.error"
echo "done"
