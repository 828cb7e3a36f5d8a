# shellcheck shell=bash
# Functions for scripts that run programs of another release of Debian: its packages are fetched from the mirror that this machine's
# apt names, with an apt state of their own, and unpacked; nothing of the system changes. Source this file after lib.sh. Used are $work,
# a folder for the state, $root, where packages go, $suite, the release, and `unavailable TEXT`, which ends the script.
work='' root='' suite=''
update_s=180 download_s=600
tools=(bash coreutils dash findutils grep hostname mawk procps sed util-linux) # what scripts use

# mirror: print the address from which apt gets Debian itself.
mirror() {
    # shellcheck disable=SC2016 # these are apt's own
    apt-get indextargets --format '$(COMPONENT) $(RELEASE) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        awk '$1 == "main" && $2 ~ /^((old)*stable|testing|unstable|sid|buster|bullseye|bookworm|trixie|forky|duke)$/ { print $3; exit }'
}

# apt SECONDS COMMAND...: apt-get with the state in $work, and without what the machine has apt do after an update.
apt() {
    local seconds=$1
    shift
    timeout --kill-after=10 "$seconds" apt-get --config-file="$work/apt.conf" -qq "$@" >"$work/said" 2>&1 </dev/null ||
        unavailable "apt-get $1: $(grep -m 1 '^[EW]:' "$work/said" || echo "not done within $seconds s")"
}

# fetch_packages WHAT PACKAGE...: have the packages, and what they need, below $work/cache/archives.
fetch_packages() {
    local what=$1 from keys=/usr/share/keyrings/debian-archive-keyring.gpg signed=""
    shift
    type -P apt-get dpkg-deb unshare >/dev/null || unavailable "it takes apt-get, dpkg-deb and unshare"
    from=$(mirror)
    [[ -n $from ]] || unavailable "apt of this machine names no Debian mirror"
    say "fetching $what from Debian $suite" >&2
    [[ ! -r $keys ]] || signed="[signed-by=$keys] "
    mkdir -p "$work"/{state/lists/partial,cache/archives/partial,empty} "$root"
    : >"$work/state/status"
    echo "deb ${signed}$from $suite main" >"$work/sources.list"
    # A mirror may be a snapshot, whose Release of sid has expired.
    cat >"$work/apt.conf" <<CONF
Dir::State "$work/state";
Dir::State::status "$work/state/status";
Dir::Cache "$work/cache";
Dir::Log "$work";
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "$work/empty";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$work/empty";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
APT::Sandbox::User "";
APT::Update::Error-Mode "any";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Post-Invoke;
CONF
    apt "$update_s" update
    apt "$download_s" install --yes --download-only --no-install-recommends "$@" "${tools[@]}"
}

unpack() {
    local file
    for file in "$@"; do
        dpkg-deb --fsys-tarfile "$file" | tar -x --keep-directory-symlink --no-same-owner -C "$root" || unavailable "cannot unpack ${file##*/}"
    done
}

# make_root MARK: the folders over which those of the machine are laid, and the files that no package brings; MARK tells the root.
make_root() {
    local name
    for name in bin sbin lib lib64; do
        [[ -e $root/$name ]] || ln -s "usr/$name" "$root/$name"
    done
    [[ -e $root/bin/sh ]] || ln -s bash "$root/bin/sh"
    [[ -e $root/usr/bin/awk ]] || ln -s mawk "$root/usr/bin/awk"
    for name in passwd group hosts nsswitch.conf resolv.conf localtime; do
        rm -f "$root/etc/$name"
        : >"$root/etc/$name"
    done
    : >"$root/$1"
}

# What lays the machine's folders, but for those of programs, over $root: lines of a script that runs in a mount namespace of its own.
# shellcheck disable=SC2034 # for who sources this
read -r -d '' laying <<'LAYING' || true
for path in /*; do
    case $path in
    /bin | /boot | /etc | /lib* | /sbin | /usr) continue ;;
    esac
    [[ -d $path && ! -L $path ]] || continue
    [[ -d $root$path ]] || mkdir "$root$path" 2>/dev/null || continue
    mount --rbind "$path" "$root$path" || exit 69
done
for path in /etc/{passwd,group,hosts,nsswitch.conf,resolv.conf,localtime}; do
    [[ ! -e $path ]] || mount --bind "$(readlink -f "$path")" "$root$path" || exit 69
done
LAYING
