#!/bin/sh
# Installs the Debian packages named on the command line that are missing, and says so; does nothing when none is.
set -eu

# present PACKAGE: is it installed?  "check:arm64" asks for one architecture.
present() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

if ! command -v apt-get >/dev/null; then
    echo "deps: no apt-get here; please install what these Debian packages hold: $*" >&2
    exit 1
fi

missing=
for package in "$@"; do present "$package" || missing="$missing $package"; done
if [ -z "$missing" ]; then
    echo "deps: nothing is missing"
    exit 0
fi

as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "deps: neither root nor sudo; please install:$missing" >&2; exit 1; }
    as_root=sudo
fi
echo "deps: installing$missing"
for package in $missing; do
    case $package in
    *:*) $as_root dpkg --add-architecture "${package#*:}" ;;
    esac
done
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of packages
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null

# What configure did not find then may be there now: an old date makes the next make configure again.
[ ! -e config.mak ] || touch -t 197001010000 config.mak
