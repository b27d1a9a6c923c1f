#!/bin/bash
# Shows that a fresh minimal Debian needs nothing but the checkout: runs the README's two commands in a new chroot.
# As root, on Debian, with debootstrap. Not part of check-all.
#
#	bash test/chroot.sh [-w] [-k] [-n] [-f FILE]... [command ...]
#
#	-w        the working tree as it stands, not the last commit
#	-k        keep the chroot and print where it is
#	-n        a new base system even when one is cached
#	-f FILE   this file, too, at the same place
#
# The commands are given as one argument each; without any: 'bash test/demo.sh' and 'bash test/check-all.sh'.
# Mirror and suite are those of this machine's apt. The base system is kept in ${XDG_CACHE_HOME:-/var/tmp}.
# All mounts and processes live in namespaces of their own and end with this script.
#
# What is downloaded there (apt's packages, the drivers of test/clients) comes the way that it comes to this machine: with its resolver,
# its proxies, its own certificates (/usr/local/share/ca-certificates), /etc/pip.conf and /etc/npmrc, and these variables as far as they
# are set: see pass() below. A user's own files, which may hold passwords, are not copied unless -f names them: -f ~/.m2/settings.xml
set -u

die()
{
	echo "error: $*" >&2
	exit 1
}

[ "$(id -u)" = 0 ] || die "a chroot needs root"
command -v debootstrap >/dev/null || die "debootstrap is missing"
if [ "${JOBQ_CHROOT_INSIDE:-}" != 1 ]; then
	export JOBQ_CHROOT_INSIDE=1
	exec unshare --mount --pid --fork --kill-child --propagation private bash "${BASH_SOURCE[0]}" "$@"
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

working_tree=
keep=
new=
files=(/etc/pip.conf /etc/npmrc)
while getopts wknf: opt; do
	case $opt in
		w) working_tree=1 ;;
		k) keep=1 ;;
		n) new=1 ;;
		f)
			[ -r "$OPTARG" ] || die "cannot read $OPTARG"
			files+=("$(realpath -s "$OPTARG")")
			;;
		*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- 'bash test/demo.sh' 'bash test/check-all.sh'

