#!/bin/bash
# Debian's Samba as a server under proof: private configuration and state, an unprivileged port, never the system's own service.
#
#   samba.sh start PROFILE DIR PORT [ADDRESS]   print "PID PORT" once the server accepts connections
#   samba.sh stop DIR                           end it and wait until it is gone
#   samba.sh status DIR                         what it has open, as the JSON of smbstatus
#   samba.sh version
#
# DIR holds everything: DIR/shares/NAME are the served directories, DIR/server/ is the server's own. The shares and the
# profiles are those of README.md in this folder; trunkline.sh offers the same. Needs root (Samba changes identity for
# each request) and the Debian packages samba, samba-vfs-modules, smbclient and libnss-wrapper, or with GENERATION=newer what
# scripts/foreign unpacked of this year's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

root=
if is_newer; then root=$(newer_root samba-newer); fi
samba() { # COMMAND ...
  if is_newer; then from_root "$root" "$@"; else "$@"; fi
}

# Samba maps each of its accounts to one of the host's. nss_wrapper lends it a passwd file of our own instead.
with_accounts() { # COMMAND ...
  local -x NSS_WRAPPER_PASSWD=$state/passwd NSS_WRAPPER_GROUP=$state/group
  if is_newer; then PRELOAD=libnss_wrapper.so samba "$@"; else LD_PRELOAD=libnss_wrapper.so samba "$@"; fi
}

present() {
  [[ -x $root/usr/sbin/smbd ]] && return
  if is_newer; then die "$root is missing: scripts/foreign"; fi
  die "smbd is missing: apt-get install samba"
}

# Samba's RPC services belong to no process group of smbd and outlive it.
end_helpers() { pkill -f -- "(samba-dcerpcd|rpcd_[a-z]+) --configfile=$state/smb.conf" || true; }

write_accounts() {
  cp /etc/passwd "$state/passwd"
  cp /etc/group "$state/group"
  each_account | while read -r name _ uid; do
    echo "$name:x:$uid:$uid::/nonexistent:/usr/sbin/nologin" >>"$state/passwd"
    echo "$name:x:$uid:" >>"$state/group"
  done
  [[ $profile != rights ]] || echo "further:x:61003:$(each_account | cut -d ' ' -f 1 | paste -sd ,)" >>"$state/group"
  each_account | while read -r name password _; do
    printf '%s\n%s\n' "$password" "$password" |
      with_accounts pdbedit -s "$state/smb.conf" -t -a -u "$name" >/dev/null
  done
}

