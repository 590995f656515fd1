#!/usr/bin/env bash
# Runs commands on a minimal Debian with Go, git and make, which is all that README requires of a
# machine: as root, and as an ordinary user who may run sudo. Each run has a copy of the system
# with a clone of this checkout's HEAD, in a mount namespace of its own, and leaves nothing behind.
#
# Processes are in the PID namespace of the host, as are the control groups: palyrad names its groups
# by process id, and another palyrad on the host removes groups of processes that it cannot see.
#
#   SUITE    release of Debian, bookworm by default
#   FRESH    command to run instead of make demo and make test
#   AS       root or user, to run as one of them only
#   MIRROR   mirror of Debian; by default the one that this system uses
#
# The machine gets the settings by which this one reaches Debian, Go and npm packages: mirror,
# proxies, certificate authorities, registries. The system without the checkout is kept in
# /var/cache/palyra-fresh.
set -euo pipefail

suite=${SUITE:-bookworm}
command=${FRESH:-'DEMO_APPROVE=allow make demo && make test'}
as=${AS:-root user}
go=${GO:-go}

if [[ $(uname -s) != Linux ]] || ((EUID != 0)); then
  echo "making a fresh machine: it needs Linux and root, for chroot, mounts and namespaces; run it with sudo -E" >&2
  exit 1
fi
cd "$(dirname "$0")/.."
scripts/deps.sh /usr/sbin/debootstrap=debootstrap unshare=util-linux setpriv=util-linux git=git

cache=/var/cache/palyra-fresh
root=
machine=
cleanup() {
  local status=$?
  trap "" INT TERM HUP
  if [[ -n $machine ]]; then
    kill -KILL -- "-$machine" 2>/dev/null || true
    wait "$machine" 2>/dev/null || true
  fi
  remove_machine || true
  exit "$status"
}

