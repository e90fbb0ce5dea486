# The daily commands. `just --list` shows them; CONTRIBUTING.md explains them.

build := env_var_or_default("SPOT_BUILD_DIR", "build")

# list the recipes
default:
    @just --list

# configure once, then build everything
build:
    [ -e {{build}}/build.ninja ] || meson setup {{build}}
    ninja -C {{build}}

# the unit tests, or the named ones: just unit base/time
unit *NAMES: build
    meson test -C {{build}} --no-rebuild --print-errorlogs {{ if NAMES == "" { "--suite unit" } else { NAMES } }}

# one end-to-end test: just e2e move
e2e NAME: build
    python3 tests/integration/e2e/e2e_{{NAME}}.py {{build}}

# one seed of the simulation: just sim 42 --trace
sim SEED *OPTIONS: build
    {{build}}/tests/sim/sim {{SEED}} {{OPTIONS}}

# the main story without any account
demo *OPTIONS:
    deploy/demo {{OPTIONS}}

# the rules that a compiler does not know
lint: build
    meson test -C {{build}} --no-rebuild --print-errorlogs --suite lint

# clang-format 16 on the C files that differ from main
format:
    git diff --name-only --diff-filter=d main -- '*.c' '*.h' | xargs -r clang-format-16 -i

# lower every ratchet of the lints to today's numbers
ratchet:
    for l in sizes folders circles statements names format english; do tests/lint/$l.py --update; done
