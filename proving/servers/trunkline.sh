#!/bin/bash
# Trunkline as a server under proof: the built binary with a configuration and a state directory of its own.
#
#   trunkline.sh start PROFILE DIR PORT [ADDRESS]   print "PID PORT" once the server accepts connections
#   trunkline.sh stop DIR                           end it and wait until it is gone
#   trunkline.sh status DIR                         what it has open, as the JSON of smbstatus
#   trunkline.sh version
#
# The same interface, shares, accounts and profiles as samba.sh; README.md in this folder lists them. The binary is
# target/release/trunkline (CARGO_TARGET_DIR is honoured), or what TRUNKLINE names.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
binary=${TRUNKLINE:-${CARGO_TARGET_DIR:-$here/../../target}/release/trunkline}

each_user() {
  each_account | while read -r name password uid; do
    printf '%s' "$password" >"$state/$name.password"
    chmod 600 "$state/$name.password"
    printf '\n[[user]]\nname = "%s"\npassword_file = "%s"\n' "$name" "$state/$name.password"
    # Another identity for each request needs root; unprivileged, everyone is whoever runs the server.
    if [[ $EUID == 0 ]]; then printf 'uid = %s\ngid = %s\n' "$uid" "$uid"; fi
    if [[ $profile == rights ]]; then echo 'groups = [61003]'; fi
    if [[ $name == alice && $profile == admin ]]; then echo 'admin = true'; fi
  done
}

