# shellcheck shell=bash
# What ./dev and the scripts beside this file share: messages, arguments, packages. To be sourced, from the root.

# Debian's Python: another one on the PATH does not see Debian's packages.
python=/usr/bin/python3
export python

say() { printf '%s\n' "$*" >&2; }

# fail CODE MESSAGE
fail() {
  local code=$1
  shift
  say "error: $*"
  exit "$code"
}

# wrong_argument COMMAND ARGUMENT
wrong_argument() { fail 2 "./dev $1 does not take '$2' (./dev $1 --help)"; }

# value_of --flag VALUE ...: prints VALUE.
value_of() {
  (($# >= 2)) || fail 2 "$1 needs a value"
  printf '%s\n' "$2"
}

# as_root COMMAND...: runs it as root, or says what to run.
as_root() {
  if ((EUID == 0)); then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail 1 "this needs root, and there is no sudo. Run as root, then try again:
  $*"
  fi
}

# Prints the packages of a group in tools/packages.txt that are not installed, one a line.
missing_packages() {
  local packages
  mapfile -t packages < <(awk -v group="$1" '$1 == group { print $2 }' tools/packages.txt)
  dpkg-query --show --showformat='${db:Status-Status} ${binary:Package}\n' "${packages[@]}" 2>/dev/null |
    awk -v all="${packages[*]}" '
      $1 == "installed" { sub(/:.*/, "", $2); have[$2] = 1 }
      END { n = split(all, names, " "); for (i = 1; i <= n; i++) if (!(names[i] in have)) print names[i] }'
}

# install_group GROUP: installs what is missing of a group, and says what.
install_group() {
  local missing
  command -v dpkg-query >/dev/null || fail 1 "this is not a Debian system; what is needed is in tools/packages.txt"
  mapfile -t missing < <(missing_packages "$1")
  ((${#missing[@]})) || return 0
  say "installing ${#missing[@]} Debian packages:"
  awk -v group="$1" -v missing=" ${missing[*]} " '
    $1 == group && index(missing, " " $2 " ") { name = $2; sub(/.*# /, ""); printf "  %-24s %s\n", name, $0 }
  ' tools/packages.txt >&2
  apt_install "${missing[@]}"
}

apt_install() {
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends
    -o DPkg::Lock::Timeout=600 "$@")
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    fail 1 "installing needs root, and there is no sudo. Run as root, then try again:
  apt-get update && ${install[*]}"
  fi
  # apt's chatter goes to stderr: stdout is for what a command was asked for.
  as_root apt-get update --quiet -o DPkg::Lock::Timeout=600 >&2 || fail 1 "apt-get update failed"
  as_root "${install[@]}" >&2 || fail 1 "apt-get could not install: $*"
}
