# Sourced by `run`: fetches what a machine with virtual cameras needs, and boots it.
# Everything lands in $CACHE; of the system only missing packages are installed.

say() { echo "vivid: $*" >&2; }

# --- Debian packages of another architecture or suite, through an apt state of our own ---

apt_own() { # apt-get or apt-cache, with that state
    local tool=$1
    shift
    "$tool" -o Dir::State="$CACHE/apt/state" -o Dir::State::status="$CACHE/apt/status" -o Dir::Cache="$CACHE/apt/cache" \
        -o Dir::Cache::pkgcache=pkg.bin -o Dir::Cache::srcpkgcache=src.bin -o Dir::Etc::sourcelist="$CACHE/apt/sources.list" \
        -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o APT::Architecture=amd64 \
        -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root \
        -o Acquire::Languages=none "$@"
}

apt_prepare() { # once a suite
    [ ! -e "$CACHE/apt/ready-$1" ] || return 0
    local mirror
    mirror=$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | grep -v snapshot | head -1 || true)
    mirror=${mirror:-http://deb.debian.org/debian}
    mkdir -p "$CACHE/apt/state/lists/partial" "$CACHE/apt/cache/archives/partial"
    : >"$CACHE/apt/status"
    local s
    for s in $1 bookworm-backports; do
        echo "deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror% } $s main"
    done | sort -u >"$CACHE/apt/sources.list"
    say "reading the package lists of $1"
    apt_own apt-get -qq update
    rm -f "$CACHE"/apt/ready-*
    touch "$CACHE/apt/ready-$1"
}

fetch() { # SUITE PACKAGE[:ARCH]: the .deb's path
    local dir="$CACHE/debs/$1" name=${2%%:*}
    mkdir -p "$dir"
    compgen -G "$dir/${name}_*.deb" >/dev/null ||
        (cd "$dir" && apt_own apt-get -qq download -t "$1" "$2") >&2
    compgen -G "$dir/${name}_*.deb" | head -1
}

# --- tools of this machine ---

need_tools() {
    local missing=() pair
    for pair in cpio:cpio modprobe:kmod xz:xz-utils aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu; do
        command -v "${pair%%:*}" >/dev/null || [ -x "/usr/sbin/${pair%%:*}" ] || missing+=("${pair#*:}")
    done
    if ! command -v qemu-system-aarch64 >/dev/null; then
        # A qemu-utils from backports breaks the suite's own qemu-system: then the same version is wanted.
        if dpkg-query -W -f='${Version}' qemu-utils 2>/dev/null | grep -q bpo; then
            apt_prepare "$SUITE"
            local p
            for p in qemu-system-arm:amd64 qemu-system-common:amd64 qemu-system-data qemu-utils:amd64; do
                missing+=("$(fetch bookworm-backports "$p")")
            done
        else
            missing+=(qemu-system-arm)
        fi
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        say "installing ${missing[*]##*/}"
        apt-get -qq update
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >"$CACHE/install.log" 2>&1 ||
            { tail -20 "$CACHE/install.log" >&2; return 1; }
    fi
    rustup target list --installed 2>/dev/null | grep -qx aarch64-unknown-linux-gnu || rustup target add aarch64-unknown-linux-gnu
}

# --- the machine ---