share() { # NAME [LINE ...]
  printf '\n[share.%s]\npath = "%s"\nusers = { "*" = "full" }\n' "$1" "$dir/shares/$1"
  shift
  (($# == 0)) || printf '%s\n' "$@"
}

# A port that nothing listens on.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }

write_config() {
  # As many as smbtorture binds.
  local server=() testing=() lines=() accounts=() audit=() channels=32 smb_port=$port one two
  local -A own=()
  case $profile in
    bench)
      # What is signed or sealed must be copied first: one share has the plain way with the copy to compare it with. In another
      # nothing is remembered of names.
      own[t4]='send_file = false'
      own[t2]='send_file = true'
      own[t3]='metadata_caching = false'
      ;;
    default | admin | plain | shared-storage | port-445) ;;
    hidden) lines+=('hide_files = ["hidefile", ".*"]') ;;
    no-notify) lines+=('change_notify = false') ;;
    no-streams) lines+=('streams = false') ;;
    signing-required) server+=('signing = "required"') ;;
    anonymous) server+=('anonymous = true') ;;
    four-channels) channels=4 ;;
    persistent) lines+=('continuously_available = true') channels=4 ;;
    nfs | rights | pynfs | pynfs-reboot)
      # PORT is for NFS here; SMB serves the same shares on one that nobody else has.
      smb_port=$(free_port)
      server+=("nfs_port = $port")
      # Tests wait for leases to run out.
      case $profile in
        pynfs) server+=('nfs_lease_time_s = 10') ;;
        pynfs-reboot) server+=('nfs_lease_time_s = 60') ;;
      esac
      lines+=('protocols = ["smb", "nfs"]' 'root_squash = "none"' 'nfs_secure_port = false')
      ;;
    recycle)
      # Removed files are kept. The suite mounts a file system for one more share.
      smb_port=$(free_port)
      server+=("nfs_port = $port")
      lines+=('protocols = ["smb", "nfs"]' 'nfs_secure_port = false' 'recycle = true')
      ;;
    nfs-exports)
      # Each of the plain shares lets others in, and as somebody else.
      smb_port=$(free_port)
      server+=("nfs_port = $port")
      one='protocols = ["smb", "nfs"]'$'\n''nfs_secure_port = false' two='anonymous_uid = 61001'$'\n''anonymous_gid = 61001'
      own[files]="$one"$'\n''root_squash = "none"'
      own[t1]="$one"$'\n'"$two"$'\n''manage_gids = true'
      own[t2]="$one"$'\n'"$two"$'\n''root_squash = "all"'
      own[t3]="$one"$'\n''nfs_clients = ["10.99.0.0/16", "fd00::/8"]'
      own[t4]='protocols = ["smb", "nfs"]'$'\n''nfs_clients = ["10.99.0.0/16", "10.77.0.0/24"]'
      ;;
    cache | cache-nfs | cache-far | cache-far-nfs)
      # Nothing is remembered of one share; "far": the directories answer as if they were elsewhere.
      own[t4]='metadata_caching = false'
      [[ $profile != *-far* ]] || testing+=('metadata_delay_us = 1000')
      if [[ $profile == *-nfs ]]; then
        smb_port=$(free_port)
        server+=("nfs_port = $port")
        lines+=('protocols = ["smb", "nfs"]' 'root_squash = "none"' 'nfs_secure_port = false')
      fi
      ;;
    audit | audit-nfs)
      # One share is audited and another is not. The stream goes to AUDIT_DIRECTORY, if it is set.
      local stream=${AUDIT_DIRECTORY:-$dir/audit}
      mkdir -p "$stream"
      audit=("file = \"$stream/audit.jsonl\"" 'keep = 1')
      own[t2]='audit = "all"'
      if [[ $profile == audit-nfs ]]; then
        smb_port=$(free_port)
        server+=("nfs_port = $port")
        lines+=('protocols = ["smb", "nfs"]' 'root_squash = "none"' 'nfs_secure_port = false')
      fi
      ;;
    nconnect-*)
      # Endpoints of their own for accounts and shares, on ports behind PORT and on the address of a second NIC.
      smb_port=$(free_port)
      server+=("nfs_port = $port")
      lines+=('protocols = ["smb", "nfs"]' 'root_squash = "none"' 'nfs_secure_port = false')
      one='account = "one"' two='account = "two"'
      case $profile in
        nconnect-addresses)
          own[files]=$one own[t1]=$two
          accounts+=('[account.one]' 'nfs_listen = "10.77.0.1"' '[account.two]' 'nfs_listen = "10.77.1.1"')
          ;;
        nconnect-accounts)
          own[files]=$one own[t1]="$one"$'\n'"nfs_port = $((port + 2))" own[t2]=$two
          accounts+=('[account.one]' "nfs_port = $((port + 1))" '[account.two]' "nfs_port = $((port + 3))")
          ;;
        nconnect-shares)
          accounts+=('[account.one]')
          own[files]="$one"$'\n'"nfs_port = $((port + 1))"
          own[t1]="$one"$'\n'"nfs_port = $((port + 2))"
          own[t2]="$one"$'\n'"nfs_port = $((port + 3))"
          ;;
        nconnect-limit) server+=('nfs_max_connections = 4') ;;
        *) die "unknown profile $profile" ;;
      esac
      ;;
    *) die "unknown profile $profile" ;;
  esac
  {
    printf '[server]\nlisten = ["%s"]\nsmb_port = %s\nstate_dir = "%s"\n' "$address" "$smb_port" "$state/state"
    printf 'name = "trunkline-proof"\nworkgroup = "PROVING"\ndiscovery = false\nlog_level = "%s"\nmax_channels = %s\n' "${LOG_LEVEL:-warn}" "$channels"
    ((${#server[@]} == 0)) || printf '%s\n' "${server[@]}"
    # A member of a realm, which takes tickets alone.
    if [[ -n ${REALM-} ]]; then
      printf 'spn_names = ["%s"]\n[domain]\nrealm = "%s"\nkeytab = "%s"\nntlm = "off"\n' "$DOMAIN_HOST" "$REALM" "$KEYTAB"
    fi
    # smbtorture makes connections fail.
    printf '[server.testing]\nsmbtorture_controls = true\n'
    ((${#testing[@]} == 0)) || printf '%s\n' "${testing[@]}"
    ((${#audit[@]} == 0)) || printf '%s\n' '[audit]' "${audit[@]}"
    each_user
    ((${#accounts[@]} == 0)) || printf '\n%s' "${accounts[@]}"
    for name in $PLAIN_SHARES; do
      share "$name" "${lines[@]}" ${own[$name]:+"${own[$name]}"}
    done
    share sealed 'encryption = "required"'
    share hideunread 'hide_unreadable = true'
    share noperm
    if [[ $profile == recycle ]]; then share small "${lines[@]}"; fi
    if [[ $profile == rights ]]; then
      share homes "${lines[@]}" 'create_home = true' | sed 's|shares/homes"|shares/homes/{user}"|'
    fi
  } >"$state/trunkline.toml"
}

start() {
  [[ -x $binary ]] || die "$binary is missing: cargo build --release"
  make_directories
  [[ $profile != rights ]] || mkdir -p "$dir/shares/homes"
  write_config
  case $profile in
    # What is refused there is counted by the log (kernel_client/mounted.py).
    four-channels | persistent) export TRUNKLINE_LOG=${TRUNKLINE_LOG:-warn,smb::connection=debug} ;;
  esac
  (exec setsid "$binary" serve --config "$state/trunkline.toml" </dev/null >>"$state/log" 2>&1) &
  echo $! >"$state/pid"
  wait_for_port
  echo "$(cat "$state/pid") $port"
}

status() { "$binary" status --json --state-dir "$state/state"; }

version() {
  [[ -x $binary ]] || die "$binary is missing: cargo build --release"
  "$binary" --version
}

main "$@"
