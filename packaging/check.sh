#!/usr/bin/env bash
# Checks the files that `cargo xtask dist` has made: checksums, archives, packages, image, and setup-envtest with the index.
# Programs that are missing are reported, and their checks are skipped, except with CI=true.
set -euo pipefail
files=$(realpath "$1")
work=$(mktemp --directory)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
have() {
  command -v "$1" >/dev/null && return
  [ -z "${CI:-}" ] || { echo "$1 is missing" >&2; exit 1; }
  echo "skipped: $1 is missing"
  return 1
}
cd "$files"

echo "== checksums"
sha256sum --check --quiet SHA256SUMS

echo "== archive"
architecture=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
archive=$(ls holdfast-*-linux-"$architecture".tar.gz)
tar --extract --gzip --file "$archive" --directory "$work"
folder=$work/${archive%.tar.gz}
"$folder/holdfast" version
for file in LICENSE README.md completions/holdfast man/holdfast.1 man/holdfast-blame.1; do test -s "$folder/$file"; done
"$folder/holdfast" run -- sh -c 'test -s "$KUBECONFIG"'

echo "== packages"
if have dpkg-deb; then
  package=$(ls holdfast-*-"$architecture".deb)
  dpkg-deb --extract "$package" "$work/deb"
  cmp "$folder/holdfast" "$work/deb/usr/bin/holdfast"
  grep --quiet '^ExecStart=/usr/bin/holdfast ' "$work/deb/usr/lib/systemd/system/holdfast.service"
  dpkg-deb --info "$package" | grep --quiet '/etc/default/holdfast\|conffiles'
fi
if have rpm2cpio && have cpio; then
  mkdir "$work/rpm"
  rpm2cpio holdfast-*-"$architecture".rpm | (cd "$work/rpm" && cpio --extract --make-directories --quiet)
  cmp "$folder/holdfast" "$work/rpm/usr/bin/holdfast"
fi

echo "== components"
if ls holdfast-*.cdx.json >/dev/null 2>&1; then
  for list in holdfast-*.cdx.json; do grep --quiet '"bomFormat": "CycloneDX"' "$list" && grep --quiet '"name": "rustls"' "$list"; done
fi

echo "== image"
if have skopeo; then skopeo inspect "oci-archive:$(ls holdfast-*-oci.tar)" >/dev/null; fi

echo "== setup-envtest"
if have setup-envtest && have python3; then
  # The index names the place of the release; here the files are on this machine.
  mkdir "$work/index"
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  sed "s|selfLink: .*/|selfLink: http://127.0.0.1:$port/|" envtest-releases.yaml > "$work/index/envtest-releases.yaml"
  ln --symbolic "$files"/envtest-v* "$work/index/"
  python3 -m http.server --directory "$work/index" --bind 127.0.0.1 "$port" 2>/dev/null &
  server=$!
  until python3 -c "import socket; socket.create_connection(('127.0.0.1', $port))" 2>/dev/null; do sleep 0.1; done
  version=$(sed -n 's/^  v\(.*\):$/\1/p' envtest-releases.yaml | head -1)
  assets=$(setup-envtest use "$version" --index "http://127.0.0.1:$port/envtest-releases.yaml" --bin-dir "$work/assets" --print path)
  cmp "$folder/holdfast" "$assets/kube-apiserver"
  cmp "$folder/holdfast" "$assets/etcd"
  "$assets/kube-apiserver" --version
fi
echo "all files are right"