share() { # NAME [LINE ...]
  printf '\n[%s]\n  path = %s\n  read only = no\n' "$1" "$dir/shares/$1"
  shift
  (($# == 0)) || printf '  %s\n' "$@"
}

# Loopback and virtual NICs show no queues, which would keep clients at one channel for each.
interfaces() {
  local addresses=$address
  [[ $address != 0.0.0.0 ]] || addresses=$(ip -4 -o addr show scope global | awk '{ split($4, a, "/"); print a[1] }')
  printf '"%s;capability=RSS,speed=10000000000" ' ${addresses:-127.0.0.1}
}

write_config() {
  local extra=() plain=() smb_alone=('kernel share modes = no' 'kernel oplocks = no' 'posix locking = no')
  case $profile in
    default | bench | rights | shared-storage) ;;
    # Each request is carried out at once and not by a thread, and files go out uncopied: what administrators set who want speed.
    bench-tuned) extra+=('aio read size = 0' 'aio write size = 0' 'use sendfile = yes' 'min receivefile size = 16384') ;;
    # Samba keeps a disconnected handle only where nothing but SMB reaches the files, and says so. The rest is as in its own selftest.
    smb-alone)
      extra+=('kernel change notify = no' 'strict rename = yes')
      plain+=("${smb_alone[@]}")
      ;;
    admin | plain) plain+=('admin users = alice') ;;
    hidden) plain+=('hide files = /hidefile/' 'hide dot files = yes') ;;
    no-notify) extra+=('change notify = no') ;;
    no-streams) extra+=('vfs objects = acl_xattr') ;;
    signing-required) extra+=('server signing = mandatory') ;;
    anonymous) ;;
    four-channels) ;; # Samba gives as many as a client asks for
    port-445) die 'smbd listens only on the addresses of interfaces' ;;
    persistent)
      is_newer || die "the installed Samba has no persistent handles"
      extra+=('persistent handles = yes')
      plain+=("${smb_alone[@]}" 'continuous availability = yes' 'smb3 share cap:CLUSTER = yes' 'smb3 share cap:SCALE OUT = no'
        'smb3 ca:max lease mask = RWH')
      ;;
    kernel-oplocks) plain+=('kernel oplocks = yes') ;;
    own-descriptors)
      plain+=('acl_xattr:ignore system acls = yes' 'acl_xattr:default acl style = windows')
      # What such a share says of its root is what its owner may do.
      for name in $PLAIN_SHARES; do chown "$(each_account | awk 'NR == 1 { print $3 }')" "$dir/shares/$name"; done
      ;;
    named-descriptors) extra+=('acl_xattr:security_acl_name = user.hackme') ;;
    as-sent) plain+=('acl flag inherited canonicalization = no') ;;
    inherit) plain+=('inherit permissions = yes') ;;
    *) die "unknown profile $profile" ;;
  esac
  local vfs='vfs objects = acl_xattr streams_xattr'
  # Unsealed and unsigned unless the client asks, descriptors not kept apart: the quickest Samba that serves files as asked. The
  # host's bits and lists alone say who may do what.
  [[ $profile == bench* || $profile == rights ]] && vfs='vfs objects ='
  [[ $profile == plain ]] && vfs='vfs objects = streams_xattr'
  # A member of a realm, by its keytab.
  if [[ -n ${REALM-} ]]; then
    extra+=("realm = $REALM" 'kerberos method = dedicated keytab' "dedicated keytab file = FILE:$KEYTAB")
  fi
  {
    cat <<CONF
[global]
  workgroup = PROVING
  server role = standalone server
  netbios name = samba-proof
  smb ports = $port
  interfaces = $(interfaces)
  bind interfaces only = $([[ $address == 0.0.0.0 ]] && echo no || echo yes)
  private dir = $state/private
  lock directory = $state/lock
  state directory = $state/lock
  cache directory = $state/cache
  pid directory = $state/run
  ncalrpc dir = $state/ncalrpc
  log file = $state/log
  log level = 0
  max log size = 0
  passdb backend = tdbsam
  disable netbios = yes
  disable spoolss = yes
  load printers = no
  printcap name = /dev/null
  usershare max shares = 0
  server min protocol = SMB2_02
  map to guest = never
  store dos attributes = yes
  ea support = yes
  smbd:FSCTL_SMBTORTURE = yes
  map archive = no
  map hidden = no
  map system = no
  map readonly = no
  $vfs
CONF
    (( ${#extra[@]} == 0 )) || printf '  %s\n' "${extra[@]}"
    for name in $PLAIN_SHARES; do share "$name" "${plain[@]}"; done
    share sealed 'server smb encrypt = required'
    share hideunread 'hide unreadable = yes'
    share noperm
  } >"$state/smb.conf"
}

start() {
  need_root
  present
  make_directories
  mkdir -p "$state"/{private,lock,cache,run,ncalrpc}
  write_config
  write_accounts
  rm -f "$state/run/smbd.pid"
  with_accounts /usr/sbin/smbd -D -s "$state/smb.conf" </dev/null >"$state/log" 2>&1 || die "smbd did not start: $(tail -n 5 "$state/log")"
  for ((t = 0; t < 50; t++)); do
    [[ -s $state/run/smbd.pid ]] && break
    sleep 0.1
  done
  tr -d ' \n' <"$state/run/smbd.pid" >"$state/pid"
  wait_for_port
  echo "$(cat "$state/pid") $port"
}

status() { samba smbstatus -s "$state/smb.conf" --json; }

version() {
  present
  samba /usr/sbin/smbd --version
}

main "$@"
