#!/bin/sh
# Install cosyd as a system service: the program into PREFIX, configuration and unit where systemd looks for them.
#
#   make install                        on this machine, as root
#   make install DESTDIR=/tmp/image     into an image or a package; nothing of this machine is touched
#
# Another PREFIX than /opt/cosyd is written into the unit.
set -eu

PREFIX=${PREFIX:-/opt/cosyd}
DESTDIR=${DESTDIR:-}
ROOT=$DESTDIR$PREFIX

case $PREFIX in /*) ;; *) echo "cosyd: PREFIX must be an absolute path: $PREFIX" >&2; exit 2 ;; esac
if [ -z "$DESTDIR" ] && [ "$(id -u)" -ne 0 ]; then
    echo "cosyd: only root installs a service: sudo make install (or give DESTDIR)" >&2
    exit 1
fi

# A virtual environment names its own path in its scripts; in an image that must be the final one.
relocate() {
    [ -z "$DESTDIR" ] || grep -lIF "$ROOT" "$ROOT"/bin/* "$ROOT/pyvenv.cfg" | xargs -r sed -i "s|$ROOT|$PREFIX|g"
}

install_configuration() {
    install -d "$DESTDIR/etc/cosyd/conf.d"
    if [ -e "$DESTDIR/etc/cosyd/cosyd.yaml" ] && ! cmp -s etc/cosyd.yaml "$DESTDIR/etc/cosyd/cosyd.yaml"; then
        echo "cosyd: /etc/cosyd/cosyd.yaml is yours and stays; the new defaults are beside it as cosyd.yaml.new"
        install -m 644 etc/cosyd.yaml "$DESTDIR/etc/cosyd/cosyd.yaml.new"
    else
        install -m 644 etc/cosyd.yaml "$DESTDIR/etc/cosyd/cosyd.yaml"
    fi
}

install_unit() {
    install -d "$DESTDIR/usr/lib/systemd/system" "$DESTDIR/usr/lib/sysusers.d" "$DESTDIR/usr/lib/tmpfiles.d"
    sed "s|/opt/cosyd|$PREFIX|g" systemd/cosyd.service >"$DESTDIR/usr/lib/systemd/system/cosyd.service"
    chmod 644 "$DESTDIR/usr/lib/systemd/system/cosyd.service"
    install -m 644 systemd/cosyd.sysusers "$DESTDIR/usr/lib/sysusers.d/cosyd.conf"
    install -m 644 systemd/cosyd.tmpfiles "$DESTDIR/usr/lib/tmpfiles.d/cosyd.conf"
}

install_rest() {
    install -d "$DESTDIR/usr/local/bin" "$ROOT/share/doc"
    ln -sf "$PREFIX/bin/cosyd" "$DESTDIR/usr/local/bin/cosyd"
    install -m 644 LICENSE README.md CHANGELOG.md docs/*.md "$ROOT/share/doc"
}

activate() {
    [ -z "$DESTDIR" ] || return 0
    systemd-sysusers cosyd.conf
    systemd-tmpfiles --create cosyd.conf
    [ ! -d /run/systemd/system ] || systemctl daemon-reload
}

VENV=$ROOT packaging/setup.sh install
relocate
install_configuration
install_unit
install_rest
activate

cat <<END
cosyd is installed in $PREFIX. Next:
  cosyd models pull
  cosyd devices                      choose a source in /etc/cosyd/cosyd.yaml
  systemctl enable --now cosyd
  cosyd sub
END
