#!/bin/bash
# Debian's nfs-ganesha as a server under proof: private configuration and state, an unprivileged port, NFSv4 alone.
#
#   ganesha.sh start PROFILE DIR PORT [ADDRESS]   print "PID PORT" once the server accepts connections
#   ganesha.sh stop DIR                           end it and wait until it is gone
#   ganesha.sh version
#
# DIR holds everything: DIR/shares/NAME are the served directories, DIR/server/ is the server's own. The shares are those of
# README.md in this folder, each at /NAME below one root. Needs root (Ganesha opens files by their handles) and the
# Debian packages nfs-ganesha and nfs-ganesha-vfs, or with GENERATION=newer what scripts/foreign unpacked of this year's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

root=
if is_newer; then root=$(newer_root ganesha-newer); fi
ganesha() { # ARGUMENT ...
  if is_newer; then from_root "$root" /usr/bin/ganesha.nfsd "$@"; else /usr/bin/ganesha.nfsd "$@"; fi
}

# Where the program looks for what serves a directory of the host.
plugins() {
  local found=("$root"/usr/lib/*/ganesha/libfsalvfs.so)
  found=$(dirname "${found[0]}")
  echo "${found#"$root"}"
}

present() {
  [[ -x $root/usr/bin/ganesha.nfsd ]] && return
  if is_newer; then die "$root is missing: scripts/foreign all"; fi
  die "ganesha.nfsd is missing: apt-get install nfs-ganesha nfs-ganesha-vfs"
}

export_of() { # NUMBER NAME
  cat <<CONF
EXPORT {
  Export_Id = $1;
  Path = $dir/shares/$2;
  Pseudo = /$2;
  Access_Type = RW;
  Squash = No_Root_Squash;
  SecType = sys, none;
  Protocols = 4;
  Transports = TCP;
  FSAL { Name = VFS; }
}
CONF
}

write_config() {
  local name number=0 lease=90 graceless=true core=()
  # It asks the kernel for a privilege that no container has, and needs it only where its disk is its own client.
  if is_newer; then core=('  allow_set_io_flusher_fail = true;'); fi
  case $profile in
    default | nfs | bench) ;;
    # Tests wait for leases to run out, and reclaim what they held before a restart.
    pynfs) lease=10 graceless=false ;;
    pynfs-reboot) lease=60 graceless=false ;;
    *) die "unknown profile $profile" ;;
  esac
  {
    cat <<CONF
NFS_CORE_PARAM {
  NFS_Port = $port;
  Bind_addr = $address;
  Protocols = 4;
  Enable_UDP = false;
  Enable_NLM = false;
  Enable_RQUOTA = false;
  Plugins_Dir = $(plugins);
$(printf '%s\n' "${core[@]}")
}
NFSV4 {
  Minor_Versions = 1, 2;
  Only_Numeric_Owners = true;
  Lease_Lifetime = $lease;
  Grace_Period = $lease;
  Graceless = $graceless;
  RecoveryBackend = fs;
  RecoveryRoot = $state/recovery;
}
LOG { Default_Log_Level = WARN; }
CONF
    for name in $ALL_SHARES; do
      number=$((number + 1))
      export_of "$number" "$name"
    done
  } >"$state/ganesha.conf"
}

start() {
  need_root
  present
  make_directories
  mkdir -p "$state/recovery"
  write_config
  rm -f "$state/pid"
  ganesha -f "$state/ganesha.conf" -L "$state/log" -p "$state/pid" </dev/null >"$state/out" 2>&1 ||
    die "ganesha.nfsd did not start: $(tail -n 5 "$state/log" "$state/out")"
  for ((t = 0; t < 50; t++)); do
    [[ -s $state/pid ]] && break
    sleep 0.1
  done
  wait_for_port
  echo "$(tr -d ' \n' <"$state/pid") $port"
}

version() {
  present
  ganesha -v | head -n 1
}

main "$@"