kernel() { # unpacks kernel, media and USB modules; prints the version
    apt_prepare "$SUITE"
    local image version
    image=$(apt_own apt-cache depends --no-recommends --no-suggests linux-image-arm64:arm64 |
        sed -nE 's/^ *Depends: (linux-image-[^:]+-arm64)(:arm64)?$/\1/p' | head -1)
    [ -n "$image" ] || { say "no linux-image-arm64 in $SUITE"; return 1; }
    version=${image#linux-image-}
    if [ ! -e "$CACHE/kernel/$version/ready" ]; then
        say "fetching $image"
        rm -rf "$CACHE/kernel/$version"
        mkdir -p "$CACHE/kernel/$version"
        dpkg-deb --fsys-tarfile "$(fetch "$SUITE" "$image:arm64")" | tar -x -C "$CACHE/kernel/$version" --wildcards './boot/*' \
            '*/kernel/drivers/media/*' '*/kernel/drivers/usb/*' '*/modules.builtin' '*/modules.order'
        touch "$CACHE/kernel/$version/lib/modules/$version/modules.builtin.modinfo"
        /usr/sbin/depmod -b "$CACHE/kernel/$version" "$version"
        touch "$CACHE/kernel/$version/ready"
    fi
    if [ ! -x "$CACHE/busybox/bin/busybox" ]; then
        dpkg-deb -x "$(fetch "$SUITE" busybox-static:arm64)" "$CACHE/busybox"
    fi
    echo "$version"
}

# boot NAME INIT FILE...: packs the files into the guest's /app, runs the sh lines INIT there, returns their status. What
# the guest printed is in $CACHE/NAME.log.
boot() {
    local name=$1 init=$2
    shift 2
    local root="$CACHE/root" version=$KERNEL tree="$CACHE/kernel/$KERNEL" lib="${SYSROOT:-/usr/aarch64-linux-gnu}/lib"
    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,proc,sys,tmp,modules,lib,app}
    cp "$CACHE/busybox/bin/busybox" "$root/bin/"
    local applet
    for applet in sh mount insmod poweroff cat ls dmesg sleep echo uname grep kill mkdir; do ln -s busybox "$root/bin/$applet"; done
    cp -L "$lib"/ld-linux-aarch64.so.1 "$lib"/lib{c,m,dl,pthread,rt}.so.* "$root/lib/"
    cp -L "$lib"/libgcc_s.so.1 "$root/lib/" 2>/dev/null || cp -L "$(aarch64-linux-gnu-gcc -print-file-name=libgcc_s.so.1)" "$root/lib/"
    local number=10 module
    for module in vivid vhci-hcd uvcvideo; do
        /usr/sbin/modprobe -d "$tree" -S "$version" --show-depends "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r module; do
        case $module in
        *.xz) xz -dc "$module" >"$root/modules/$number-$(basename "$module" .xz)" ;;
        *) cp "$module" "$root/modules/$number-$(basename "$module")" ;;
        esac
        number=$((number + 1))
    done
    cp -L "$@" "$root/app/"
    cat >"$root/init" <<EOI
#!/bin/sh
export PATH=/bin HOME=/tmp
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmpfs /tmp
for m in /modules/*.ko; do
    case \$m in *-vivid.ko) insmod \$m $VIVID ;; *) insmod \$m ;; esac || echo "GUEST: \$m does not load"
done
echo "GUEST: Linux \$(uname -r), \$(ls /dev/video* 2>/dev/null | tr '\n' ' ')"
cd /tmp
(
$init
)
echo "GUEST-STATUS \$?"
dmesg | grep -E 'BUG:|Oops|WARNING:|Unable to handle'
poweroff -f
EOI
    ln -s busybox "$root/bin/tr"
    chmod 755 "$root/init"
    (cd "$root" && find . -print0 | cpio --null -o -H newc --quiet --owner 0:0) >"$CACHE/initrd"
    timeout --foreground "${TIMEOUT:-300}" qemu-system-aarch64 -machine virt -cpu neoverse-n1 -accel tcg,thread=multi -smp 2 -m 1024 \
        -kernel "$tree/boot/vmlinuz-$version" -initrd "$CACHE/initrd" -append "console=ttyAMA0 panic=-1 quiet loglevel=3" \
        -display none -monitor none -nic none -no-reboot -serial stdio </dev/null | tr -d '\r' | tee "$CACHE/$name.log" ||
        say "the machine ended with an error, or after ${TIMEOUT:-300} s"
    local status
    status=$(sed -n 's/^GUEST-STATUS \([0-9]*\)$/\1/p' "$CACHE/$name.log" | tail -1)
    return "${status:-125}"
}
