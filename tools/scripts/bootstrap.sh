# shellcheck shell=bash
# Sourced by tools/tracecast, tools/test and tools/lint: installs missing packages and builds. Messages go to stderr.
# The caller has set `root`, the top of the source tree.
: "${root:?}"

say() { printf '%s\n' "$*" >&2; }

# packages GROUP...: names of that group in tools/packages.txt.
packages() {
  local group
  for group in "$@"; do awk -v group="$group" '$1 == group { print $2 }' "$root/tools/packages.txt"; done
}

# missing_packages GROUP...: those that dpkg does not list as installed.
missing_packages() {
  local name
  for name in $(packages "$@"); do
    case $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) in
      installed) ;;
      *) echo "$name" ;;
    esac
  done
}

# apt_install PACKAGE...: as the caller's `as_root`. Where nothing that is installed changes, a crash in between can damage only what
# is new: then dpkg need not wait for the disk after each package, which takes three quarters of the time.
apt_install() {
  local install=(apt-get install -q --no-install-recommends) changed quickly=()
  changed=$("${install[@]}" -s "$@" 2>/dev/null | grep -E '^(Inst [^ ]+ \[|Remv )') || true
  [ -n "$changed" ] || quickly=(-o DPkg::Options::=--force-unsafe-io)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" -y "${quickly[@]}" "$@"
}

# need_packages GROUP...: installs missing packages, or names them in a message and exits with 3.
need_packages() {
  local missing as_root=()
  command -v dpkg-query >/dev/null || return 0  # not a Debian system: CMake reports missing packages
  missing=$(missing_packages "$@" | xargs)
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    else
      say "tracecast needs packages, which only root can install: sudo apt-get install $missing"
      exit 3
    fi
  fi
  say "Installing $missing"
  # First try with the existing package lists; a fresh machine has none yet.
  # shellcheck disable=SC2086  # one word per package
  apt_install $missing >&2 2>/dev/null || { "${as_root[@]}" apt-get update -q >&2 && apt_install $missing >&2; } ||
    { say "apt-get could not install: $missing"; exit 3; }
}

# configure PRESET GROUPS: makes build/PRESET, with settings that make a whole build take less time (tools/cmake/Unity.cmake,
# tests/CMakeLists.txt). Without the group `test` the tests are left out. Sanitizers name functions without lines: line tables take a
# sixth of the compile time; clang takes no longer for -O2 than for -O1, and tests take less.
configure() {
  local directory="$root/build/$1" settings=(-DTRACECAST_UNITY=ON -DTRACECAST_TESTS=OFF)
  case " $2 " in *" test "*) settings+=(-DTRACECAST_TESTS=ON) ;; esac
  case $1 in
    release) settings+=(-DTRACECAST_TESTS_OF=asan) ;;
    asan) settings+=(-DTRACECAST_SHARED_TESTS=ON -DCMAKE_CXX_FLAGS_DEBUG=-O2) ;;
  esac
  (cd "$root" && cmake --preset "$1" "${settings[@]}" >&2) || { rm -f "$directory/build.ninja"; return 1; }
  echo "$2" >"$directory/groups"
}

# is_configured PRESET GROUPS: whether build/PRESET was made for these groups, or by hand.
is_configured() {
  local directory="$root/build/$1" group
  [ -f "$directory/build.ninja" ] || return 1
  [ -f "$directory/groups" ] || return 0
  for group in $2; do grep -qw "$group" "$directory/groups" || return 1; done
}

# build PRESET GROUPS [TARGET...]: builds the targets (default: all) of build/PRESET; silent if they are up to date.
# One build at a time: a second call waits for the first.
build() {
  local preset=$1 groups=$2 directory="$root/build/$1"
  shift 2
  if ! is_configured "$preset" "$groups" || ! command -v ninja >/dev/null; then
    # shellcheck disable=SC2086  # one word per group
    need_packages $groups
  fi
  mkdir -p "$directory"
  (
    flock 9
    is_configured "$preset" "$groups" || configure "$preset" "$groups" || exit 1
    [ "$(ninja -C "$directory" -n "$@" 2>/dev/null | tail -n 1)" = "ninja: no work to do." ] ||
      GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ninja -C "$directory" "$@" >&2  # larger pages: clang takes 5 to 10 % less
  ) 9>"$root/build/.lock"
}
