#!/bin/bash
# Trunkline as a server under proof: the built binary with a configuration and a state directory of its own.
#
#   trunkline.sh start PROFILE DIR PORT [ADDRESS]   print "PID PORT" once the server accepts connections
#   trunkline.sh stop DIR                           end it and wait until it is gone
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
    if [[ $name == alice && $profile =~ ^(admin|plain)$ ]]; then echo 'admin = true'; fi
  done
}

share() { # NAME [LINE ...]
  printf '\n[share.%s]\npath = "%s"\nusers = { "*" = "full" }\n' "$1" "$dir/shares/$1"
  shift
  (($# == 0)) || printf '%s\n' "$@"
}

write_config() {
  local server=() lines=()
  case $profile in
    default | bench | admin | plain) ;;
    hidden) lines+=('hide_files = ["hidefile", ".*"]') ;;
    no-notify) lines+=('change_notify = false') ;;
    no-streams) lines+=('streams = false') ;;
    signing-required) server+=('signing = "required"') ;;
    anonymous) server+=('anonymous = true') ;;
    *) die "unknown profile $profile" ;;
  esac
  {
    printf '[server]\nlisten = ["%s"]\nsmb_port = %s\nstate_dir = "%s"\n' "$address" "$port" "$state/state"
    printf 'name = "trunkline-proof"\nworkgroup = "PROVING"\ndiscovery = false\nlog_level = "warn"\n'
    ((${#server[@]} == 0)) || printf '%s\n' "${server[@]}"
    each_user
    for name in $PLAIN_SHARES; do share "$name" "${lines[@]}"; done
    share sealed 'encryption = "required"'
    share hideunread 'hide_unreadable = true'
    share noperm
  } >"$state/trunkline.toml"
}

start() {
  [[ -x $binary ]] || die "$binary is missing: cargo build --release"
  make_directories
  write_config
  (exec setsid "$binary" serve --config "$state/trunkline.toml" </dev/null >"$state/log" 2>&1) &
  echo $! >"$state/pid"
  wait_for_port
  echo "$(cat "$state/pid") $port"
}

version() {
  [[ -x $binary ]] || die "$binary is missing: cargo build --release"
  "$binary" --version
}

main "$@"
