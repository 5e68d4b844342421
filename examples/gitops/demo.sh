#!/bin/sh
# Syncs two repositories to the server of KUBECONFIG. README.md describes the steps.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cp -r "$source/platform" "$source/team" "$work"

# sync REPOSITORY: applies all files of a repository as its manager.
sync() { kubectl apply --server-side --field-manager="$1" --filename="$work/$1"; }
version() { kubectl get configmap shop --output=jsonpath='{.metadata.resourceVersion}'; }
field() { kubectl get configmap shop --output=jsonpath="{.data.$1}"; }
check() { [ "$1" = "$2" ] || { echo "expected '$2', found '$1'" >&2; exit 1; }; }

echo "== 1. Different fields"
sync platform
sync team
check "$(field currency),$(field checkout)" "EUR,express"
before=$(version)
sync platform
sync team
check "$(version)" "$before"
holdfast blame configmap shop

echo "== 2. The same field"
echo '  theme: dark' >> "$work/team/shop.yaml"
if sync team 2> "$work/error"; then
  echo "the sync should fail" >&2
  exit 1
fi
grep 'conflict with "platform": .data.theme' "$work/error"
check "$(field theme)" "light"

echo "== 3. The platform gives the field up"
sed -i '/theme:/d' "$work/platform/shop.yaml"
sync platform
sync team
check "$(field theme)" "dark"
holdfast blame configmap shop

echo "== 4. A file is removed"
rm "$work/team/menu.yaml"
kubectl delete configmap --selector=repository=team --ignore-not-found --output=name
check "$(kubectl get configmap menu --ignore-not-found --output=name)" ""
check "$(field currency)" "EUR"
echo "done"
