# shellcheck shell=bash
# For bash scripts to source: pinned tools in folders of their own under target/tools, installed when first needed.
# Nothing outside the repository is touched.

tools=target/tools

section() {
    printf '\n=== %s (after %d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60))
}

# The first Python that is new enough for the pinned packages.
find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "Python 3.10 or newer is needed; set PYTHON to it if it is not on the PATH." >&2
    return 1
}

# python_tools NAME: tests/requirements-NAME.txt in target/tools/NAME. A stamp tells a finished install from a broken or
# an outdated one.
python_tools() {
    local folder=$tools/$1 requirements=tests/requirements-$1.txt python stamp
    python=$(find_python)
    stamp="$(cksum <"$requirements") $("$python" --version)"
    if [ "$(cat "$folder/stamp" 2>/dev/null)" != "$stamp" ]; then
        echo "Installing $requirements into $folder"
        "$python" -m venv --clear "$folder"
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$requirements"
        echo "$stamp" >"$folder/stamp"
    fi
}

# cargo_tool NAME VERSION: a command from crates.io in target/tools/cargo/bin. A debug build: compiled in half the time,
# and fast enough.
cargo_tool() {
    local folder=$tools/cargo
    if [ "$(cat "$folder/$1.stamp" 2>/dev/null)" != "$2" ]; then
        echo "Installing $1 $2 into $folder"
        cargo install --quiet --locked --debug --force --root "$folder" "$1@$2"
        echo "$2" >"$folder/$1.stamp"
    fi
}
