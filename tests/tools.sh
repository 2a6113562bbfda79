# shellcheck shell=bash
# For bash scripts to source: pinned tools in folders of their own under target/tools, installed when first needed.
# Nothing outside the repository is touched, except by debian_package.

tools=target/tools

# The compiler of rust-toolchain.toml, by whatever name it is here: rustup would fetch one that it knows by another
# name.
pinned=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
if command -v rustup >/dev/null && ! rustup toolchain list | grep -q "^$pinned-"; then
    for name in $(rustup toolchain list | cut -d' ' -f1); do
        case "$(rustup run "$name" rustc --version)" in "rustc $pinned "*) export RUSTUP_TOOLCHAIN=$name ;; esac
    done
fi

# section NAME: says what begins, and remembers when.
section_names=() section_starts=()
section() {
    section_names+=("$1") section_starts+=($SECONDS)
    printf '\n=== %s (after %d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60))
}

# What each section took.
took() {
    local i end seconds
    printf '\n%7s  %s\n' took section
    for i in "${!section_names[@]}"; do
        end=${section_starts[i + 1]:-$SECONDS} seconds=$((end - section_starts[i]))
        printf '%4d:%02d  %s\n' $((seconds / 60)) $((seconds % 60)) "${section_names[i]}"
    done
    printf '%4d:%02d  in all\n' $((SECONDS / 60)) $((SECONDS % 60))
}

# stop PID: ends a child of this shell, within a minute by force. What a test suite started ends with it.
stop() {
    kill "$1" 2>/dev/null || return 0
    (sleep 60 && kill -KILL "$1") 2>/dev/null &
    wait "$1" || true
    kill $! 2>/dev/null || true
}

# The first Python that is new enough for the pinned packages.
find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "Python 3.11 or newer is needed; set PYTHON to it if it is not on the PATH." >&2
    return 1
}

# python_tools NAME: tests/requirements-NAME.txt in target/tools/NAME, which lists everything with the hashes of its
# files. A stamp tells a finished install from a broken or an outdated one.
python_tools() {
    local folder=$tools/$1 requirements=tests/requirements-$1.txt python stamp
    python=$(find_python) || return
    stamp="$(cksum <"$requirements") $("$python" --version)"
    if [ "$(cat "$folder/stamp" 2>/dev/null)" != "$stamp" ]; then
        echo "Installing $requirements into $folder"
        # Modules are compiled when they are first imported: most never are, and the compiler beside has the processor.
        # One chain: where the caller asks whether this failed, bash would go on after a failure, and stamp it as done.
        "$python" -m venv --clear "$folder" &&
            "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-compile \
                --require-hashes -r "$requirements" &&
            echo "$stamp" >"$folder/stamp"
    fi
}

# cargo_tool NAME VERSION: a tool of Cargo's that no registry has as a built binary, compiled into target/tools/NAME.
# Cargo knows by itself whether it is there. Not optimised: such a tool mostly waits for the compiler.
cargo_tool() {
    local folder=$tools/$1
    [ -x "$folder/bin/$1" ] || echo "Compiling $1 $2 into $folder"
    cargo install --quiet --locked --debug "$1" --version "$2" --root "$folder"
}

# debian_package PROGRAM PACKAGE: installs a package of the distribution that brings a program. Only root may; others
# are told.
debian_package() {
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "$1 is needed for the tests: install it, on Debian with 'sudo apt-get install $2'." >&2
        return 1
    fi
    apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends "$2"
}