# remove_machine ends every process whose root directory is that of the machine, with which its
# mounts end, and removes the directory.
remove_machine() {
  local process found=1
  if [[ -z $root ]]; then return; fi
  while [[ -n $found ]]; do
    found=
    for process in /proc/[0-9]*; do
      if [[ $process/root/start -ef $root/start ]]; then
        kill -KILL "${process#/proc/}" 2>/dev/null || true
        found=1
      fi
    done
    if [[ -n $found ]]; then sleep 0.2; fi
  done
  if ! rm -rf --one-file-system "$root"; then
    echo "making a fresh machine: $root could not be removed" >&2
    return 1
  fi
  root=
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- the system that all runs copy
here=$(. /etc/os-release && echo "${ID:-} ${VERSION_CODENAME:-}")
mirror=${MIRROR:-$(scripts/debian-mirror.sh)}
base=$cache/$suite
if [[ ! -e $base/.done ]]; then
  echo "== debootstrap $suite"
  mkdir -p "$cache"
  rm -rf "$base"
  if ! debootstrap --variant=minbase --include=ca-certificates,git,make,sudo "$suite" "$base" ${mirror:+"$mirror"} >"$cache/$suite.log" 2>&1; then
    tail -n 5 "$cache/$suite.log" >&2
    echo "making a fresh machine: debootstrap failed; $cache/$suite.log has its output. Does the mirror have $suite?" >&2
    exit 1
  fi
  touch "$base/.done"
fi

# --- settings that depend on the network of this machine
settings() { # settings ROOT: the files
  local file
  # The suites of this system's sources, security updates included, become those of the machine.
  if [[ -z ${MIRROR:-} && $here == debian\ * ]]; then
    rm -f "$1/etc/apt/sources.list"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
      if [[ -s $file ]]; then sed "s/\b${here#* }\b/$suite/g" "$file" >"$1$file"; fi
    done
  fi
  for file in $(grep -ls '^ *Acquire::' /etc/apt/apt.conf /etc/apt/apt.conf.d/*) /etc/resolv.conf /etc/hosts /etc/pip.conf \
    /usr/local/share/ca-certificates/*.crt /etc/ssl/certs/ca-certificates.crt; do
    if [[ -f $file ]]; then install -Dm644 "$file" "$1$file"; fi
  done
  file=$(npm config get globalconfig 2>/dev/null || true)
  if [[ -f $file ]]; then install -Dm644 "$file" "$1/etc/npmrc"; fi
}
home_settings() { # home_settings HOME
  mkdir -p "$1/.config/go"
  # `go env` prints what is set by the environment and by the user's own file alike.
  for name in GOPROXY GONOPROXY GOPRIVATE GOSUMDB GONOSUMDB GOINSECURE GOVCS; do
    printf '%s=%s\n' "$name" "$("$go" env "$name")"
  done >"$1/.config/go/env"
  if [[ -f ~/.npmrc ]]; then install -m600 ~/.npmrc "$1/.npmrc"; fi
  if [[ -f ~/.config/pip/pip.conf ]]; then install -Dm600 ~/.config/pip/pip.conf "$1/.config/pip/pip.conf"; fi
}
variables() {
  local name
  for name in $(compgen -e | grep -iE '^(https?_proxy|no_proxy|npm_config_.*|pip_(index_url|extra_index_url|cert)|ssl_cert_(file|dir)|node_extra_ca_certs)$'); do
    printf 'export %s=%q\n' "$name" "${!name}"
  done
}

# run_as USER runs the command and sets status to its exit status.
run_as() {
  local user=$1 home
  status=0
  root=$(mktemp -d /var/tmp/palyra-fresh.XXXXXX)
  chmod 755 "$root"
  cp -a --reflink=auto "$base/." "$root"
  settings "$root"
  home=/root
  if [[ $user != root ]]; then
    chroot "$root" useradd -m -s /bin/bash "$user"
    echo "$user ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$user"
    home=/home/$user
  fi
  home_settings "$root$home"
  git clone -q --no-hardlinks "file://$PWD" "$root$home/palyra"
  chroot "$root" chown -R "$user:" "$home"
  {
    variables
    printf 'export PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=%q USER=%q LANG=C.UTF-8\n' "$home" "$user"
    printf 'cd %q/palyra\n%s\n' "$home" "$command"
  } >"$root/start"
  mkdir -p "$root/old" "$root/usr/local/go"

  # Job control puts the machine into a process group, in which interrupts are not ignored.
  set -m
  ROOT=$root AS_USER=$user GOROOT=$("$go" env GOROOT) unshare --mount --propagation private bash -euc '
    mount --bind "$ROOT" "$ROOT"
    cd "$ROOT"
    mount --rbind "$GOROOT" usr/local/go
    mount -o remount,bind,ro usr/local/go
    mount -t proc proc proc
    mount --rbind /sys sys
    mount -t tmpfs -o mode=755 dev dev
    mkdir dev/pts dev/shm
    for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"; done
    mknod -m 666 dev/tty c 5 0
    mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
    ln -s pts/ptmx dev/ptmx
    mount -t tmpfs -o mode=1777 shm dev/shm
    ln -s /proc/self/fd dev/fd
    ln -s fd/0 dev/stdin
    ln -s fd/1 dev/stdout
    ln -s fd/2 dev/stderr
    pivot_root . old
    cd /
    umount -l /old
    rmdir /old
    user=$AS_USER
    unset ROOT AS_USER GOROOT
    exec setpriv --reuid "$user" --regid "$user" --init-groups bash -e /start
  ' </dev/null &
  machine=$!
  set +m
  wait "$machine" || status=$?
  machine=
  remove_machine
}

failed=0
summary=()
for name in $as; do
  case $name in
    root) user=root ;;
    user) user=newcomer ;;
    *)
      echo "AS is \"$as\"; set it to root or user, or leave it empty for both" >&2
      exit 2
      ;;
  esac
  echo "== $suite as $user: $command"
  start=$SECONDS
  result=ok
  run_as "$user"
  if ((status != 0)); then result="FAIL (exit status $status)" failed=1; fi
  took=$((SECONDS - start))
  summary+=("$(printf '%s as %-8s %s, %dm%02ds' "$suite" "$user" "$result" $((took / 60)) $((took % 60)))")
done
echo "== fresh machines"
printf '%s\n' "${summary[@]}"
exit "$failed"
