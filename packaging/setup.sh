#!/bin/sh
# Set up a virtual environment for one purpose: run (the daemon and the demo), lint, test or install.
# Called by the Makefile; VENV says where, .venv otherwise.
#
# System packages come through apt when that is allowed (root, or sudo without a password); else one line says
# which are missing. What is there already is left alone: each need is checked by trying it, not by the
# name of a package, so that other distributions and self-built Pythons do as well.
set -eu

PURPOSE=${1:?usage: setup.sh run|lint|test|install}
VENV=${VENV:-.venv}
LOG=.cache/setup.log
OLDEST=10 # Python 3.10

mkdir -p .cache
: >"$LOG"

say() { printf 'cosyd: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# Run a long command with its output in the log; show the end of the log when it fails.
quietly() {
    "$@" >>"$LOG" 2>&1 && return
    tail -n 25 "$LOG" >&2
    die "failed: $* (the whole output is in $LOG)"
}

new_enough() { "$1" -c "import sys; sys.exit(sys.version_info < (3, $OLDEST))" 2>/dev/null; }

# The first Python that runs and is new enough. A name may exist without working (version managers' shims).
# A service wants the system's own: one in somebody's home is out of its sight.
find_python() {
    names="python3 python3.14 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3"
    [ "$PURPOSE" != install ] || names="/usr/bin/python3 $names"
    for candidate in ${PYTHON:-$names}; do
        if new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

has_python_headers() {
    "$PYTHON" -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())'
}

has_library() { "$PYTHON" -c "import ctypes; ctypes.CDLL('$1')" 2>/dev/null; }
has_header() { printf '#include <%s>\n' "$1" | cc -E - >/dev/null 2>&1; }
has_alsa_pulse() { ls /usr/lib/*/alsa-lib/libasound_module_pcm_pulse.so >/dev/null 2>&1; }
has() { command -v "$1" >/dev/null 2>&1; }

# Names of the Debian packages without which nothing works, one after another.
missing_required() {
    if ! found=$(find_python); then
        [ -z "${PYTHON:-}" ] || die "$PYTHON is not a Python of version 3.$OLDEST or newer"
        echo python3 python3-venv python3-dev gcc libc6-dev libportaudio2
        return
    fi
    PYTHON=$found
    name=$("$PYTHON" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || echo "$name-venv"
    has_python_headers || echo "$name-dev"
    has_header stdlib.h || echo gcc libc6-dev
    has_library libportaudio.so.2 || echo libportaudio2
    [ "$PURPOSE" != install ] || missing_for_systemd
}

missing_for_systemd() {
    has_header systemd/sd-daemon.h || echo libsystemd-dev
    has pkg-config || echo pkg-config
}

# Packages without which some tests are skipped.
missing_for_tests() {
    has_header portaudio.h || echo portaudio19-dev
    missing_for_systemd
    has pulseaudio || echo pulseaudio
    has pactl || echo pulseaudio-utils
    has_alsa_pulse || echo libasound2-plugins
    has systemd-nspawn || echo systemd-container
    has nsenter || echo util-linux
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() { has apt-get && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }; }

apt_install() {
    say "installing system packages: $*"
    # A broken third-party source makes update fail although the packages can be had.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update >>"$LOG" 2>&1 || true
    quietly as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"
}

one_line() { printf '%s' "$*" | tr -s '[:space:]' ' ' | sed 's/ $//'; }

system_packages() {
    required=$(missing_required)
    extra=
    [ "$PURPOSE" != test ] || extra=$(missing_for_tests)
    [ -n "$required$extra" ] || return 0
    if may_install; then
        # shellcheck disable=SC2086  # names without spaces, meant to be split
        apt_install $required $extra
        return
    fi
    [ -z "$required" ] || die "missing system packages; run: sudo apt-get install $(one_line "$required" "$extra")"
    say "some tests will be skipped; for all of them: sudo apt-get install $(one_line "$extra")"
}

# What pip installs, for this purpose and for what can be built here.
requirement() {
    case $PURPOSE in
        run) printf '.' ;;
        lint) printf '.[dev]' ;;
        install) printf '.[systemd]' ;;
        test)
            printf '.[test,bench,dev'
            ! has_header portaudio.h || printf ',pyaudio'
            ! has_header systemd/sd-daemon.h || printf ',systemd'
            printf ']'
            ;;
    esac
}

python_packages() {
    PYTHON=$(find_python) || die "no Python of version 3.$OLDEST or newer; say which with: make PYTHON=/path/to/python3"
    if ! "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
        say "making $VENV with $("$PYTHON" -V)"
        quietly "$PYTHON" -m venv --clear "$VENV"
    fi
    say "installing Python packages into $VENV (about a minute the first time)"
    editable=-e
    [ "$PURPOSE" != install ] || editable=
    quietly "$VENV/bin/python" -m pip install --disable-pip-version-check $editable "$(requirement)"
}

case $PURPOSE in run | lint | test | install) ;; *) die "unknown purpose: $PURPOSE" ;; esac
system_packages
python_packages
