# What the server scripts share; sourced by samba.sh and trunkline.sh, which supply `start` and `status`.

# Shares that any account may read and write with nothing special about them, and all shares (README.md).
PLAIN_SHARES='files t1 t2 t3 t4'
ALL_SHARES="$PLAIN_SHARES sealed hideunread noperm"

die() { echo "$(basename "$0"): $*" >&2; exit 2; }
need_root() { [[ $EUID == 0 ]] || die "needs root"; }

# `GENERATION=newer` in the environment chooses this year's program where samba.sh and ganesha.sh have two.
case ${GENERATION-} in '' | installed | newer) ;; *) die "unknown GENERATION $GENERATION" ;; esac
is_newer() { [[ ${GENERATION-} == newer ]]; }

# What scripts/foreign unpacked under this name of the cache.
newer_root() { echo "${XDG_CACHE_HOME:-$HOME/.cache}/trunkline-proving/$1"; }

# Runs COMMAND of what was unpacked at ROOT: in a mount namespace of its own, ROOT's /usr takes the place of the machine's, with all
# its libraries. Everything else is the machine's, and so each path stays as it is. PRELOAD names what the command alone preloads.
from_root() { # ROOT COMMAND ...
  unshare --mount sh -c '
    mount --bind /dev/null /etc/ld.so.cache && mount --bind "$1/usr" /usr && shift || exit
    [ -z "${PRELOAD-}" ] || export LD_PRELOAD="$PRELOAD"
    exec "$@"' sh "$@"
}

each_account() { grep -v '^#' "$here/accounts"; }

make_directories() {
  mkdir -p "$state"
  chmod 755 "$dir" "$state"
  for name in $ALL_SHARES; do
    mkdir -p "$dir/shares/$name"
    chmod 777 "$dir/shares/$name"
  done
  chmod 700 "$dir/shares/noperm"
}

# Wait until the server accepts connections; give up when it has ended or 15 s are over.
wait_for_port() {
  local target=$address
  [[ $target == 0.0.0.0 ]] && target=127.0.0.1
  for ((t = 0; t < 150; t++)); do
    [[ ! -s $state/pid ]] || kill -0 "$(cat "$state/pid")" 2>/dev/null || break
    (exec 3<>"/dev/tcp/$target/$port") 2>/dev/null && return
    sleep 0.1
  done
  stop || true
  die "no answer on $target:$port: $(tail -n 5 "$state/log" 2>/dev/null)"
}

# A server's script may replace this: it ends processes that the server has left behind.
end_helpers() { :; }

stop() {
  local pid
  pid=$(cat "$state/pid" 2>/dev/null) || return 0
  kill "$pid" 2>/dev/null || true
  for ((t = 0; t < 300; t++)); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  if kill -0 "$pid" 2>/dev/null; then
    kill -9 "$pid" || true
    echo "$(basename "$0"): the server did not end within 30 s of SIGTERM" >&2
    rm -f "$state/pid"
    end_helpers
    return 1
  fi
  rm -f "$state/pid"
  end_helpers
}

main() {
  case ${1-} in
    start)
      (($# == 4 || $# == 5)) || die "usage: start PROFILE DIR PORT [ADDRESS]"
      profile=$2 dir=$3 port=$4 address=${5:-127.0.0.1}
      mkdir -p "$dir"
      dir=$(cd "$dir" && pwd)
      state=$dir/server
      [[ -e $state/pid ]] && kill -0 "$(cat "$state/pid")" 2>/dev/null && die "a server runs in $dir already"
      start
      ;;
    stop)
      (($# == 2)) || die "usage: stop DIR"
      state=$(realpath -ms "$2")/server
      stop
      ;;
    status)
      (($# == 2)) || die "usage: status DIR"
      state=$2/server
      status
      ;;
    version) version ;;
    *) die "usage: start PROFILE DIR PORT [ADDRESS] | stop DIR | status DIR | version" ;;
  esac
}