# apt's sources, both formats, as lines: URI SUITE COMPONENT... (options in brackets dropped, several URIs or suites multiplied out)
apt_sources()
{
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
		sed -nE 's/^[[:space:]]*deb[[:space:]]+(\[[^]]*\][[:space:]]*)?//p' | sed 's/#.*//'
	cat /dev/null /etc/apt/sources.list.d/*.sources 2>/dev/null | awk -v RS= '
		# RS= reads a stanza; comment lines do not belong to it.
		{
			split("", f); key = ""
			n = split($0, lines, "\n")
			for (i = 1; i <= n; i++) {
				if (lines[i] ~ /^#/) continue
				if (lines[i] ~ /^[ \t]/) { f[key] = f[key] lines[i]; continue }
				p = index(lines[i], ":"); key = tolower(substr(lines[i], 1, p - 1)); f[key] = substr(lines[i], p + 1)
			}
			if (f["types"] !~ /(^| )deb( |$)/ || tolower(f["enabled"]) ~ /no/) next
			nu = split(f["uris"], uris, " "); ns = split(f["suites"], suites, " ")
			for (u = 1; u <= nu; u++) for (s = 1; s <= ns; s++) print uris[u], suites[s], f["components"]
		}'
}

suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$suite" ] || die "/etc/os-release names no suite"
mirror=$(apt_sources | awk -v s="$suite" '$2 == s && / main( |$)/ { print $1; exit }')
[ -n "$mirror" ] || die "apt has no source with suite $suite and component main"
echo "== $suite from $mirror"

# A file or directory of this machine at the same place in the chroot; what links point to, not the links.
copy_in()
{
	mkdir -p "$root$(dirname "$1")" && cp -RL --preserve=mode "$1" "$root$(dirname "$1")/" || die "cannot copy $1"
}

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
start_all=$SECONDS
root=$(mktemp -d /var/tmp/jobq-chroot.XXXXXX)
finish()
{
	local rc=$?
	trap - EXIT
	# The chroot is removed only once nothing is mounted in it: /dev is the real one.
	awk -v r="$root/" 'index($2, r) == 1 { print $2 }' /proc/self/mounts | sort -r | while read -r m; do umount -l "$m"; done
	if [ -n "$keep" ]; then
		echo "kept: $root"
	elif ! grep -q " $root/" /proc/self/mounts; then
		rm -rf --one-file-system "$root"
	fi
	exit "$rc"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The base system, cached.
base=${XDG_CACHE_HOME:-/var/tmp}/jobq-base-$suite-$(dpkg --print-architecture).tar
[ -z "$new" ] || rm -f "$base"
if [ ! -e "$base" ]; then
	echo "== debootstrap"
	args=(--variant=minbase)
	[ ! -e "$keyring" ] || args+=(--keyring="$keyring")
	debootstrap "${args[@]}" "$suite" "$root" "$mirror" >"$root.log" 2>&1 || { tail -20 "$root.log" >&2; rm -f "$root.log"; die "debootstrap failed"; }
	rm -f "$root.log"
	chroot "$root" apt-get clean
	mkdir -p "$(dirname "$base")"
	tar -C "$root" -cf "$base.new" . && mv "$base.new" "$base" || die "cannot write $base"
else
	tar -C "$root" -xf "$base" || die "cannot read $base"
fi
chmod 755 "$root" # it is the root directory of the server's user too

# What this machine needs to reach the mirror, the chroot needs too.
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null
cp -L /etc/hosts "$root/etc/hosts" 2>/dev/null
apt_sources | awk -v s="$suite" 'index($2, s) == 1 && ($2 == s || $2 ~ /-(updates|security)$/) { print "deb", $0 }' >"$root/etc/apt/sources.list"
apt-config dump | grep -E '^Acquire::(http|https|ForceIPv4|Check-Valid-Until|Check-Date)' >"$root/etc/apt/apt.conf.d/90host"

# And what it needs to reach registries. Its own certificates: whoever installs ca-certificates in there, as the drivers' languages do,
# gets them with the others, also for Java; until then there is this machine's bundle of all.
bundle=/etc/ssl/certs/ca-certificates.crt
local_certs=/usr/local/share/ca-certificates
[ -z "$(find "$local_certs" -name '*.crt' 2>/dev/null)" ] || copy_in "$local_certs"
if [ -e "$bundle" ] && { [ -e "$root$local_certs" ] || grep -qE 'https:' "$root/etc/apt/sources.list" "$root/etc/apt/apt.conf.d/90host"; }; then
	copy_in "$bundle"
	echo "Acquire::https::CaInfo \"$bundle\";" >>"$root/etc/apt/apt.conf.d/90host"
fi
[ ! -x "$root/usr/sbin/update-ca-certificates" ] || chroot "$root" update-ca-certificates >/dev/null
for f in "${files[@]}"; do
	[ ! -e "$f" ] || copy_in "$f"
done
settings=()
pass()
{
	local v
	for v in "$@"; do
		[ -z "${!v:-}" ] || settings+=("$v=${!v}")
	done
}
pass http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY
pass PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_DEFAULT_TIMEOUT npm_config_registry NPM_CONFIG_REGISTRY
pass GOPROXY GONOPROXY GOPRIVATE GOINSECURE GOSUMDB GONOSUMDB MAVEN_OPTS MAVEN_ARGS
# These name a file.
for v in SSL_CERT_FILE NODE_EXTRA_CA_CERTS PIP_CERT REQUESTS_CA_BUNDLE CURL_CA_BUNDLE; do
	[ -f "${!v:-}" ] || continue
	pass "$v"
	[ -e "$root${!v}" ] || copy_in "${!v}"
done

# The checkout and nothing else.
mkdir "$root/jobq"
if [ -n "$working_tree" ]; then
	tar -c --exclude=./.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' --exclude='./jobq--*.sql' . | tar -x --no-same-owner -C "$root/jobq"
else
	git archive HEAD | tar -x --no-same-owner -C "$root/jobq" || die "git archive failed"
fi
contents()
{
	(cd "$root/jobq" && find . -type f -exec sha256sum {} + | sort -k2)
}
before=$(contents)

mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for d in null zero full random urandom tty; do
	touch "$root/dev/$d" && mount --bind "/dev/$d" "$root/dev/$d"
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts" && ln -s pts/ptmx "$root/dev/ptmx"

failed=0
report=()
for command in "$@"; do
	echo "== $command"
	start=$SECONDS
	chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root CI=true "${settings[@]}" \
		bash -c "cd /jobq && $command" </dev/null
	rc=$?
	report+=("$(printf '%-32s exit status %d, %d s' "$command" $rc $((SECONDS - start)))")
	[ $rc = 0 ] || failed=1
done

echo "== report"
printf '%s\n' "${report[@]}"
if [ "$before" != "$(contents)" ]; then
	echo "the commands changed the checkout:"
	diff <(echo "$before") <(contents)
	failed=1
fi
# Java leaves a directory wherever it has run, be it in the installation of its package.
left=$(find "$root/tmp" "$root/dev/shm" -mindepth 1 -maxdepth 1 ! -name 'hsperfdata_*')
if [ -n "$left" ]; then
	echo "left behind: ${left//$root/}"
	failed=1
fi
echo "whole run $((SECONDS - start_all)) s, chroot $(du -sxm "$root" | cut -f1) MB"
exit $failed
